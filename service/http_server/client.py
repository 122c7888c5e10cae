"""The client of a request, and the key of the request's content.

Its address is that of the peer, or `X-Forwarded-For` of a trusted proxy. `CLIENT` is for code without access to the
request.
"""

from collections.abc import Collection, Hashable, Mapping, MutableMapping
from contextvars import ContextVar
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Any, NamedTuple

MAX_ADDRESS_LENGTH = 45
"""Of an IP address as text."""
MAX_CACHED_ADDRESSES = 4_096
CONTENT = "frost.content"
"""The key of a complete body in the scope, for functions that cannot wait for it."""


def address_of(scope: MutableMapping[str, Any], proxies: Collection[str]) -> str | None:
    """Return the client address, and keep it in the scope; None over the unix socket.

    From a trusted proxy, it is the last address in `X-Forwarded-For` that is not a trusted proxy.
    """
    if "frost.address" not in scope:
        scope["frost.address"] = _find_address(scope, proxies)
    address: str | None = scope["frost.address"]
    return address


def _find_address(scope: Mapping[str, Any], proxies: Collection[str]) -> str | None:
    client = scope.get("client")
    if not client or peer_uid(scope) is not None:
        return None
    peer = canonical_address(str(client[0])) or str(client[0])
    if peer not in proxies:
        return peer
    headers = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    for hop in reversed([part.strip() for value in headers for part in value.split(",")]):
        address = canonical_address(hop)
        if address is None:
            break
        if address not in proxies:
            return address
    return peer


def canonical_address(text: str) -> str | None:
    """Return an IP address in canonical form, IPv4-mapped IPv6 as IPv4; None if invalid."""
    return _canonical_address(text) if len(text) <= MAX_ADDRESS_LENGTH else None


@lru_cache(MAX_CACHED_ADDRESSES)
def _canonical_address(text: str) -> str | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return str((address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address)


def network_of(address: str) -> str:
    """Return an IPv4 address unchanged, or the /64 prefix of an IPv6 address."""
    return _network_of(address) if len(address) <= MAX_ADDRESS_LENGTH else address


@lru_cache(MAX_CACHED_ADDRESSES)
def _network_of(address: str) -> str:
    try:
        number = ip_address(address)
    except ValueError:
        return address
    return address if not isinstance(number, IPv6Address) else str(IPv6Address(int(number) >> 64 << 64))


@lru_cache(MAX_CACHED_ADDRESSES)
def wide_network_of(address: str) -> str:
    """Return the /24 prefix of an IPv4 address or the /64 prefix of an IPv6 address.

    A host may change its address within it, so it is one client as long as it has no accepted credential.
    """
    network = network_of(address)
    return network if ":" in network else f"{network.rpartition('.')[0]}.0"


def peer_uid(scope: Mapping[str, Any]) -> int | None:
    """Return the user id of a unix socket peer; None over TCP."""
    host, _ = scope.get("client") or ("", 0)
    return int(host.removeprefix("uid:")) if host.startswith("uid:") else None


class Client(NamedTuple):
    key: Hashable = None
    """The address, or the peer process over the unix socket."""
    scope: MutableMapping[str, Any] | None = None
    """The scope of the request."""


CLIENT: ContextVar[Client] = ContextVar("frost_client", default=Client())  # noqa: B039


class client_of:
    """Set the client of the code in this context."""

    __slots__ = ("_client", "_token")

    def __init__(self, key: Hashable, scope: MutableMapping[str, Any] | None = None) -> None:
        self._client = Client(key, scope)

    def __enter__(self) -> None:
        self._token = CLIENT.set(self._client)

    def __exit__(self, *_: object) -> None:
        CLIENT.reset(self._token)
