"""Functions that wait until a test lets them continue."""

import threading
from collections.abc import Callable
from typing import Any

WAIT_SECONDS = 60


class Gate:
    """Replaces a function: its calls wait until `opened` is set. `most` is the largest number of calls at a time.

    Args:
        full: `is_full` is set when so many calls wait.
        holds: which calls wait, by their arguments.
    """

    def __init__(self, function: Callable[..., Any], full: int = 1, holds: Callable[..., bool] = lambda *_: True):
        self.function, self.full, self.holds = function, full, holds
        self.inside = self.most = 0
        self.is_full, self.opened, self._lock = threading.Event(), threading.Event(), threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        if self.holds(*arguments):
            self._enter(1)
            self.opened.wait(WAIT_SECONDS)
            self._enter(-1)
        return self.function(*arguments)

    def _enter(self, step: int) -> None:
        with self._lock:
            self.inside += step
            self.most = max(self.most, self.inside)
            if self.inside >= self.full:
                self.is_full.set()
