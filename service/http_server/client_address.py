"""Where a request comes from: the other end of the connection, never a header anybody can write. hostile D04"""

from collections.abc import Collection, Mapping
from ipaddress import IPv6Address, ip_address
from typing import Any


def address_of(scope: Mapping[str, Any], proxies: Collection[str]) -> str | None:
    """The address a request came from; None over the unix socket.

    Only from a proxy the operator has named is `X-Forwarded-For` believed: its last address that is no such proxy.
    """
    client = scope.get("client")
    if not client or peer_uid(scope) is not None:
        return None
    peer = plain_address(str(client[0])) or str(client[0])
    if peer not in proxies:
        return peer
    given = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    for hop in reversed([part.strip() for value in given for part in value.split(",")]):
        address = plain_address(hop)
        if address is None:
            break
        if address not in proxies:
            return address
    return peer


def plain_address(text: str) -> str | None:
    """An IP address in its canonical spelling, IPv4 as such however it is written; None for anything else."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return str((address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address)


def network_of(address: str) -> str:
    """Return the address by which a client is counted: of IPv6 the /64 network that a single customer gets."""
    try:
        number = ip_address(address)
    except ValueError:
        return address
    return address if not isinstance(number, IPv6Address) else str(IPv6Address(int(number) >> 64 << 64))


def peer_uid(scope: Mapping[str, Any]) -> int | None:
    """The user id at the other end of the unix socket; None over TCP."""
    host, _ = scope.get("client") or ("", 0)
    return int(host.removeprefix("uid:")) if host.startswith("uid:") else None
