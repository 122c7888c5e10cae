"""The screens and the entry point of the program.

Until the entry point runs, no handler catches a KeyboardInterrupt, so Ctrl-C exits immediately. This applies to the
program only: importing this package elsewhere changes no handler.
"""

import _signal  # type: ignore[import-not-found]  # `signal` loads other modules first, where Ctrl-C prints a traceback
import os
import sys

INTERRUPTED = 130


def exit_at_once(*_: object) -> None:
    """Exit on Ctrl-C during imports, where a KeyboardInterrupt would not reach its handler."""
    os._exit(INTERRUPTED)


_is_program = sys.argv[0] == "-m" or sys.argv[0].rpartition("/")[2] == "frost"
if _is_program and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, exit_at_once)
