"""Command line of `service.operator.backup` and `service.operator.restore`. Both print one JSON object."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from service.http_server import sockets
from service.operator.archive import InvalidBackup
from service.settings import from_arguments

EXIT_INVALID_BACKUP = 3
"""The exit status for a file that cannot be used; other failures are 1."""

Action = Callable[..., dict[str, Any]]
"""Called with the settings, the path and, for a restore, `trust` and `verify_with`."""


def run(name: str, action: Action, check: Action | None = None) -> None:
    """Run the action and print its result, or exit with the reason of the failure in one line on stderr.

    Args:
        name: module of the command, for its usage.
        check: run instead of `action` if `--check` is given. Only commands with a check verify seals.
    """
    parser = argparse.ArgumentParser(prog=f"python -m service.operator.{name}", allow_abbrev=False)
    parser.add_argument("file", type=Path)
    if check:
        parser.add_argument("--check", action="store_true", help="only say whether it could be done")
        parser.add_argument("--trust", action="store_true", help="restore a backup whose seal cannot be verified")
        parser.add_argument("--verify-with", type=Path, metavar="PATH", help="a copy of the secret, for the seal only")
    arguments, settings_flags = parser.parse_known_args(sys.argv[1:])
    settings = from_arguments(settings_flags, os.environ)
    os.umask(0o077)
    try:
        options = {"trust": arguments.trust, "verify_with": arguments.verify_with} if check else {}
        result = (check if check and arguments.check else action)(settings, arguments.file.absolute(), **options)
    except InvalidBackup as error:
        sys.exit(_fail(str(error), EXIT_INVALID_BACKUP))
    except sockets.StartError as error:
        sys.exit(_fail(str(error), error.status))
    except SQLAlchemyError as error:
        reason = " ".join(str(getattr(error, "orig", error)).split())
        sys.exit(_fail(f"the database cannot be used: {reason}", 1))
    except OSError as error:
        sys.exit(_fail(f"{error.filename or arguments.file}: {error.strerror or error}", 1))
    sys.stdout.write(json.dumps(result) + "\n")


def _fail(reason: str, status: int) -> int:
    sys.stderr.write(f"{reason}\n")
    return status
