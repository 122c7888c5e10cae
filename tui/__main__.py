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

from tui import launch

INTERRUPTED = 130
NOT_A_TERMINAL = "frost opens its screens on a terminal only; for scripts there are commands: frost --help"
DUMB = "this terminal (TERM=dumb) cannot show the screens; the commands work here: frost --help"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run frost; the exit code. What it had to say is said then: Ctrl-C changes nothing any more."""
    try:
        code = _run(arguments)
    except KeyboardInterrupt:  # between two steps that each end by it in their own way
        code = INTERRUPTED
    _end(code)
    return code


def _end(code: int) -> None:
    """Nothing is left but the interpreter's own end, which takes its handler away, and would end by the signal."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # begun with it closed
            with suppress(OSError):  # nobody reads any more
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
            from client.commands.frame import Lazy
            from client.commands.root import main as commands
            from client.commands.root import root

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
    """Ctrl-C ends the program at once: raised in the middle of an import, it came out as a traceback, or as another
    error that swallowed it."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
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
