"""The platform's error responses.

Most errors are nested: `{"error": {code, message, details?, …}}`. Errors with `flat` are `{code, message, details?}`: a
missing resource, which clients recognize by a flat 404, and conflicts of resources. `RateLimited` has its own format.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse

from service.json_bodies import JSONResponse


class ApiError(HTTPException):
    """An error response.

    Args:
        code: for programs, upper case.
        message: for people, a sentence without internals.
        flat: use the flat envelope.
        hint: the next step.
        siblings: members next to `code`, such as `operationId` or `required_permission`.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        flat: bool = False,
        details: Mapping[str, Any] | None = None,
        hint: str | None = None,
        headers: Mapping[str, str] | None = None,
        **siblings: Any,
    ) -> None:
        super().__init__(status, message, headers)
        self.code = code
        self.message = message
        self.flat = flat
        self.body: dict[str, Any] = {"code": code, "message": message}
        if details:
            self.body["details"] = dict(details)
        self.body.update(siblings)
        if hint:
            self.body["hint"] = hint

    def response(self) -> JSONResponse:
        content = self.body if self.flat else {"error": self.body}
        return JSONResponse(content, self.status_code, self.headers)

    def plain(self, status: int | None = None) -> PlainTextResponse:
        """Return the message as plain text, as AuthZEN requires."""
        return PlainTextResponse(self.message, status or self.status_code, self.headers)


def invalid_input(message: str, **details: Any) -> ApiError:
    return ApiError(400, "INVALID_INPUT", message, details=details)


def authentication_required(hint: str | None = None) -> ApiError:
    """401. The message does not reveal which part of a credential is wrong."""
    return ApiError(
        401,
        "AUTHENTICATION_REQUIRED",
        "authentication required",
        hint=hint,
        headers={"WWW-Authenticate": 'Bearer realm="frost"'},
    )


def reauthentication_required(seconds: int) -> ApiError:
    """401 for a sign-in before the end of all sessions, or of its removed session, `seconds` ago (RFC 9470 3)."""
    challenge = f'Bearer realm="frost", error="insufficient_user_authentication", max_age="{max(seconds, 0)}"'
    return ApiError(
        401,
        "REAUTHENTICATION_REQUIRED",
        "this sign-in is from before you ended all your sessions",
        hint="sign in again, with your password: frost login",
        headers={"WWW-Authenticate": challenge},
    )


def session_required() -> ApiError:
    return ApiError(
        403, "SESSION_REQUIRED", "this needs an interactive session", hint="sign in as a person: frost login"
    )


def session_or_api_key_required() -> ApiError:
    return ApiError(
        403,
        "SESSION_REQUIRED",
        "this needs an interactive session or an API key",
        hint="sign in as a person: frost login",
    )


def api_key_required() -> ApiError:
    return ApiError(403, "API_KEY_REQUIRED", "this needs an API key", hint="create one: frost account api-key create")


def tenant_access_denied() -> ApiError:
    """403 for a tenant that the principal may not enter or that does not exist."""
    return ApiError(403, "TENANT_ACCESS_DENIED", "tenant access denied")


def no_home_tenant() -> ApiError:
    """403 for a path without a tenant, and a person without a default tenant."""
    return ApiError(
        403,
        "TENANT_ACCESS_DENIED",
        "this account has no default tenant",
        hint="name the tenant in the path: /api/v1/tenants/{tenant_id}/...",
    )


def permission_denied(on: str) -> ApiError:
    """403 without role or membership; `on` is `organization`, `tenant` or `platform`."""
    return ApiError(403, "PERMISSION_DENIED", f"you do not have permission to perform this action on this {on}")


def insufficient_scope(scope: str | None) -> ApiError:
    """403 without the scope of a route; None if no scope of the principal is enforced."""
    if scope is None:
        return ApiError(403, "INSUFFICIENT_SCOPE", "the API key has no scope that a service enforces")
    return ApiError(403, "INSUFFICIENT_SCOPE", f"the API key lacks the {scope} scope", details={"scope": scope})


def insufficient_permissions(operation: str, part: str, reason: str) -> ApiError:
    """403 if `part` of the grants, such as the role or the policies, does not allow an operation."""
    who = "the policies of this API key do not" if part == "policies" else "your role does not"
    return ApiError(
        403,
        "INSUFFICIENT_PERMISSIONS",
        f"{who} grant permission to perform this action",
        details={"reason": reason},
        required_permission=operation,
    )


