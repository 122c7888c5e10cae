"""Per-process limits on connections, requests and request body memory. Event loop only."""

import logging
import resource
from collections import Counter
from collections.abc import Callable, Collection, Hashable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from service import errors
from service.errors import ApiError
from service.http_server.bodies import BodyMemory, IncomingBody, KnownAddresses
from service.http_server.callers import AcceptedCredentials, credential_digest
from service.http_server.client import address_of, canonical_address, network_of, wide_network_of
from service.http_server.connections import RESERVED_SHARE, Connection, Connections, Source
from service.http_server.request_metrics import Rejections
from service.http_server.turns import Kind, Lane, Turns
from service.principal import Principal
from service.settings import Limits

logger = logging.getLogger(__name__)

# For the database, files and rejected connections.
RESERVED_DESCRIPTORS = 1_000
# Per address, while half of all request slots are in use.
MAX_REQUESTS_UNDER_LOAD = 32


READINESS_PATH = "/readyz"
HEALTH_PATHS = ("/healthz", READINESS_PATH)
SIGN_IN_PATHS = (
    "/api/v1/auth/cli-config",
    "/.well-known/authzen-configuration",
    "/api/openapi.json",
    "/api/v1/auth/workload-token",
)
"""Discovery and sign-in over the network, for clients without a credential."""
RESERVED_PATHS = frozenset(HEALTH_PATHS + SIGN_IN_PATHS)
RESERVED_METHODS = ("GET", "HEAD", "POST")
# Requests for discovery and sign-in beyond the limits, in total and by network.
MAX_RESERVED_REQUESTS, MAX_RESERVED_REQUESTS_OF_NETWORK = 32, 8


class Requests:
    """The limits of running and waiting requests: in total and by client address (`Limits`), lower under load.

    Requests without an accepted credential have a quarter of all. Those for discovery and sign-in have places beyond
    the limits.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.total = 0
        self._counts: Counter[Hashable] = Counter()
        """By address, and by the names of the smaller limits."""

    def enter(self, address: str | None, kind: Kind = Kind.ACCEPTED) -> Callable[[], None]:
        """Acquire a slot, or raise 503; return the idempotent function that releases it."""
        if kind is Kind.RESERVED and address is not None and not self._has_reserved_room(address):
            # The overflow of one network must not use up the reserved places of the others.
            kind = Kind.UNKNOWN
        if address is None:
            counted: tuple[Hashable, ...] = ()
            has_room = self.total < self.limits.max_requests
        elif kind is Kind.RESERVED:
            counted = (kind, (kind, wide_network_of(address)))
            has_room = True
        else:
            counted = (address, kind)
            has_room = self._has_room(address, kind)
        if not has_room:
            raise errors.overloaded("too many requests are waiting")
        self.total += 1
        self._counts.update(counted)
        active = True

        def leave() -> None:
            nonlocal active
            if active:
                active = False
                self.total -= 1
                for each in counted:
                    self._counts[each] -= 1
                    if not self._counts[each]:
                        del self._counts[each]

        return leave

    def _has_room(self, address: str, kind: Kind) -> bool:
        max_total, max_per_address = self.limits.max_requests, self.limits.max_requests_per_address
        if self.total >= max_total // 2:
            max_per_address = min(max_per_address, MAX_REQUESTS_UNDER_LOAD)
        if kind is Kind.UNKNOWN and self._counts[kind] >= max_total // 4:
            return False
        return self.total < max_total - max_total // RESERVED_SHARE and self._counts[address] < max_per_address

    def _has_reserved_room(self, address: str) -> bool:
        own = self._counts[Kind.RESERVED, wide_network_of(address)]
        return self._counts[Kind.RESERVED] < MAX_RESERVED_REQUESTS and own < MAX_RESERVED_REQUESTS_OF_NETWORK


class Throttle(Protocol):
    def refusal(self, address: str, digest: bytes | None) -> ApiError | None:
        """Return the 429 for a request without a recently accepted credential; None if it may be tried."""

    def record_unauthenticated(self, address: str, digest: bytes | None) -> None:
        """Count an answered request whose credential was not checked."""

    def forget(self, digest: bytes) -> None:
        """Forget a credential that is no longer accepted."""


@dataclass
class Admission:
    limits: Limits
    proxies: Collection[str] = frozenset()
    rejections: Rejections = field(default_factory=Rejections)
    throttle: Throttle | None = None

    def __post_init__(self) -> None:
        self.connections = Connections(self.limits)
        self.bodies = BodyMemory(self.limits)
        self.requests = Requests(self.limits)
        self.known = KnownAddresses()
        self.accepted = AcceptedCredentials()
        self.turns = Turns()

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

    def lane_of(self, scope: MutableMapping[str, Any], *, pipelined: bool) -> Lane:
        """Return the lane of a request, by its own address also behind a trusted proxy.

        Sets `frost.refusal`, the error for a client without an accepted credential that has sent too many requests.
        """
        address = address_of(scope, self.proxies)
        if address is None:
            return Lane(Kind.ACCEPTED, scope["client"])
        network, path = wide_network_of(address), scope["path"]
        if path in RESERVED_PATHS and scope["method"] in RESERVED_METHODS:
            return Lane(Kind.RESERVED, (network, path in HEALTH_PATHS))
        digest = scope["frost.credential"] = credential_digest(scope["headers"])
        if digest is not None and (principal := self.accepted.get(digest)) is not None:
            return Lane(Kind.PIPELINED if pipelined else Kind.ACCEPTED, principal.actor_id)
        if self.throttle is not None:
            scope["frost.refusal"] = self.throttle.refusal(address, digest)
        return Lane(Kind.UNKNOWN, network)

    def record_accepted(self, scope: MutableMapping[str, Any], principal: Principal) -> None:
        """Record the accepted credential of a request over the network."""
        if (address := self.address_of(scope)) is None:
            return
        self.known.add(address)
        if (digest := scope.get("frost.credential")) is not None:
            self.accepted.add(digest, principal)
        connection: Connection | None = scope.get("frost.connection")
        if connection is not None:
            self.connections.protect(connection, principal)

    def record_unauthenticated(self, scope: MutableMapping[str, Any]) -> None:
        """Count a request of a client that needs no credential, has none, or requests something that does not exist."""
        if self.throttle is not None and scope["frost.lane"].kind is Kind.UNKNOWN:
            self.throttle.record_unauthenticated(address_of(scope, self.proxies) or "", scope["frost.credential"])

    def record_refused(self, scope: MutableMapping[str, Any]) -> None:
        """Record that the credential of a request over the network is not valid, or no longer."""
        if (digest := scope.get("frost.credential")) is not None:
            if self.throttle is not None:
                self.throttle.forget(digest)
            if (principal := self.accepted.discard(digest)) is not None:
                self.connections.revoke(str(principal.credential_id))

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
            self.connections.resize(max(soft - RESERVED_DESCRIPTORS, soft // 4))
            logger.warning(
                "at most %s connections instead of %s: the limit of open files is %s (ulimit -n)",
                self.connections.max_total,
                self.limits.max_connections,
                soft,
            )
