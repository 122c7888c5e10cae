"""What both drivers hold to on the network: bounds, certificate authorities, proxies, who owns a socket.

Source: hostile H03, H05, H07, H08. Nothing here imports ssl or urllib.request before an https endpoint needs it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from client.endpoint import Endpoint
from client.errors import FrostError, usage
from client.text import safe

if TYPE_CHECKING:
    from ssl import SSLContext

CONNECT_SECONDS = 10.0
TOTAL_SECONDS = 60.0
ANSWER_BYTES = 64 * 1024 * 1024
PIECE_BYTES = 256 * 1024


class Proxy(NamedTuple):
    """An http proxy for https endpoints; `authorization` is the proxy's own, never the API's (hostile H07)."""

    host: str
    port: int
    authorization: str = ""


def authorities(environ: Mapping[str, str]) -> SSLContext:
    """The system's certificate authorities, plus the file that `FROST_CA_FILE` names. There is no way to trust all."""
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
    """The proxy of an https endpoint: `HTTPS_PROXY`, else `ALL_PROXY`, unless `NO_PROXY` names the host.

    Sockets and loopback are never proxied. Lower-case names win, as in the standard library.
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
    """Refuses a unix socket that is not ours: whoever owns it would read the credential.

    Neither may it stand where somebody else could put another one in its place between this look and the connection:
    the folder and the name in it must be ours (or root's), as for the configuration file.

    Raises:
        FileNotFoundError: There is nothing at `path`.
        FrostError: It is no socket, or somebody else's, or could be exchanged by somebody else.
    """
    found = os.stat(path)  # noqa: PTH116 (pathlib is not on a command's path)
    if not stat.S_ISSOCK(found.st_mode):
        raise FrostError(f"{safe(path, 200)} is not a socket", code="ENDPOINT_REFUSED", hint="check api_endpoint")
    if found.st_uid != os.getuid():
        raise FrostError(
            f"the socket {safe(path, 200)} belongs to another user (uid {found.st_uid})",
            code="ENDPOINT_REFUSED",
            hint="check api_endpoint: a credential is only sent to a socket of your own",
        )
    if not (_keeps(path) and _keeps(os.path.realpath(path))):
        raise FrostError(
            f"the socket {safe(path, 200)} stands in a folder that others may write",
            code="ENDPOINT_REFUSED",
            hint="a credential is only sent to a socket that nobody else can exchange: chmod go-w its folder",
        )


def _keeps(path: str) -> bool:
    """Whether nobody else can put something in the place of `path`; in a sticky folder only an owner can."""
    name, folder = os.lstat(path), os.stat(os.path.dirname(path))  # noqa: PTH116, PTH120
    shared = folder.st_mode & 0o022 and not folder.st_mode & stat.S_ISVTX
    return not shared and {name.st_uid, folder.st_uid} <= {os.getuid(), 0}
