"""Endpoints, and the network rules of both clients: limits, certificate authorities, socket owners.

An endpoint that must not get a credential is refused. ssl and urllib.request are imported only for https endpoints.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import SplitResult, urlsplit

from client.errors import FrostError, usage
from client.text import safe

if TYPE_CHECKING:
    from ssl import SSLContext


BASE = "/api"
"""Base path of the customer routes, and default of endpoints without a path."""

_METADATA = frozenset({"100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"})
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "instance-data"})


class Endpoint(NamedTuple):
    """The address of a platform.

    `path` is the socket path for `unix`, else empty; `host` and `port` are `localhost` and 0 for `unix`; `base` is the
    path before `/v1/…`, without a trailing slash.
    """

    kind: Literal["unix", "http", "https"]
    host: str
    port: int
    base: str
    path: str = ""

    @classmethod
    def parse(cls, text: str, name: str = "api_endpoint") -> Endpoint:
        """Parse `unix:/absolute/path`, `https://host[:port][/base]` or `http://loopback[:port][/base]`.

        Args:
            text: The endpoint.
            name: Its name in errors.

        Raises:
            FrostError: Invalid or not allowed (exit 2); the message does not repeat a password.
        """
        if text.startswith("unix:"):
            return cls._socket(text[len("unix:") :], name)
        parts = _split(text, name)
        host, port = _host_and_port(parts, name)
        if parts.scheme == "http" and not _is_loopback(host):
            raise _refusal(name, f"http://{host} is another machine: credentials are only sent over https", "use https")
        if parts.query or text.endswith("?"):
            raise _refusal(name, "an endpoint must not have a query")
        base = parts.path.rstrip("/") or BASE
        if any(segment in (".", "..") for segment in base.split("/")) or "//" in base or "%" in base:
            raise _refusal(name, "the path must not contain ., .., //, % or spaces")
        kind: Literal["http", "https"] = "https" if parts.scheme == "https" else "http"
        return cls(kind, host, port, base)

    @classmethod
    def _socket(cls, path: str, name: str) -> Endpoint:
        if not path.startswith("/"):
            raise _refusal(name, "the path of a unix socket must be absolute", "write unix:/path/to/socket")
        if not path.isprintable() or ".." in path.split("/"):
            raise _refusal(name, "the path of the unix socket must not contain .. or control characters")
        if len(path.encode()) > 107:
            raise _refusal(name, f"the path of the unix socket is longer than 107 bytes ({len(path.encode())})")
        return cls("unix", "localhost", 0, BASE, path)

    @property
    def loopback(self) -> bool:
        """Return whether requests stay on this machine."""
        return self.kind == "unix" or _is_loopback(self.host)

    @property
    def trusted(self) -> bool:
        """Return whether credentials may be sent: over https, or on this machine."""
        return self.kind == "https" or self.loopback

    @property
    def authority(self) -> str:
        """Return the `Host` header: the host, and the port unless it is the default of the scheme."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"unix": 0, "http": 80, "https": 443}[self.kind]
        return host if self.port == usual else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Return scheme, host and port as a URL; `http://localhost` for a unix socket."""
        return f"{'https' if self.kind == 'https' else 'http'}://{self.authority}"

    def __str__(self) -> str:
        return f"unix:{self.path}" if self.kind == "unix" else f"{self.origin}{self.base}"


def issuer_route(url: str, endpoint: Endpoint) -> tuple[Endpoint, str]:
    """Return the endpoint of an identity provider's URL, and the request target (path and query).

    Behind a unix socket, `http://localhost` is the platform's own issuer, on that socket. Other URLs must be https, or
    http to a loopback address if the endpoint is on this machine. So a discovery document cannot turn a remote sign-in
    into plain http.

    Raises:
        FrostError: The URL is invalid or not allowed (exit 2).
    """
    parts = _split(url, "issuer")
    host, port = _host_and_port(parts, "issuer")
    target = parts.path or "/"
    if any(segment in (".", "..") for segment in target.split("/")):
        raise _refusal("issuer", "the path must not contain ., .., //, % or spaces")
    if parts.query:
        target = f"{target}?{parts.query}"
    if not target.isascii() or not target.isprintable() or " " in target:
        raise _refusal("issuer", "the path must not contain ., .., //, % or spaces")
    if endpoint.kind == "unix" and parts.scheme == "http" and host == "localhost" and port == 80:
        return endpoint, target
    if parts.scheme == "https":
        return Endpoint("https", host, port, ""), target
    if endpoint.loopback and host != "localhost" and _is_loopback(host):
        return Endpoint("http", host, port, ""), target
    raise _refusal("issuer", f"http://{host} is not https")


def _split(text: str, name: str) -> SplitResult:
    if not text.isprintable() or " " in text or "\\" in text or not text.isascii():
        raise _refusal(name, "spaces, backslashes and non-ASCII characters are not allowed")
    try:
        parts = urlsplit(text)
    except ValueError:
        raise _refusal(name, "not a valid URL") from None
    if parts.scheme not in ("http", "https"):
        scheme = safe(parts.scheme or text, 60)
        raise _refusal(name, f"{scheme!r} is not a valid scheme", "use https://… or unix:/path/to/socket")
    if "@" in parts.netloc:
        raise _refusal(name, "a user name or password is not allowed", "sign in instead: frost login")
    if parts.fragment or "#" in text:
        raise _refusal(name, "a fragment (#…) is not allowed")
    return parts


def _host_and_port(parts: SplitResult, name: str) -> tuple[str, int]:
    try:
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _refusal(name, "the port must be a number from 1 to 65535") from None
    if not host or host.startswith("."):
        raise _refusal(name, "the host name is missing")
    if port == 0 or parts.netloc.endswith(":"):
        raise _refusal(name, "the port must be a number from 1 to 65535")
    host = host.rstrip(".")
    address = _address(host, name)
    if (address is not None and _is_metadata(address)) or host in _METADATA_NAMES:
        raise _refusal(name, f"{host} is a link-local or metadata address")
    if address is None and not all(label.strip("-") and _is_label(label) for label in host.split(".")):
        raise _refusal(name, f"{safe(host, 100)!r} is not a host name")
    return host, port if port is not None else {"http": 80, "https": 443}[parts.scheme]


def _is_label(label: str) -> bool:
    return len(label) <= 63 and all(character.isalnum() or character in "-_" for character in label)


def _address(host: str, name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return `host` as an IP address, None for a name. Refuse shortened, hexadecimal and octal forms."""
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        socket.inet_aton(host)
    except OSError:
        return None
    raise _refusal(
        name, f"{safe(host, 100)} is an address in an unusual form", "write the address as four decimal numbers"
    )


