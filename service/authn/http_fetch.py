"""Fetches a JSON document over HTTP with protection against server-side request forgery (SSRF).

A name is resolved once and the connection goes to a checked address, so DNS rebinding has no effect. Only the host
that the operator configured may have private addresses. Redirects are not followed.
"""

import json
import socket
import threading
import time
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from ssl import SSLContext

STEP_TIMEOUT_SECONDS = 5.0
FETCH_TIMEOUT_SECONDS = 10.0
MAX_RESPONSE_BYTES = 256 * 1024


def fetch(url: str, *, trusted_host: str, timeout_seconds: float = FETCH_TIMEOUT_SECONDS) -> dict[str, Any]:
    """Fetch a JSON object.

    Args:
        trusted_host: the configured host, which may have private addresses.
        timeout_seconds: for the resolution of the host, the connection and the response together.

    Raises:
        OSError: the host cannot be reached in time.
        ValueError: the response is not a JSON object, or the URL or its address is not allowed.
    """
    require_safe_url(url)
    parts = urlsplit(url)
    host = str(parts.hostname)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    deadline = Deadline(timeout_seconds)
    addresses = resolve_allowed(host, port, trusted=host == trusted_host, deadline=deadline)
    connection = _PinnedConnection(host, port, addresses, deadline, secure=secure)
    timer = threading.Timer(deadline.remaining(), connection.abort)
    timer.daemon = True
    timer.start()
    try:
        connection.request("GET", parts.path or "/", headers={"Accept": "application/json"})
        response = connection.getresponse()
        body = response.read(MAX_RESPONSE_BYTES + 1)
    except HTTPException as error:
        raise ValueError(f"{url} did not send a valid HTTP response in time") from error
    finally:
        timer.cancel()
        connection.close()
    if response.status != 200 or len(body) > MAX_RESPONSE_BYTES:
        raise ValueError(f"{url} returned status {response.status} and {len(body)} bytes")
    document = json.loads(body)
    if not isinstance(document, dict):
        raise ValueError(f"{url} is not a JSON object")  # noqa: TRY004 - the same error for every invalid response
    return document


class Deadline:
    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def remaining(self) -> float:
        """Return the remaining seconds. Raises TimeoutError."""
        remaining = self._at - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("the fetch did not end in time")
        return remaining

    def step_timeout(self) -> float:
        return min(STEP_TIMEOUT_SECONDS, self.remaining())


def resolve(host: str, port: int, deadline: Deadline) -> list[str]:
    """Return the addresses of a name. `getaddrinfo` has no timeout, so it runs in a thread."""
    addresses: list[str] = []
    failures: list[OSError] = []

    def look_up() -> None:
        try:
            addresses.extend(str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as error:
            failures.append(error)

    resolver = threading.Thread(target=look_up, name="resolver", daemon=True)
    resolver.start()
    resolver.join(deadline.remaining())
    if failures:
        raise failures[0]
    if resolver.is_alive() or not addresses:
        raise TimeoutError(f"{host} could not be resolved in time")
    return addresses


def resolve_allowed(host: str, port: int, *, trusted: bool, deadline: Deadline | None = None) -> list[str]:
    """Return the addresses of a host.

    Raises:
        OSError: the host has no address, or was not resolved in time.
        ValueError: an address is not allowed.
    """
    addresses = resolve(host, port, deadline or Deadline(FETCH_TIMEOUT_SECONDS))
    for text in addresses:
        if not _is_allowed(ip_address(text.partition("%")[0]), trusted):
            raise ValueError(f"{host} has the address {text}, which is not allowed")
    return addresses


def _is_allowed(address: IPv4Address | IPv6Address, trusted: bool) -> bool:
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return False  # link-local includes the metadata services of clouds
    return trusted or address.is_global


class _PinnedConnection(HTTPConnection):
    """A connection to a checked address, with the host's name for TLS and the Host header."""

    def __init__(self, host: str, port: int, addresses: list[str], deadline: Deadline, *, secure: bool) -> None:
        self.default_port = 443 if secure else 80
        super().__init__(host, port, timeout=STEP_TIMEOUT_SECONDS)
        self._addresses = addresses
        self._deadline = deadline
        self._secure = secure

    def connect(self) -> None:
        self.sock = self._open_socket()
        if self._secure:
            tls = _tls_context().wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
            self.sock = tls
            tls.settimeout(self._deadline.step_timeout())
            tls.do_handshake()
        # The deadline may have passed between two steps, without a socket to shut down.
        self.sock.settimeout(self._deadline.step_timeout())

    def _open_socket(self) -> socket.socket:
        for address in self._addresses[:-1]:
            with suppress(OSError):
                return socket.create_connection((address, self.port), self._deadline.step_timeout())
        return socket.create_connection((self._addresses[-1], self.port), self._deadline.step_timeout())

    def abort(self) -> None:
        if self.sock is not None:
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)


def _tls_context() -> "SSLContext":
    import ssl

    return ssl.create_default_context()


def require_safe_url(url: str) -> None:
    """Raise ValueError unless a URL is https, or http to a loopback address, without user, query and fragment."""
    parts = urlsplit(url)
    if not parts.hostname or parts.username is not None or parts.query or parts.fragment:
        raise ValueError(f"{url!r} must be a URL of scheme, host and path")
    if parts.scheme == "http" and _is_loopback(parts.hostname):
        return
    if parts.scheme != "https":
        raise ValueError(f"{url!r} must be https")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
