#!/bin/sh
# Serve the platform with the secrets that a container runtime mounts as files.
set -eu
secrets=${FROST_SECRETS:-/run/secrets}
# libpq and asyncpg read it. The command line and the database URL, which other users may see, have no password.
PGPASSWORD=$(cat "$secrets/database-password")
export PGPASSWORD
exec frost platform serve --secret-file "$secrets/platform.key" --idle-minutes 0 "$@"
