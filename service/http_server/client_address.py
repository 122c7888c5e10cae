"""The client address of a request: the peer of the connection, or a header of a trusted proxy."""

from collections.abc import Collection, Mapping
from ipaddress import IPv6Address, ip_address
from typing import Any


def address_of(scope: Mapping[str, Any], proxies: Collection[str]) -> str | None:
    """Return the client address of a request; None over the unix socket.

    `X-Forwarded-For` is only read from a trusted proxy: its last address that is not a trusted proxy.
    """
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
    """Return an IP address in canonical form, IPv4-mapped IPv6 as IPv4; None for other text."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return str((address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address)


def network_of(address: str) -> str:
    """Return the IPv4 address, or the /64 prefix of an IPv6 address, which identifies a customer."""
    try:
        number = ip_address(address)
    except ValueError:
        return address
    return address if not isinstance(number, IPv6Address) else str(IPv6Address(int(number) >> 64 << 64))


def peer_uid(scope: Mapping[str, Any]) -> int | None:
    """Return the user id of the peer of the unix socket; None over TCP."""
    host, _ = scope.get("client") or ("", 0)
    return int(host.removeprefix("uid:")) if host.startswith("uid:") else None
