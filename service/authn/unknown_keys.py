"""Log lines about tokens whose key ID an issuer does not have.

Anyone can invent key IDs, so their number is limited. The limit counts key IDs and not lines: repeated use of one ID
must not hide another, such as that of a key to which the provider has just changed.
"""

import logging
import threading
from collections import Counter
from collections.abc import Callable

logger = logging.getLogger(__name__)

MAX_IDS = 10
"""Key IDs with a line of their own in a period; the others are counted."""
PERIOD_SECONDS = 60.0
MAX_COUNTED = 200
MAX_ID_LENGTH = 100


class UnknownKeyLog:
    """Logs each key ID once in a period. After a period with too many IDs, a line has the number of the others."""

    def __init__(self, issuer: str, clock: Callable[[], float]) -> None:
        self._issuer = issuer
        self._clock = clock
        self._lock = threading.Lock()
        self._began_at = float("-inf")
        self._logged: set[str] = set()
        self._others: Counter[str] = Counter()

    def record(self, kid: str) -> None:
        """Record a refused token."""
        kid = kid[:MAX_ID_LENGTH]
        with self._lock:
            now = self._clock()
            if now - self._began_at >= PERIOD_SECONDS:
                self._log_others()
                self._began_at = now
                self._logged.clear()
            if kid in self._logged:
                return
            if len(self._logged) >= MAX_IDS:
                if kid in self._others or len(self._others) < MAX_COUNTED:
                    self._others[kid] += 1
                return
            self._logged.add(kid)
        logger.info("a token of %s is refused: the issuer has no key with its key ID %r", self._issuer, kid)

    def _log_others(self) -> None:
        if not self._others:
            return
        kid, times = self._others.most_common(1)[0]
        logger.info(
            "tokens of %s were refused: the issuer has no keys with %s more key IDs, most often %r (%s times)",
            self._issuer,
            len(self._others),
            kid,
            times,
        )
        self._others.clear()
