"""A device code: what a person is shown, and the asking for tokens until they have confirmed it. Source: RFC 8628."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from client import oidc
from client.errors import Exit, FrostError
from client.text import safe

if TYPE_CHECKING:
    from client.connection import Connection

_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_INTERVAL = 5.0
_LONGEST_CODE = 3600.0


class DeviceCode(NamedTuple):
    """What a person confirms a sign-in with, on any device; `expires_in` and `interval` are seconds."""

    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: float
    interval: float


def device_codes(answer: dict[str, Any], connection: Connection) -> tuple[str, DeviceCode]:
    """The device code and what the person is shown; the page must be one that a browser may be sent to."""
    from client.endpoint import issuer_route

    device_code, user_code, page = (answer.get(name) for name in ("device_code", "user_code", "verification_uri"))
    complete = answer.get("verification_uri_complete") or page
    if not all(isinstance(one, str) and one for one in (device_code, user_code, page, complete)):
        raise FrostError("the identity provider's device code is incomplete", code="SIGN_IN_REFUSED")
    for url in (page, complete):
        issuer_route(str(url), connection.endpoint)
    expires = min(_seconds(answer.get("expires_in"), 600.0), _LONGEST_CODE)
    interval = _seconds(answer.get("interval"), _INTERVAL)
    return str(device_code), DeviceCode(safe(user_code, 60), str(page), str(complete), expires, interval)


def polled(
    connection: Connection,
    provider: oidc.Provider,
    device_code: str,
    code: DeviceCode,
    stop: threading.Event,
    *,
    at_once: bool,
) -> dict[str, Any]:
    """The tokens, asked for until the person has confirmed; `at_once` where they have already: without the first pause.

    Raises:
        Refused: The person said no, or the code has expired.
        FrostError: Cancelled (exit 130), or the provider cannot be reached until the code expires (exit 7).
    """
    form = {"grant_type": _GRANT, "device_code": device_code, **provider.asked}
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
                break  # it may know nothing of the code any more, and say so in other words
            elif error.code != "authorization_pending":
                raise
        except FrostError as error:
            if error.exit_code != Exit.UNREACHABLE:
                raise
            away = error
            interval *= 2  # RFC 8628, 3.5: back off when the provider cannot be reached
    raise away or oidc.Refused("expired_token", 400)


def _seconds(value: object, default: float) -> float:
    known = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 86400
    return float(value) if known else default  # type: ignore[arg-type]