def _is_metadata(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is not None and _is_metadata(inner):
            return True
    return address.is_link_local or address.is_unspecified or address.is_multicast or str(address) in _METADATA


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refusal(name: str, reason: str, hint: str = "") -> FrostError:
    return usage(f"{name} refused: {reason}", hint, code="ENDPOINT_REFUSED")


CONNECT_SECONDS = 10.0
TOTAL_SECONDS = 60.0
ANSWER_BYTES = 64 * 1024 * 1024
PIECE_BYTES = 256 * 1024


def authorities(environ: Mapping[str, str]) -> SSLContext:
    """Return a context with the system's certificate authorities and those of `FROST_CA_FILE`; it always verifies.

    `SSL_CERT_FILE` and `SSL_CERT_DIR` replace those of the system. OpenSSL ignores them if they do not exist.

    Raises:
        FrostError: A variable names a file or a folder that cannot be used (exit 2).
    """
    import ssl

    folders = environ.get("SSL_CERT_DIR")
    if folders and not any(map(os.path.isdir, folders.split(os.pathsep))):
        raise _unusable("SSL_CERT_DIR", folders, "no such directory")
    try:
        context = ssl.create_default_context()
    except OSError as error:
        if "SSLKEYLOGFILE" not in os.environ:  # Python opens this file, the log of TLS secrets
            raise
        raise _unusable("SSLKEYLOGFILE", os.environ.get("SSLKEYLOGFILE", ""), error.strerror) from error
    for name in ("SSL_CERT_FILE", "FROST_CA_FILE"):
        file = environ.get(name)
        if file:
            try:
                context.load_verify_locations(cafile=file)
            except ssl.SSLError as error:
                raise _unusable(name, file, "no certificate in the file") from error
            except (OSError, ValueError) as error:
                raise _unusable(name, file, getattr(error, "strerror", None)) from error
    return context


def _unusable(name: str, value: str, reason: str | None) -> FrostError:
    text = safe(reason or "not a file name", 200)
    return usage(f"{name} {safe(value, 200)} cannot be used: {text}", f"correct {name}, or unset it")


def check_socket_owner(path: str) -> None:
    """Refuse a unix socket of another user, who could read the credential.

    The folder and the socket's name must also belong to this user or root, and others must not have write access:
    otherwise they could replace the socket before the connection.

    Raises:
        FileNotFoundError: `path` does not exist.
        FrostError: Not a socket, owned by another user, or replaceable by another user.
    """
    status = os.stat(path)  # noqa: PTH116 (pathlib is not on a command's path)
    if not stat.S_ISSOCK(status.st_mode):
        raise FrostError(f"{safe(path, 200)} is not a socket", code="ENDPOINT_REFUSED", hint="check api_endpoint")
    if status.st_uid != os.getuid():
        raise FrostError(
            f"the socket {safe(path, 200)} belongs to another user (uid {status.st_uid})",
            code="ENDPOINT_REFUSED",
            hint="check api_endpoint: credentials are only sent to your own sockets",
        )
    if not (_is_protected(path) and _is_protected(os.path.realpath(path))):
        raise FrostError(
            f"the socket {safe(path, 200)} is in a folder that other users can write to",
            code="ENDPOINT_REFUSED",
            hint="credentials are only sent to a socket that no other user can replace: chmod go-w its folder",
        )


def _is_protected(path: str) -> bool:
    """Return whether no other user can replace `path`. In a sticky folder only owners can."""
    name, folder = os.lstat(path), os.stat(os.path.dirname(path))  # noqa: PTH116, PTH120
    shared = folder.st_mode & 0o022 and not folder.st_mode & stat.S_ISVTX
    return not shared and {name.st_uid, folder.st_uid} <= {os.getuid(), 0}
