"""Responses, exception handlers and audit entries that routes share."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from fastapi.exceptions import RequestValidationError
from sqlalchemy import Connection
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from service import errors
from service.audit import entries
from service.audit.entries import AuditEvent
from service.authz.context import AuthorizationContext
from service.authz.route_policies import ROUTE_POLICIES
from service.errors import ApiError
from service.http_server.client import peer_uid
from service.json_bodies import JSONResponse

T = TypeVar("T")
CHANGED = "X-Frost-Changed"


def with_etag(document: dict[str, Any], *, changed: bool | None = None) -> JSONResponse:
    """Return a document with its version as `ETag`; `changed` is the result of a write."""
    return JSONResponse(document, 200, etag(document) | ({} if changed is None else _change_headers(changed)))


def etag(document: Mapping[str, Any]) -> dict[str, str]:
    return {"ETag": f'"{document["version"]}"'}


def created(
    document: Mapping[str, Any], endpoint: str, *, headers: Mapping[str, str] | None = None, **ids: str | None
) -> JSONResponse:
    """Return a new object with its path as `Location`: the endpoint (see service/authz/endpoints.py) with the ids."""
    return JSONResponse(document, 201, {**(headers or {}), "Location": endpoint.format(**ids)})


def no_content(*, changed: bool = True) -> Response:
    return Response(status_code=204, headers=_change_headers(changed))


def _change_headers(changed: bool) -> dict[str, str]:
    return {CHANGED: "true" if changed else "false"}


def or_404(row: T | None) -> T:
    """Return the row, or raise a flat 404 for None."""
    if row is None:
        raise errors.not_found()
    return row


def audit_in_tenant(
    connection: Connection,
    context: AuthorizationContext,
    event: AuditEvent,
    target: str,
    at: datetime,
    details: Mapping[str, Any] | None = None,
) -> None:
    entries.record(
        connection,
        context.principal,
        event=event,
        target=target,
        organization_id=context.organization_id,
        tenant_id=context.tenant_id,
        details=details,
        at=at,
    )


async def handle_api_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ApiError)
    return error.response()


async def handle_http_exception(request: Request, error: Exception) -> JSONResponse:
    """Convert errors of the framework, such as unknown paths and wrong methods."""
    assert isinstance(error, HTTPException)
    methods = allowed_methods(request) if error.status_code == 405 else []
    if error.status_code == 404 or (error.status_code == 405 and not methods):
        return errors.not_routed(request.scope["path"]).response()
    if methods:
        return errors.method_not_allowed(request.method, methods).response()
    if error.status_code < 500:
        return ApiError(error.status_code, "INVALID_REQUEST", "the request could not be read").response()
    raise error


def allowed_methods(request: Request) -> list[str]:
    """Return the methods of all routes of a path. The framework reports only those of the first route."""
    over_socket = peer_uid(request.scope) is not None
    methods = {
        method
        for route in request.app.routes
        if route.path_regex.match(request.scope["path"])
        for method in route.methods
        if over_socket or not ROUTE_POLICIES[method, route.path_format].local
    }
    # `HeadMiddleware` handles HEAD for every GET route.
    return sorted(methods | {"HEAD"} if "GET" in methods else methods)


async def handle_validation_error(request: Request, error: Exception) -> JSONResponse:
    """Return 400 INVALID_INPUT with the first invalid member."""
    assert isinstance(error, RequestValidationError)
    return errors.validation_error(error).response()


async def error_response(request: Request, error: HTTPException | RequestValidationError) -> JSONResponse:
    """Return the response to an exception of a route that FastAPI does not call."""
    if isinstance(error, RequestValidationError):
        return await handle_validation_error(request, error)
    if isinstance(error, ApiError):
        return error.response()
    return await handle_http_exception(request, error)


HANDLERS: dict[Any, Any] = {
    ApiError: handle_api_error,
    HTTPException: handle_http_exception,
    RequestValidationError: handle_validation_error,
}
