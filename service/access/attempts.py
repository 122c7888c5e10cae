"""Guesses are counted: wrong credentials from one address, and wrong secrets of one key prefix. hostile D01, D02

Kept in memory, per process and bounded: it is a brake, not a decision. An address that has used up its guesses is
refused before anything is looked up, but for credentials that were good here lately; a prefix only ever turns a 401
into a 429, so that nobody can lock a key out by knowing how it begins. The unix socket has no address: whoever is
there is this very user.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from ipaddress import IPv6Address, ip_address

from service.access.ratelimit import seconds, too_many

ADDRESS_GUESSES, ADDRESS_PACE = 300, 0.2  # at once; seconds until one comes back
PREFIX_GUESSES, PREFIX_PACE = 30, 2.0
MOST_KEPT = 10_000


class Brake:
    """A number of guesses for each name, coming back at an even pace."""

    def __init__(self, guesses: int, pace: float, clock: Callable[[], float]) -> None:
        self._allowance = (guesses - 1) * pace
        self._pace = pace
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def wait(self, name: str) -> float:
        """Seconds until another guess of this name is heard; 0 when it is now."""
        return max(0.0, self._full_at.get(name, 0.0) - self._clock() - self._allowance)

    def note(self, name: str) -> None:
        """One wrong guess."""
        now = self._clock()
        self._full_at[name] = max(self._full_at.get(name, 0.0), now) + self._pace
        self._full_at.move_to_end(name)
        if len(self._full_at) > MOST_KEPT:
            self._full_at.popitem(last=False)


class Attempts:
    """The guesses this process has seen."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._lock = threading.Lock()
        self._addresses = Brake(ADDRESS_GUESSES, ADDRESS_PACE, clock)
        self._prefixes = Brake(PREFIX_GUESSES, PREFIX_PACE, clock)
        self._good: OrderedDict[bytes, None] = OrderedDict()

    def require_patience(self, address: str | None, secret: str) -> None:
        """Refuse a credential from an address that has guessed too often, unless it was good here lately.

        Raises:
            Refusal: 429 with `Retry-After`.
        """
        if address is None:
            return
        with self._lock:
            wait = self._addresses.wait(_network(address))
            known = wait and _mark(secret) in self._good
        if wait and not known:
            raise _too_many(wait)

    def wrong(self, address: str | None, prefix: str | None = None) -> None:
        """Count a wrong credential, of an address and of the key it began like.

        Raises:
            Refusal: 429 when either has been wrong too often; what was presented stays wrong all the same.
        """
        with self._lock:
            wait = 0.0
            for brake, name in ((self._addresses, address and _network(address)), (self._prefixes, prefix)):
                if name:
                    this = brake.wait(name)
                    if not this:
                        brake.note(name)
                    wait = max(wait, this)
        if wait:
            raise _too_many(wait)

    def right(self, address: str | None, secret: str) -> None:
        """Remember a credential that was good."""
        if address is None:
            return
        with self._lock:
            mark = _mark(secret)
            self._good[mark] = None
            self._good.move_to_end(mark)
            if len(self._good) > MOST_KEPT:
                self._good.popitem(last=False)


def _too_many(wait: float) -> Exception:
    return too_many(seconds(int(wait * 1_000_000)))


def _mark(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


def _network(address: str) -> str:
    """The address; of IPv6 the network a single customer is given."""
    try:
        number = ip_address(address)
    except ValueError:
        return address
    return address if not isinstance(number, IPv6Address) else str(IPv6Address(int(number) >> 64 << 64))