def not_found(message: str = "resource not found") -> ApiError:
    """Flat 404 for a resource that does not exist or that the principal may not see."""
    return ApiError(404, "NOT_FOUND", message, flat=True)


def operation_not_found() -> ApiError:
    """Nested 404 for a job."""
    return ApiError(404, "NOT_FOUND", "operation not found")


def not_routed(path: str) -> ApiError:
    if path == "/api" or path.startswith("/api/"):
        return ApiError(404, "PATH_NOT_ROUTED", "no route found for path")
    return ApiError(404, "NOT_FOUND", "the requested resource was not found")


def method_not_allowed(method: str, allowed: Sequence[str]) -> ApiError:
    return ApiError(
        405, "METHOD_NOT_ALLOWED", f"{method} is not allowed on this path", headers={"Allow": ", ".join(allowed)}
    )


def body_too_large(limit: int) -> ApiError:
    return ApiError(413, "BODY_TOO_LARGE", f"the request body is larger than {limit} bytes", details={"max": limit})


def body_too_late(seconds: float, rate: int) -> ApiError:
    """408 for a slow body; the connection is closed."""
    message = f"the request body did not arrive within {seconds:g} seconds and its size at {rate} bytes a second"
    return ApiError(408, "REQUEST_TIMEOUT", message, headers={"Connection": "close"})


def body_encoded() -> ApiError:
    """415 for a compressed body (RFC 9110 15.5.16)."""
    return ApiError(
        415,
        "UNSUPPORTED_MEDIA_TYPE",
        "the request body must not have a Content-Encoding",
        hint="send it uncompressed",
        headers={"Accept-Encoding": "identity"},
    )


class Overloaded(ApiError):
    """A 503 for a request that was not processed because of the limits."""


def overloaded(message: str, retry_after: int = 1) -> ApiError:
    """Return an `Overloaded` after which the client waits `retry_after` seconds."""
    return Overloaded(
        503,
        "SERVICE_UNAVAILABLE",
        message,
        hint="try again; nothing was changed",
        headers={"Retry-After": str(retry_after)},
    )


def internal_error(request_id: str) -> ApiError:
    return ApiError(
        500,
        "INTERNAL_ERROR",
        "the platform failed to process this request",
        details={"requestId": request_id},
        hint="try again; if the error persists, report the request id to the platform's operator",
    )


def read_only(request_id: str) -> ApiError:
    """503 for a change while the database is read-only or full."""
    return ApiError(
        503,
        "SERVICE_UNAVAILABLE",
        "the platform accepts no changes now; nothing was changed",
        details={"requestId": request_id},
        hint="reads still work; the storage is full or read-only, see /readyz",
    )


def audit_log_broken(request_id: str) -> ApiError:
    """503 for a change while the chain of the audit log cannot be continued."""
    return ApiError(
        503,
        "SERVICE_UNAVAILABLE",
        "the platform accepts no changes now; nothing was changed",
        details={"requestId": request_id},
        hint="reads still work; the audit log was altered: frost platform audit verify",
    )


def storage_failed(request_id: str) -> ApiError:
    """503 after an I/O error, in a damaged file, or after the database file was moved."""
    return ApiError(
        503,
        "STORAGE_FAILED",
        "the platform's storage failed",
        details={"requestId": request_id},
        hint="a change may have been stored: check first. The log of the platform has the cause",
    )


def unavailable() -> ApiError:
    """503 while the database restarts, fails over or is overloaded."""
    return ApiError(
        503,
        "SERVICE_UNAVAILABLE",
        "the platform's database does not respond",
        hint="a change may have been stored: check first, or retry with the same Idempotency-Key",
        headers={"Retry-After": "1"},
    )


def validation_error(error: RequestValidationError) -> ApiError:
    """400 for the first validation error, such as `"displayName" is required`."""
    first = error.errors()[0]
    place, *path = first["loc"]
    member = ".".join(str(part) for part in path)
    kind = first["type"]
    if place == "body" and not member:
        message = "invalid request body: a JSON object is required"
    elif kind == "missing":
        message = f'"{member}" is required'
    elif kind == "extra_forbidden":
        message = f'invalid request body: unknown member "{member}"'
    else:
        message = f'"{member}": {first["msg"][:1].lower()}{first["msg"][1:]}'
    reason = "unknown_member" if kind == "extra_forbidden" else kind
    return invalid_input(message, member=member, reason=reason) if member else invalid_input(message, reason=reason)
