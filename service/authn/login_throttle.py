"""Guesses are counted: wrong credentials from one address, and wrong secrets of one key prefix. hostile D01, D02

It is a brake, not a decision. An address that has used up its guesses is refused before anything is looked up, but for
credentials that were good here lately; a prefix only ever turns a 401 into a 429, so that nobody can lock a key out by
knowing how it begins. The unix socket has no address: whoever is there is this very user.

Each process keeps its count in memory, bounded. Where several share a PostgreSQL database, guesses that were looked up
there are counted there as well, by the statement that bounds keys: one replica or ten, an address has the same number
of them, and a replica learns from its first wrong guess that the others have heard enough. What never reached the
database, such as a key with a bad checksum, is not worth a write to it: it is counted in memory alone, by each replica
for itself (hostile C01). Which credentials were good lately is each process's own to know; one that is not known where
it arrives waits for its turn like any other from such an address.
"""

import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256

from service.authn import rate_limit
from service.authn.rate_limit import rate_limited, whole_seconds
from service.db.engine import Database
from service.db.errors import ignore_if_read_only
from service.http_server.client_address import network_of

# At once; seconds until one comes back. All of them in a minute, which is how the database counts.
ADDRESS_GUESSES, ADDRESS_PACE = 300, 0.2
PREFIX_GUESSES, PREFIX_PACE = 30, 2.0
MAX_BUCKETS = 10_000
# Guesses between two looks for what is over.
SWEPT_EVERY = 1_000


class TokenBucket:
    """A number of guesses for each name, coming back at an even pace."""

    def __init__(self, guesses: int, pace: float, clock: Callable[[], float]) -> None:
        self._allowance = (guesses - 1) * pace
        self._pace = pace
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def wait(self, name: str) -> float:
        """Seconds until another guess of this name is heard; 0 when it is now."""
        return max(0.0, self._full_at.get(name, 0.0) - self._clock() - self._allowance)

    def hold(self, name: str, seconds: float) -> None:
        """No guess of this name is heard for so long: others have heard as many as there may be."""
        self._full_at[name] = max(self._full_at.get(name, 0.0), self._clock() + self._allowance + seconds)

    def note(self, name: str) -> None:
        """One wrong guess."""
        now = self._clock()
        self._full_at[name] = max(self._full_at.get(name, 0.0), now) + self._pace
        self._full_at.move_to_end(name)
        if len(self._full_at) > MAX_BUCKETS:
            self._full_at.popitem(last=False)


class LoginThrottle:
    """The guesses this process has seen, and in a database that is shared, those of all."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, shared: Database | None = None) -> None:
        self._shared = shared if shared is not None and shared.kind == "postgresql" else None
        self._lock = threading.Lock()
        self._addresses = TokenBucket(ADDRESS_GUESSES, ADDRESS_PACE, clock)
        self._prefixes = TokenBucket(PREFIX_GUESSES, PREFIX_PACE, clock)
        self._good: OrderedDict[bytes, None] = OrderedDict()
        self._swept = itertools.count()

    def require_patience(self, address: str | None, secret: str) -> None:
        """Refuse a credential from an address that has guessed too often, unless it was good here lately.

        Raises:
            Refusal: 429 with `Retry-After`.
        """
        if address is None:
            return
        with self._lock:
            wait = self._addresses.wait(network_of(address))
            known = wait and _mark(secret) in self._good
        if wait and not known:
            raise _too_many(wait)

    def wrong(self, address: str | None, prefix: str | None = None, *, looked_up: bool = False) -> None:
        """Count a wrong credential, of an address and of the key it began like; `looked_up`: in the database.

        Raises:
            Refusal: 429 when either has been wrong too often; what was presented stays wrong all the same.
        """
        counted = (
            (self._addresses, address and network_of(address), ADDRESS_GUESSES),
            (self._prefixes, prefix, PREFIX_GUESSES),
        )
        wait = 0.0
        heard: list[tuple[TokenBucket, str, int]] = []
        with self._lock:
            for brake, name, guesses in counted:
                if name:
                    this = brake.wait(name)
                    if not this:
                        brake.note(name)
                        heard.append((brake, name, guesses))
                    wait = max(wait, this)
        if looked_up and heard and self._shared is not None:
            wait = max(wait, self._count_for_all(self._shared, heard))
        if wait:
            raise _too_many(wait)

    def _count_for_all(self, shared: Database, heard: list[tuple[TokenBucket, str, int]]) -> float:
        """Count in the database; seconds until the next guess, when all replicas together have heard too many."""
        wait = 0.0
        with ignore_if_read_only("a guess could not be counted for all replicas"), shared.write() as connection:
            for brake, name, guesses in heard:
                this = rate_limit.consume(connection, rate_limit.throttle_key(name), guesses)
                if this is not None:
                    with self._lock:
                        brake.hold(name, this)
                    wait = max(wait, this)
            # Last: who holds swept rows and waited for a name's then could wait in a circle with another guess.
            if next(self._swept) % SWEPT_EVERY == 0:
                rate_limit.forget(connection)
        return wait

    def right(self, address: str | None, secret: str) -> None:
        """Remember a credential that was good."""
        if address is None:
            return
        with self._lock:
            mark = _mark(secret)
            self._good[mark] = None
            self._good.move_to_end(mark)
            if len(self._good) > MAX_BUCKETS:
                self._good.popitem(last=False)


def _too_many(wait: float) -> Exception:
    return rate_limited(whole_seconds(int(wait * 1_000_000)))


def _mark(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
