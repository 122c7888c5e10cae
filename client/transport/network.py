"""Network rules of both drivers: limits, certificate authorities, proxies, socket owners.

ssl and urllib.request are imported only for https endpoints.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from client.errors import FrostError, usage
from client.text import safe
from client.transport.endpoint import Endpoint

if TYPE_CHECKING:
    from ssl import SSLContext

CONNECT_SECONDS = 10.0
TOTAL_SECONDS = 60.0
ANSWER_BYTES = 64 * 1024 * 1024
PIECE_BYTES = 256 * 1024


class Proxy(NamedTuple):
    """An http proxy for https endpoints; `authorization` is for the proxy, not for the API."""

    host: str
    port: int
    authorization: str = ""


def authorities(environ: Mapping[str, str]) -> SSLContext:
    """Return a context with the system's certificate authorities and those of `FROST_CA_FILE`; it always verifies."""
    import ssl

    context = ssl.create_default_context()
    extra = environ.get("FROST_CA_FILE")
    if extra:
        try:
            context.load_verify_locations(cafile=extra)
        except (OSError, ssl.SSLError) as error:
            reason = error.strerror or "it holds no certificate"
            raise usage(f"FROST_CA_FILE {safe(extra, 200)} cannot be used: {safe(reason, 200)}") from error
    return context


def proxy_for(endpoint: Endpoint, environ: Mapping[str, str]) -> Proxy | None:
    """Return the proxy of an https endpoint: `HTTPS_PROXY`, else `ALL_PROXY`, unless `NO_PROXY` lists the host.

    Sockets and loopback addresses have no proxy. Lower-case names take precedence, as in the standard library.
    """
    if endpoint.kind != "https" or endpoint.loopback:
        return None
    url = ""
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        if name in environ:
            url = environ[name]
            break
    if not url:
        return None
    from base64 import b64encode
    from urllib.parse import unquote, urlsplit
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

    exceptions = environ.get("no_proxy", environ.get("NO_PROXY", ""))
    if proxy_bypass_environment(endpoint.authority, {"no": exceptions}):
        return None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port or 80
    except ValueError:
        host, port = None, 0
    if not host or parts.scheme != "http":
        raise usage(f"{name} is not an http:// proxy", hint=f"set {name}=http://host:port, or add the host to NO_PROXY")
    authorization = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + b64encode(pair.encode()).decode()
    return Proxy(host, port, authorization)


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
            hint="check api_endpoint: a credential is only sent to a socket of your own",
        )
    if not (_is_protected(path) and _is_protected(os.path.realpath(path))):
        raise FrostError(
            f"the socket {safe(path, 200)} stands in a folder that others may write",
            code="ENDPOINT_REFUSED",
            hint="a credential is only sent to a socket that nobody else can exchange: chmod go-w its folder",
        )


def _is_protected(path: str) -> bool:
    """Return whether no other user can replace `path`. In a sticky folder only owners can."""
    name, folder = os.lstat(path), os.stat(os.path.dirname(path))  # noqa: PTH116, PTH120
    shared = folder.st_mode & 0o022 and not folder.st_mode & stat.S_ISVTX
    return not shared and {name.st_uid, folder.st_uid} <= {os.getuid(), 0}
