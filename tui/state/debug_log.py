"""The log of requests and responses for `--debug`, in a file: the screens have the terminal."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from client.errors import usage
from client.paths import home, make_private

if TYPE_CHECKING:
    from client.transport.exchange import RequestLogEntry


def debug_log_path(environ: Mapping[str, str]) -> str:
    """Return the path of the log: `$HOME/.cli/debug.log`."""
    return f"{home(environ)}/.cli/debug.log"


class DebugLog:
    """A new log file that only the user can read.

    Raises:
        FrostError: The file cannot be created (exit 2).
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._has_failed = False
        try:
            make_private(os.path.dirname(path))  # noqa: PTH120
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.fdopen(os.open(path, flags, 0o600), "w", buffering=1, encoding="utf-8")
            os.fchmod(self._file.fileno(), 0o600)
        except OSError as error:
            raise usage(f"cannot write {path}: {error.strerror}", "start frost without --debug") from error

    def write(self, exchange: "RequestLogEntry") -> str:
        """Log an exchange. Its line contains no secrets.

        Returns:
            A warning if the file cannot be written, once. An error must not lose the response to a request.
        """
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        try:
            self._file.write(f"{time} {exchange.line()}\n")
        except OSError as error:
            has_failed, self._has_failed = self._has_failed, True
            return "" if has_failed else f"Cannot write {self.path}: {error.strerror}. The log is incomplete"
        return ""
