"""Device codes: display them, and poll for tokens until the user confirms (RFC 8628)."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from client.auth import model, oidc
from client.errors import Exit, FrostError
from client.text import safe

if TYPE_CHECKING:
    from client.auth.model import Connection

_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_INTERVAL = 5.0
_LONGEST_CODE = 3600.0


class DeviceCode(NamedTuple):
    """The codes and URLs to show to the user; `expires_in` and `interval` are in seconds."""

    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: float
    interval: float


def device_codes(answer: dict[str, Any], connection: Connection) -> tuple[str, DeviceCode]:
    """Return the device code and the data to show. Raises FrostError if a URL is not allowed for the endpoint."""
    from client.transport.endpoint import issuer_route

    device_code, user_code, page = (answer.get(name) for name in ("device_code", "user_code", "verification_uri"))
    complete = answer.get("verification_uri_complete") or page
    if not all(isinstance(one, str) and one for one in (device_code, user_code, page, complete)):
        raise FrostError("the identity provider's device code is incomplete", code="SIGN_IN_REFUSED")
    for url in (page, complete):
        issuer_route(str(url), connection.endpoint)
    expires = min(_seconds(answer.get("expires_in"), 600.0), _LONGEST_CODE)
    interval = _seconds(answer.get("interval"), _INTERVAL)
    return str(device_code), DeviceCode(safe(user_code, 60), str(page), str(complete), expires, interval)


def poll_for_tokens(
    connection: Connection,
    provider: model.Provider,
    device_code: str,
    code: DeviceCode,
    stop: threading.Event,
    *,
    at_once: bool,
) -> dict[str, Any]:
    """Poll for tokens until the user confirms. `at_once` omits the first pause, for a code confirmed already.

    Raises:
        Refused: The user declined, or the code has expired.
        FrostError: Cancelled (exit 130), or the provider is unreachable until the code expires (exit 7).
    """
    form = {"grant_type": _GRANT, "device_code": device_code, **provider.common_parameters}
    away: FrostError | None = None
    interval = code.interval
    end = time.monotonic() + code.expires_in
    pause = 0.0 if at_once else interval
    while time.monotonic() < end:
        if stop.wait(pause):
            raise FrostError("the sign-in was cancelled", code="CANCELLED", exit_code=Exit.INTERRUPTED)
        pause = interval
        try:
            return oidc.post(connection, provider.token, form)
        except oidc.Refused as error:
            away = None
            if error.code == "slow_down":
                interval += 5.0
                pause = interval
            elif time.monotonic() >= end:
                break  # the provider may report an unknown code instead of an expired one
            elif error.code != "authorization_pending":
                raise
        except FrostError as error:
            if error.exit_code != Exit.UNREACHABLE:
                raise
            away = error
            interval *= 2  # RFC 8628, 3.5: back off while the provider is unreachable
    raise away or oidc.Refused("expired_token", 400)


def _seconds(value: object, default: float) -> float:
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 86400
    return float(value) if known else default  # type: ignore[arg-type]
