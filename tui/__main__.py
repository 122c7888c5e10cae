"""The entry point: no command word on a terminal opens the screens, anything else is a command.

A command never loads Textual; the screens start the local platform before they do.
"""

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from tui import INTERRUPTED, exit_at_once, launch

NOT_A_TERMINAL = "frost opens its screens on a terminal only; for scripts there are commands: frost --help"
DUMB = "this terminal (TERM=dumb) cannot show the screens; the commands work here: frost --help"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run frost and return the exit code. Everything has been printed then, and Ctrl-C changes nothing any more."""
    try:
        _open_closed_streams()
        code = _run(arguments)
    except KeyboardInterrupt:  # between two steps that each end by it in their own way
        code = INTERRUPTED
    _end(code)
    return code


def _open_closed_streams() -> None:
    """Open the standard streams that the process was started without, so that no other file gets their numbers.

    Standard input is then empty, and standard error goes nowhere. Standard output stays unwritable: a command whose
    output is lost must fail.
    """
    if sys.stdin is None:
        _open_nowhere(0, os.O_RDONLY)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115  (a descriptor, for the whole process)
    if sys.stdout is None:
        _open_nowhere(1, os.O_RDONLY)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        _open_nowhere(2, os.O_WRONLY)
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115


def _open_nowhere(number: int, flags: int) -> None:
    descriptor = os.open(os.devnull, flags)
    if descriptor != number:
        os.dup2(descriptor, number)
        os.close(descriptor)


def _end(code: int) -> None:
    """Ignore Ctrl-C and flush. At its own end the interpreter resets the handler, and Ctrl-C would kill it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # the reader is gone
            stream.flush()
    if threading.active_count() > 1:
        from tui.ending import await_threads

        await_threads(code)


def _run(arguments: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    wanted = launch.parse(given)
    if wanted is None:
        # A command is over before a collection would pay, and at its end nothing needs to be gone through: together
        # a quarter of its time.
        gc.disable()
        with _loading():
            from client.commands import interruption
            from client.commands.frame import Lazy
            from client.commands.root import main as commands
            from client.commands.root import root
        interruption.install()

        # A command like the others for who types it, but of this package.
        root.lazy["web"] = Lazy("tui.web.command:web", "The screens, in a browser on this machine.", ours=True)
        code = commands(given)
        gc.freeze()
        return code
    # Standard error as well: it is what Textual paints on.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return _refuse(NOT_A_TERMINAL)
    if os.environ.get("TERM", "") in ("dumb", ""):
        return _refuse(DUMB)
    return open_screens(wanted)


def _refuse(words: str) -> int:
    sys.stderr.write(f"frost: {words}\n")
    return 2


def open_screens(wanted: launch.Launch) -> int:
    """Show the screens on standard input and output until they are left; the exit code."""
    from tui.ending import Ending

    ending = Ending(sys.stdin.fileno())
    ending.watch()
    with _loading():
        from client.connection import resolve
        from client.errors import FrostError
        from client.local import answers

    try:
        connection = resolve(wanted.config, os.environ)
        for line in connection.config.repairs:  # above the screens: it is read when they are left
            sys.stderr.write(f"frost: warning: {line}\n")
        asleep = connection.is_local and not answers(connection.endpoint.path)
    except FrostError as error:
        sys.stderr.write(f"frost: {error.message}\n" + (f"{error.hint}\n" if error.hint else ""))
        return int(error.exit_code)

    def wake() -> None:
        # A platform that does not start is told by the first request, with its reason, inside the screens.
        with suppress(FrostError):
            connection.start()

    if asleep:
        threading.Thread(target=wake, daemon=True).start()
    # A bare Esc waits this long for the rest of a key; a value of the user's own wins.
    os.environ.setdefault("ESCDELAY", "25")
    _choose_colours(wanted.no_color)
    gc.disable()
    with _loading():
        from tui.app import start

    return start(connection, wanted, ending)


@contextmanager
def _loading() -> Iterator[None]:
    """Let Ctrl-C end the program at once: KeyboardInterrupt in an import becomes a traceback, or is swallowed."""
    if signal.getsignal(signal.SIGINT) not in (signal.default_int_handler, exit_at_once):
        yield
        return
    signal.signal(signal.SIGINT, exit_at_once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _choose_colours(no_color: bool) -> None:
    """Textual looks at these once, at its import; an empty NO_COLOR means nothing by its convention."""
    if no_color:
        os.environ["NO_COLOR"] = "1"
    if os.environ.get("NO_COLOR"):
        # Its own grey shades go only with a theme of the terminal's colours.
        os.environ["TEXTUAL_THEME"] = "ansi-dark"
    else:
        os.environ.pop("NO_COLOR", None)


if __name__ == "__main__":
    code = main()
    # Python 3.11 marks itself when Ctrl-C comes while a class is made from text (a dataclass, in an import), and `-m`
    # then ends by the signal whatever became of it; the next text that is run takes the mark away.
    exec("")  # noqa: S102
    sys.exit(code)
