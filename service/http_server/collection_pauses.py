"""Short pauses of the garbage collector.

A full collection visits all containers, and stops all threads. With the documents of some dozen large policies in the
caches, this takes up to 150 ms. Objects that survive a full collection are probably long-lived, so they are frozen:
later collections do not visit them. Reference counts still free frozen objects. A cycle that becomes garbage after that
waits for the next collection of all objects, at most once in `REVISIT_SECONDS`.

CPython 3.14 collects in increments, which makes this module unnecessary.
"""

import gc
import time
from collections.abc import Callable, Mapping

REVISIT_SECONDS = 600.0
OLDEST = 2
# Full collections are cheap and short if they are frequent: each visits only objects created since the last one.
THRESHOLDS = (700, 10, 2)


class CollectionPauses:
    """Freezes the survivors of full collections.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._visited_at = clock()

    def start(self) -> None:
        gc.set_threshold(*THRESHOLDS)
        gc.freeze()
        gc.callbacks.append(self._collecting)

    def _collecting(self, phase: str, info: Mapping[str, int]) -> None:
        """Called by the collector before and after each collection, in any thread."""
        if info["generation"] != OLDEST:
            return
        if phase == "stop":
            gc.freeze()
        elif self._clock() - self._visited_at >= REVISIT_SECONDS:
            self._visited_at = self._clock()
            gc.unfreeze()
