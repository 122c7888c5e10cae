"""Exception handlers of the application."""

from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request

from service import errors
from service.authz.route_policies import ROUTE_POLICIES
from service.errors import ApiError
from service.http_server.client_address import peer_uid
from service.json_bodies import JSONResponse


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


HANDLERS: dict[Any, Any] = {
    ApiError: handle_api_error,
    HTTPException: handle_http_exception,
    RequestValidationError: handle_validation_error,
}
