"""The proxy of an https endpoint, from `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`. Imported only for https endpoints."""

from __future__ import annotations

import ipaddress
from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from client.errors import usage

if TYPE_CHECKING:
    from client.transport.endpoint import Endpoint

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Proxy(NamedTuple):
    """An http proxy for https endpoints; `authorization` is for the proxy, not for the API.

    `variable` is the environment variable that names the proxy.
    """

    host: str
    port: int
    authorization: str = ""
    variable: str = "HTTPS_PROXY"

    @property
    def authority(self) -> str:
        """Return host and port as in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        """Return the proxy for messages, without its password."""
        return f"the proxy {self.authority} (from {self.variable})"


def proxy_for(endpoint: Endpoint, environ: Mapping[str, str]) -> Proxy | None:
    """Return the proxy of an https endpoint: `HTTPS_PROXY`, else `ALL_PROXY`, unless `NO_PROXY` lists the host.

    Sockets and loopback addresses have no proxy. Lower-case names take precedence, as in the standard library.

    Raises:
        FrostError: The variable does not name an http proxy (exit 2).
    """
    if endpoint.kind != "https" or endpoint.loopback:
        return None
    names = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
    name = next((name for name in names if name in environ), "")
    url = environ.get(name, "")
    if not url or is_excepted(endpoint.host, endpoint.port, environ.get("no_proxy", environ.get("NO_PROXY", ""))):
        return None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname or "", parts.port or 80
        pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}".encode()
    except ValueError:  # also a name with bytes that are not text
        host = ""
    if not host.isascii() or not host.isprintable() or not host or parts.scheme != "http":
        raise usage(f"{name} is not an http:// proxy", hint=f"set {name}=http://host:port, or add the host to NO_PROXY")
    authorization = "Basic " + b64encode(pair).decode() if parts.username is not None else ""
    return Proxy(host, port, authorization, name)


def is_excepted(host: str, port: int, exceptions: str) -> bool:
    """Return whether `NO_PROXY` lists a host. Accepts the entries of curl and of Go, separated by commas or spaces.

    An entry is `*`, a network (`10.0.0.0/8`, `fd00::/8`), an address or a name. IPv6 addresses may have brackets. A
    name stands for its subdomains too, with or without a leading dot; `*.name` for the subdomains only. `:port` limits
    an entry to a port.
    """
    host = host.rstrip(".").lower()
    address = _address(host)
    return any(_lists(entry, host, address, port) for entry in exceptions.lower().replace(",", " ").split())


def _lists(entry: str, host: str, address: Address | None, port: int) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        return address is not None and _is_in(address, entry)
    if entry.startswith("["):
        name, _, listed_port = entry[1:].partition("]")
        listed_port = listed_port.removeprefix(":")
    elif entry.count(":") == 1:
        name, _, listed_port = entry.partition(":")
    else:
        name, listed_port = entry, ""
    if listed_port and listed_port != str(port):
        return False
    if address is not None:
        return _address(name) == address
    name = name.rstrip(".")
    if name.startswith("*."):
        return host.endswith(name[1:])
    name = name.lstrip(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _address(text: str) -> Address | None:
    """Return an address, an IPv4 address in IPv6 form as IPv4; None for a name."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_in(address: Address, network: str) -> bool:
    try:
        return address in ipaddress.ip_network(network.replace("[", "").replace("]", ""), strict=False)
    except ValueError:
        return False
