#!/bin/sh
# Create the secrets of the example, once, and the file .env that lets the platform read them.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
create() { # NAME COMMAND...: never replaces a secret
  file=secrets/$1
  shift
  [ -e "$file" ] || { "$@" >"$file.new" && mv "$file.new" "$file"; }
  chmod 0640 "$file"
}
create database-password sh -c 'od -An -N32 -tx1 /dev/urandom | tr -d " \n"'
create platform.key head -c 32 /dev/urandom
# The platform runs as its own user and as this group, which can read the secrets. An existing file keeps its lines.
[ -e .env ] || printf 'FROST_ISSUER=\n' >.env
grep -q '^FROST_GROUP=' .env || printf 'FROST_GROUP=%s\n' "$(id -g)" >>.env
echo "created secrets and .env: set FROST_ISSUER in .env, then run docker compose up"
