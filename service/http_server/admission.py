"""Per-process limits on connections, requests and request body memory. Event loop only."""

import logging
import resource
from collections import Counter
from collections.abc import Callable, Collection, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from service import errors
from service.http_server.bodies import BodyMemory, IncomingBody, KnownAddresses
from service.http_server.client import address_of, canonical_address, network_of
from service.http_server.connections import RESERVED_SHARE, Connections, Source
from service.http_server.request_metrics import Rejections
from service.settings import Limits

logger = logging.getLogger(__name__)

# For the database, files and rejected connections.
RESERVED_DESCRIPTORS = 1_000
# Per address, while half of all request slots are in use.
MAX_REQUESTS_UNDER_LOAD = 32


class Requests:
    """The limits of running and waiting requests: in total and by client address (`Limits`), lower under load."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.total = 0
        self._by_address: Counter[str] = Counter()

    def enter(self, address: str | None) -> Callable[[], None]:
        """Acquire a slot, or raise 503; return the idempotent function that releases it."""
        own = self._by_address[address] if address else 0
        max_total, max_per_address = self.limits.max_requests, self.limits.max_requests_per_address
        if self.total >= max_total // 2:
            max_per_address = min(max_per_address, MAX_REQUESTS_UNDER_LOAD)
        if address:
            max_total -= max_total // RESERVED_SHARE
        if self.total >= max_total or (address and own >= max_per_address):
            raise errors.overloaded("too many requests are waiting")
        self.total += 1
        if address:
            self._by_address[address] += 1
        active = True

        def leave() -> None:
            nonlocal active
            if active:
                active = False
                self.total -= 1
                if address:
                    self._by_address[address] -= 1
                    if not self._by_address[address]:
                        del self._by_address[address]

        return leave


@dataclass
class Admission:
    limits: Limits
    proxies: Collection[str] = frozenset()
    rejections: Rejections = field(default_factory=Rejections)

    def __post_init__(self) -> None:
        self.connections = Connections(self.limits)
        self.bodies = BodyMemory(self.limits)
        self.requests = Requests(self.limits)
        self.known = KnownAddresses()

    def source_of(self, client: tuple[Any, ...]) -> Source:
        address = canonical_address(client[0]) or client[0]
        return Source() if address in self.proxies else Source(network_of(address))

    def address_of(self, scope: MutableMapping[str, Any]) -> str | None:
        """Return the client's IPv4 address or IPv6 /64; None over the unix socket."""
        address = address_of(scope, self.proxies)
        return address and network_of(address)

    def expect_body(self, scope: dict[str, Any], now: float) -> IncomingBody:
        """Track the body of a request as `scope["frost.body"]`."""
        address = self.address_of(scope)
        body = scope["frost.body"] = IncomingBody(
            self.bodies, address, now, known=address is None or address in self.known
        )
        return body

    def record_accepted_credential(self, scope: MutableMapping[str, Any]) -> None:
        if (address := self.address_of(scope)) is not None:
            self.known.add(address)

    def fit_descriptors(self) -> None:
        """Raise the limit of open files, or lower the connection limit to fit it."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = self.limits.max_connections + RESERVED_DESCRIPTORS
        if soft != resource.RLIM_INFINITY and soft < needed:
            limit = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
                soft = limit
            except (OSError, ValueError):
                logger.info("the limit of open files stays %s", soft)
        if soft != resource.RLIM_INFINITY and soft < needed:
            self.connections.max_total = max(soft - RESERVED_DESCRIPTORS, soft // 4)
            logger.warning(
                "at most %s connections instead of %s: the limit of open files is %s (ulimit -n)",
                self.connections.max_total,
                self.limits.max_connections,
                soft,
            )
