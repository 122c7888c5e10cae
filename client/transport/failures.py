"""Reasons and hints of failed connections: which hop failed, and the setting that chose it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from client.text import safe
from client.transport.call import NoResponse

if TYPE_CHECKING:
    from client.transport.endpoint import Endpoint
    from client.transport.proxy import Proxy

CHECK_ENDPOINT = "check api_endpoint: frost config show"
AUTHORITIES = ("FROST_CA_FILE", "SSL_CERT_FILE", "SSL_CERT_DIR")


def unresolved(endpoint: Endpoint, reason: str, seconds: float) -> NoResponse:
    """Return the failed look-up of the endpoint's host name."""
    text = f"the host name cannot be resolved: {safe(reason, 200)}"
    return NoResponse(text, seconds, hint=f"{CHECK_ENDPOINT}, and the name resolution of this machine")


def at_proxy(proxy: Proxy, endpoint: Endpoint, reason: str, seconds: float) -> NoResponse:
    """Return a failure before the proxy has opened the tunnel. Of the proxy's response only the status is shown."""
    refused = re.match(r"(?:Tunnel connection failed: )?(\d{3})\b", reason)
    what = f"no tunnel to the host (HTTP {refused[1]})" if refused else safe(reason, 200)
    hint = f"check {proxy.variable}, or list {endpoint.host} in NO_PROXY"
    return NoResponse(f"{safe(proxy, 200)}: {what}", seconds, hint=hint)


def untrusted(environ: Mapping[str, str], reason: str, seconds: float, proxy: Proxy | None) -> NoResponse:
    """Return a rejected certificate, with the variables that chose the certificate authorities."""
    chosen = [name for name in AUTHORITIES if environ.get(name)]
    hint = "add the platform's certificate authority: FROST_CA_FILE=/path/to/ca.pem"
    if chosen:
        hint = f"check the certificate authorities in {' and '.join(chosen)}"
    text = f"the certificate was rejected: {safe(reason, 200)}"
    return through(proxy, NoResponse(text, seconds, retryable=False, hint=hint))


def through(proxy: Proxy | None, failure: NoResponse) -> NoResponse:
    """Name the proxy in a failure behind it."""
    if proxy is None:
        return failure
    hint = f"{failure.hint or CHECK_ENDPOINT}, and {proxy.variable}"
    return failure._replace(reason=f"{failure.reason} (through {safe(proxy, 200)})", hint=hint)
