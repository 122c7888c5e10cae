"""What the platform fetches from others: one JSON object, only from where it may be had. hostile H08, H10

A name is resolved once, every address it has is judged, and the connection goes to the address that was judged, so
that a name which means something else a moment later gains nothing. The host the operator named may be in a private
network; every URL in its documents must be on the public one. Redirects are not followed. An answer is
bounded in size, and the whole fetch in time: resolving the name, connecting, TLS, request and answer.
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
    pass
if TYPE_CHECKING:
    from ssl import SSLContext

STEP_SECONDS = 5.0
WHOLE_SECONDS = 10.0
MAX_BYTES = 256 * 1024


def fetch(url: str, *, named: str) -> dict[str, Any]:
    """A JSON object from a URL; `named` is the host the operator trusts by name.

    Raises:
        OSError: the other end cannot be reached in time.
        ValueError: it answers something else, or the URL leads where nothing is fetched from.
    """
    require_safe(url)
    parts = urlsplit(url)
    host = str(parts.hostname)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    deadline = Deadline(WHOLE_SECONDS)
    found = addresses(host, port, named=host == named, deadline=deadline)
    connection = _PinnedConnection(host, port, found, deadline, secure=secure)
    over = threading.Timer(deadline.left(), connection.cut)
    over.daemon = True
    over.start()
    try:
        connection.request("GET", parts.path or "/", headers={"Accept": "application/json"})
        response = connection.getresponse()
        body = response.read(MAX_BYTES + 1)
    except HTTPException as error:
        raise ValueError(f"{url} does not speak HTTP, or not in time") from error
    finally:
        over.cancel()
        connection.close()
    if response.status != 200 or len(body) > MAX_BYTES:
        raise ValueError(f"{url} answers {response.status} with {len(body)} bytes")
    document = json.loads(body)
    if not isinstance(document, dict):
        raise ValueError(f"{url} is not a JSON object")  # noqa: TRY004 - one kind of error for every wrong answer
    return document


class Deadline:
    """The instant at which a fetch ends, however far it is."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def left(self) -> float:
        """Return the remaining seconds.

        Raises:
            TimeoutError: there are none.
        """
        left = self._at - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time for the fetch is over")
        return left

    def step(self) -> float:
        """Return the seconds that one step may take. Raises TimeoutError if no time is left."""
        return min(STEP_SECONDS, self.left())


def resolve(host: str, port: int, deadline: Deadline) -> list[str]:
    """Return the addresses of a name. The resolver of the system knows no time limit, so it gets a thread of its own.

    Raises:
        OSError: it has none, or not in time.
    """
    found: list[str] = []
    failures: list[OSError] = []

    def look_up() -> None:
        try:
            found.extend(str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as error:
            failures.append(error)

    resolving = threading.Thread(target=look_up, name="resolver", daemon=True)
    resolving.start()
    resolving.join(deadline.left())
    if failures:
        raise failures[0]
    if resolving.is_alive() or not found:
        raise TimeoutError(f"{host} could not be resolved in time")
    return found


def addresses(host: str, port: int, *, named: bool, deadline: Deadline | None = None) -> list[str]:
    """Return the addresses of a host.

    Raises:
        OSError: it has none, or not in time.
        ValueError: nothing may be fetched from one of them.
    """
    found = resolve(host, port, deadline or Deadline(WHOLE_SECONDS))
    for text in found:
        if not _allowed(ip_address(text.partition("%")[0]), named):
            raise ValueError(f"{host} is at {text}, where nothing is fetched from")
    return found


def _allowed(address: IPv4Address | IPv6Address, named: bool) -> bool:
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return False  # among them what a cloud tells its machines about themselves
    return named or address.is_global


class _PinnedConnection(HTTPConnection):
    """A connection to an address that was judged, under the name of its host."""

    def __init__(self, host: str, port: int, at: list[str], deadline: Deadline, *, secure: bool) -> None:
        self.default_port = 443 if secure else 80
        super().__init__(host, port, timeout=STEP_SECONDS)
        self._at = at
        self._deadline = deadline
        self._secure = secure

    def connect(self) -> None:
        self.sock = self._reached()
        if self._secure:
            tls = _trust().wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
            self.sock = tls
            tls.settimeout(self._deadline.step())
            tls.do_handshake()
        # The end of the time may have come between two steps, when there was nothing to cut.
        self.sock.settimeout(self._deadline.step())

    def _reached(self) -> socket.socket:
        for address in self._at[:-1]:
            with suppress(OSError):
                return socket.create_connection((address, self.port), self._deadline.step())
        return socket.create_connection((self._at[-1], self.port), self._deadline.step())

    def cut(self) -> None:
        """End the wait of a step."""
        if self.sock is not None:
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)


def _trust() -> "SSLContext":
    import ssl

    return ssl.create_default_context()


def require_safe(url: str) -> None:
    """Raise ValueError unless the URL is https, or http to a loopback address, and plain."""
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
