"""The entry point: on a terminal, no command opens the screens; anything else runs a command.

A command never loads Textual. The screens start the local platform while they load.
"""

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING

from tui import INTERRUPTED, exit_at_once, launch

if TYPE_CHECKING:
    from tui.state.debug_log import DebugLog

NOT_A_TERMINAL = "the interactive screens need a terminal; for scripts use the commands: frost --help"
DUMB = "this terminal (TERM=dumb) cannot show the screens; the commands work here: frost --help"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run frost and return the exit code. All output is flushed then, and Ctrl-C is ignored."""
    try:
        _open_closed_streams()
        code = _run(arguments)
    except KeyboardInterrupt:  # between two steps that handle it themselves
        code = INTERRUPTED
    _end(code)
    return code


def _open_closed_streams() -> None:
    """Open the standard streams that are closed, so that no other file gets their descriptors.

    Standard input is then empty, and standard error is discarded. Standard output is opened read-only: a command that
    loses its output must fail.
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
    """Ignore Ctrl-C, flush the output and wait for threads. At exit, the interpreter would reset the handler."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # the reader has closed the pipe
            stream.flush()
    if threading.active_count() > 1:
        from tui.terminal.shutdown import await_threads

        await_threads(code)


def _run(arguments: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    flags = launch.parse(words)
    if flags is None:
        # A command ends before a collection would pay off and needs none at exit. Together this saves a quarter of its
        # time.
        gc.disable()
        with _loading():
            from client import lazy_modules

            lazy_modules.install()
            from client.commands import interruption
            from client.commands.command import Lazy
            from client.commands.root import main as commands
            from client.commands.root import root
        interruption.install()

        # Register `frost web` here: it belongs to this package.
        root.lazy["web"] = Lazy("tui.web.command:web", "Open the screens in a browser on this machine.")
        code = commands(words)
        gc.freeze()
        return code
    # Textual paints on standard error.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return _refuse(NOT_A_TERMINAL)
    if os.environ.get("TERM", "") in ("dumb", ""):
        return _refuse(DUMB)
    for name, value in (("--tenant", flags.tenant), ("--config", flags.config)):
        if value == "":
            return _refuse(f"{name} requires a value")
    return open_screens(flags)


def _refuse(text: str) -> int:
    sys.stderr.write(f"frost: {text}\n")
    return 2


def open_screens(flags: launch.Launch) -> int:
    """Run the screens on standard input and output. Return the exit code."""
    from tui.terminal.shutdown import ShutdownWatcher

    shutdown = ShutdownWatcher(sys.stdin.fileno())
    shutdown.watch()
    with _loading():
        from client import lazy_modules

        lazy_modules.install(lazy_modules.OF_SCREENS)
        from client.connection import resolve
        from client.errors import FrostError
        from client.platform.control import answers

    try:
        flags = _check_tenant(flags)
        connection = resolve(os.environ, path=flags.config)
        for line in connection.config.repairs:  # visible again after the screens close
            sys.stderr.write(f"frost: warning: {line}\n")
        debug_log = _open_debug_log() if flags.debug else None
        asleep = connection.is_local and not answers(connection.endpoint.path)
    except FrostError as error:
        sys.stderr.write(f"frost: {error.message}\n" + (f"{error.hint}\n" if error.hint else ""))
        return int(error.exit_code)

    def wake() -> None:
        # If the platform does not start, the first request shows the reason on the screens.
        with suppress(FrostError):
            connection.start()

    if asleep:
        threading.Thread(target=wake, daemon=True).start()
    # How long Esc waits for the rest of an escape sequence, in milliseconds. The user's own value has precedence.
    os.environ.setdefault("ESCDELAY", "25")
    _choose_colours(flags.no_color)
    gc.disable()
    with _loading():
        omit_palette()
        from tui.shell.app import start

    code = start(connection, flags, shutdown, debug_log)
    if debug_log is not None:
        sys.stderr.write(f"frost: requests and responses are logged in {debug_log.path}\n")
    return code


def omit_palette() -> None:
    """Put empty classes in place of Textual's command palette. The screens have their own (tui/shell/palette.py).

    Textual imports its palette with all widgets that it knows, which takes a twelfth of the time to the first frame.
    """
    palette = ModuleType("textual.command")
    for name in ("CommandListItem", "CommandPalette", "DiscoveryHit", "Hit", "Hits", "Provider", "SimpleProvider"):
        setattr(palette, name, type(name, (), {}))
    sys.modules.setdefault(palette.__name__, palette)


def _check_tenant(flags: launch.Launch) -> launch.Launch:
    """Check the tenant of the flag or the variable, and fold its case, as the commands do. Raises FrostError."""
    variable = os.environ.get("FROST_TENANT")
    if flags.tenant is None and not variable:
        return flags
    with _loading():
        from client.tenancy import check_id
    if flags.tenant is not None:
        return flags._replace(tenant=check_id(flags.tenant, "--tenant"))
    os.environ["FROST_TENANT"] = check_id(str(variable), "FROST_TENANT")
    return flags


def _open_debug_log() -> "DebugLog":
    from tui.state.debug_log import DebugLog, debug_log_path

    return DebugLog(debug_log_path(os.environ))


@contextmanager
def _loading() -> Iterator[None]:
    """Exit immediately on Ctrl-C: during an import, a KeyboardInterrupt becomes a traceback or is swallowed."""
    if signal.getsignal(signal.SIGINT) not in (signal.default_int_handler, exit_at_once):
        yield
        return
    signal.signal(signal.SIGINT, exit_at_once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _choose_colours(no_color: bool) -> None:
    """Set the colour variables that Textual reads at import. An empty NO_COLOR has no effect, by its convention."""
    if no_color:
        os.environ["NO_COLOR"] = "1"
    if os.environ.get("NO_COLOR"):
        # Only a theme of the terminal's colours turns off Textual's own shades of grey.
        os.environ["TEXTUAL_THEME"] = "ansi-dark"
    else:
        os.environ.pop("NO_COLOR", None)


if __name__ == "__main__":
    code = main()
    # Python 3.11 sets a flag if Ctrl-C interrupts code run from a string (a dataclass during an import), and `-m` then
    # exits by the signal. Running another string clears the flag.
    exec("")  # noqa: S102
    sys.exit(code)
