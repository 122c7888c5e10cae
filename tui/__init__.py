"""The screens and the entry point of the program.

Until the entry point runs, no handler catches a KeyboardInterrupt, so Ctrl-C exits immediately. As process 1 of a
container, for which the kernel discards signals without a handler, the other signals that stop a program exit too. This
applies to the program only: importing this package elsewhere changes no handler.
"""

import _signal  # type: ignore[import-not-found]  # `signal` loads other modules first, where Ctrl-C prints a traceback
import os
import sys

INTERRUPTED = 130


def exit_at_once(number: int, _: object) -> None:
    """Exit on a signal. In an import, a KeyboardInterrupt would not reach its handler."""
    os._exit(128 + number)


_is_program = sys.argv[0] == "-m" or sys.argv[0].rpartition("/")[2] == "frost"
if _is_program and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, exit_at_once)
if _is_program and os.getpid() == 1:
    for _number in (_signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT):
        if _signal.getsignal(_number) == _signal.SIG_DFL:
            _signal.signal(_number, exit_at_once)
