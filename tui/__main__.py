"""The entry point: no command word on a terminal opens the screens, anything else is a command.

A command never loads Textual; the screens start the local platform before they do.
"""

import gc
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from tui import launch

NOT_A_TERMINAL = "frost opens its screens on a terminal only; for scripts there are commands: frost --help"
DUMB = "this terminal (TERM=dumb) cannot show the screens; the commands work here: frost --help"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run frost; the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    wanted = launch.parse(given)
    if wanted is None:
        from client.commands.root import main as commands

        return commands(given)
    # Standard error as well: it is what Textual paints on.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return _refuse(NOT_A_TERMINAL)
    if os.environ.get("TERM", "") in ("dumb", ""):
        return _refuse(DUMB)
    return _screens(wanted)


def _refuse(words: str) -> int:
    sys.stderr.write(f"frost: {words}\n")
    return 2


def _screens(wanted: launch.Launch) -> int:
    from client.connection import resolve
    from client.errors import FrostError

    try:
        connection = resolve(wanted.config, os.environ)
    except FrostError as error:
        sys.stderr.write(f"frost: {error.message}\n" + (f"{error.hint}\n" if error.hint else ""))
        return int(error.exit_code)

    def wake() -> None:
        # A platform that does not start is told by the first request, with its reason, inside the screens.
        with suppress(FrostError):
            connection.start()

    threading.Thread(target=wake, daemon=True).start()
    # A bare Esc waits this long for the rest of a key; a value of the user's own wins.
    os.environ.setdefault("ESCDELAY", "25")
    gc.disable()
    from tui.app import start

    return start(connection, wanted)


if __name__ == "__main__":
    sys.exit(main())
