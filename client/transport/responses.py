"""Errors of responses: read envelopes and rate limits, choose exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from client.errors import Exit, FrostError
from client.text import safe

if TYPE_CHECKING:
    from client.transport.call import NoResponse, Reply
    from client.transport.endpoint import Endpoint

MESSAGE_CELLS = 1000
"""Longer messages are truncated."""

EXITS: Mapping[int, Exit] = {
    401: Exit.NOT_SIGNED_IN,
    403: Exit.NOT_ALLOWED,
    404: Exit.NOT_FOUND,
    408: Exit.UNREACHABLE,
    409: Exit.CONFLICT,
    412: Exit.CONFLICT,
    502: Exit.UNREACHABLE,
    503: Exit.UNREACHABLE,
    504: Exit.UNREACHABLE,
}
"""Exit codes by status; others are Exit.REFUSED."""
_WRONG_VALUES = frozenset(
    {
        "INVALID_INPUT",
        "INVALID_CURSOR",
        "INVALID_POLICY_DOCUMENT",
        "UNKNOWN_OPERATION",
        "INVALID_API_KEY_NAME",
        "INVALID_SCOPE",
        "WILDCARD_SCOPE_NOT_ALLOWED",
        "API_KEY_LIFETIME_EXCEEDS_MAX",
        "API_KEY_EXPIRY_IN_PAST",
    }
)
"""Codes of invalid values in arguments. The command exits as if the client had found them."""

SIGN_IN = "sign in: frost login"
HINTS: Mapping[str, str] = {
    "AUTHENTICATION_REQUIRED": SIGN_IN,
    "SESSION_EXPIRED": SIGN_IN,
    "SESSION_REVOKED": SIGN_IN,
    "TENANT_ACCESS_DENIED": "list your tenants: frost tenant list --all",
    "TENANT_NOT_PROVISIONED": "wait until it is active: frost tenant list",
    "INSUFFICIENT_SCOPE": "use a key with that scope, or use an interactive login: frost login",
    "INSUFFICIENT_PERMISSIONS": "ask an owner or admin of the organization",
    "insufficient_permission": "ask an owner or admin of the organization",
    "PERMISSION_DENIED": "ask an owner or admin of the organization",
    "FORBIDDEN": "ask an owner or admin of the organization",
    "PATH_NOT_ROUTED": "check api_endpoint (it usually ends in /api) and the platform's version: frost platform status",
    "ROUTE_NOT_FOUND": "check api_endpoint (it usually ends in /api) and the platform's version: frost platform status",
    "RATE_LIMITED": "wait a minute and try again",
}
"""Hints by code. A hint of the platform takes precedence."""

_PERMISSION_CODES = frozenset({"INSUFFICIENT_PERMISSIONS", "insufficient_permission"})
_PERMISSION = r"[a-z][a-z0-9_-]{0,31}(:[a-z][a-z0-9_-]{0,31}){1,2}"
_LONGEST_WAIT = 30.0
_MAX_SECONDS = 10 * 365 * 86400
MAX_RETRY_AFTER_SECONDS = 120.0
"""The client does not wait longer than this for a retry; the error shows when to try again."""


def refusal(reply: Reply, path: str) -> FrostError:
    """Return the error for a response with status 400 to 599.

    In order: 426, 429, nested envelope, flat envelope, else the status and the start of the body.
    """
    body = _object(reply.body)
    nested = body.get("error")
    envelope: Mapping[str, Any] = nested if isinstance(nested, dict) else body
    flat = nested is not envelope
    code = _text(envelope.get("code"))
    message = safe(_text(envelope.get("message")), MESSAGE_CELLS)
    if reply.status == 426:
        code = "CLIENT_UPGRADE_REQUIRED"
        message = message or "the platform no longer supports this version of frost"
    elif reply.status == 429 and not code:
        code, message = "RATE_LIMITED", message or "too many requests"
    elif not code:
        code, message = "ERROR", f"HTTP {reply.status}: {message or _beginning(reply)}"
    permission = envelope.get("required_permission")
    if code in _PERMISSION_CODES and _well_formed(permission):
        message = f"{message} (required permission: {permission})"
    details = envelope.get("details")
    hint = safe(_text(envelope.get("hint")), 300)
    seconds = retry_after(reply) if reply.status in (429, 503) else 0.0
    if seconds > MAX_RETRY_AFTER_SECONDS or (seconds and not hint):
        hint = f"try again in {_duration(seconds)}"
    hint = hint or _hint(code, reply.status)
    return FrostError(
        message or f"HTTP {reply.status}",
        code=safe(code, 80),
        hint=hint,
        exit_code=_exit(reply.status, code, path, gone=flat and bool(_text(body.get("code")))),
        request_id=reply.request_id,
        details=details if isinstance(details, dict) else None,
        status=reply.status,
        operation_id=_text(envelope.get("operationId") or body.get("operationId")),
        run_id=_text(envelope.get("runId") or body.get("runId")),
        gone=reply.status == 404 and flat and bool(_text(body.get("code"))),
    )


def predicted_error(refused: Mapping[str, Any]) -> FrostError:
    """Return the error that a change would cause, from `refused` in the response of `iam/preview`."""
    status, code, details = refused.get("status"), _text(refused.get("code")), refused.get("details")
    status = status if isinstance(status, int) else 0
    gone = status == 404
    return FrostError(
        f"the change would be refused: {safe(_text(refused.get('message')), MESSAGE_CELLS)}",
        code=safe(code, 80),
        hint=safe(_text(refused.get("hint")), 300) or _hint(code, status),
        exit_code=_exit(status, code, "", gone=gone),
        details=details if isinstance(details, dict) else None,
        status=status,
        gone=gone,
    )


def connection_error(endpoint: Endpoint, answer: NoResponse, hint: str = "") -> FrostError:
    """Return the error for a broken exchange (exit 7), with the endpoint in its message.

    `hint` names the setting that chose the endpoint; empty for `api_endpoint`. That of the response takes precedence.
    """
    hint = answer.hint or hint or "check api_endpoint: frost config show"
    if endpoint.kind == "unix":
        hint = "check the platform: frost platform status"
    return FrostError(
        f"{safe(endpoint, 200)}: {answer.reason}", code=answer.code, hint=hint, exit_code=Exit.UNREACHABLE
    )


def redirect_error(reply: Reply) -> FrostError:
    """Return the error for a redirect, which is never followed."""
    try:
        host = urlsplit(reply.headers.get("location", "")).netloc.rpartition("@")[2]
    except ValueError:
        host = ""
    return FrostError(
        f"the service responded with a redirect (HTTP {reply.status}) to {safe(host or 'an unknown host', 100)};"
        " nothing was sent there",
        code="REDIRECT_REFUSED",
        hint="check api_endpoint: frost config show",
        request_id=reply.request_id,
        status=reply.status,
    )


def retry_delay(reply: Reply, attempt: int) -> float | None:
    """Return the seconds to wait after a 429 before the next try.

    Args:
        reply: The response.
        attempt: The number of earlier 429 responses.

    Returns:
        None for a cap, which waiting does not lift, and for more than `MAX_RETRY_AFTER_SECONDS`.
    """
    _, details = _limit(reply)
    seconds = retry_after(reply)
    if "cap" in details or seconds > MAX_RETRY_AFTER_SECONDS:
        return None
    return min(max(seconds, 2.0 ** (attempt + 1)), _LONGEST_WAIT)


def retry_after(reply: Reply) -> float:
    """Return the seconds after which a refused request may be repeated; 0.0 if unknown."""
    envelope, details = _limit(reply)
    hints = (_seconds(envelope.get("retry_after")), _seconds(details.get("retryAfterSeconds")), _header(reply))
    return next((value for value in hints if value is not None), 0.0)


def _limit(reply: Reply) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the envelope of an error response, nested or flat, and its details."""
    body = _object(reply.body)
    nested = body.get("error")
    envelope = nested if isinstance(nested, dict) else body
    details = envelope.get("details")
    return envelope, details if isinstance(details, dict) else {}


