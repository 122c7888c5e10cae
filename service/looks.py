"""What a look at the platform's health found, kept for a moment.

Anybody may ask for readiness, and looking writes to the database under the audit log's lock: however often it is asked
for, and by how many at once, there is one look a second.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping

KEPT_SECONDS = 1.0


class Looks:
    """The last look of this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.line = asyncio.Lock()
        """Of those on the event loop who ask for a look."""
        self._last: tuple[float, Mapping[str, str]] | None = None

    def newest(self, look: Callable[[], Mapping[str, str]]) -> Mapping[str, str]:
        """What was found within the last second, else what `look` finds now."""
        with self._lock:
            if self._last is None or self._clock() - self._last[0] >= KEPT_SECONDS:
                self._last = (self._clock(), look())
            return self._last[1]