def _seconds(value: object) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return float(min(value, _MAX_SECONDS))
    return None


def _header(reply: Reply) -> float | None:
    text = reply.headers.get("retry-after", "")
    return _seconds(int(text[:20])) if text.isascii() and text.isdigit() else None


def _duration(seconds: float) -> str:
    """Format a duration, rounded up: `40 seconds`, `6 minutes`, `3 hours`, `2 days`."""
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds > 2 * size:
            return f"{-int(-seconds // size)} {unit}"
    return "1 second" if seconds <= 1 else f"{-int(-seconds // 1)} seconds"


def _exit(status: int, code: str, path: str, *, gone: bool) -> Exit:
    """Return the exit code. A nested 404 does not mean a missing resource, except on the operations route."""
    if status == 404 and not gone and "/operations/" not in path:
        return Exit.REFUSED
    if status == 400 and code in _WRONG_VALUES:
        return Exit.USAGE
    return EXITS.get(status, Exit.REFUSED)


def _hint(code: str, status: int) -> str:
    return HINTS.get(code) or (SIGN_IN if status == 401 else "")


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _beginning(reply: Reply) -> str:
    """Return the start of a body without an envelope; HTML is not shown."""
    if "html" in reply.headers.get("content-type", "").lower() or reply.body[:200].lstrip()[:1] == b"<":
        return "the response is a web page"
    return safe(reply.body[:400].decode("utf-8", "replace").strip(), 200) or "no text"


def _well_formed(permission: object) -> bool:
    return (
        isinstance(permission, str)
        and re.fullmatch(_PERMISSION, permission) is not None
        and not permission.startswith("unclassified:")
        and not permission.endswith(":unclassified")
    )
