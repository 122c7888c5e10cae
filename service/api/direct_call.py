"""Calls an endpoint with its arguments, without the dependency injection of FastAPI.

FastAPI resolves the parameters of a request in about the time that a whole read takes here. Most endpoints have few
kinds of parameters: plain text from path, query and headers, a JSON body, and dependencies of these. FastAPI describes
these routes too, and serves those with other parameters.
"""

import inspect
from collections.abc import Callable, Coroutine, Set
from functools import partial, wraps
from typing import Annotated, Any, ParamSpec, TypeVar, get_args, get_origin

from fastapi import params
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response

P = ParamSpec("P")
T = TypeVar("T")
_IMMEDIATE: dict[Callable[..., Any], Callable[..., Any]] = {}
"""The dependencies that FastAPI calls, and the functions that they call."""
BODY = "frost.validated_body"
"""The key of the validated body in the scope."""
Provider = Callable[[Request], Any]


class UnsupportedParameterError(Exception):
    """Only FastAPI can resolve a parameter."""


class DirectCall:
    """A synchronous endpoint that is called with a request.

    Args:
        path_parameters: the names in the route's path.

    Raises:
        UnsupportedParameterError: FastAPI must call the endpoint.
    """

    def __init__(self, endpoint: Callable[..., Response], path_parameters: Set[str]) -> None:
        returned = inspect.signature(endpoint).return_annotation
        if inspect.iscoroutinefunction(endpoint) or not (isinstance(returned, type) and issubclass(returned, Response)):
            raise UnsupportedParameterError(endpoint)
        self._endpoint = endpoint
        self._providers = _providers(endpoint, path_parameters)

    def __call__(self, request: Request) -> Response:
        return self._endpoint(**{name: provide(request) for name, provide in self._providers})


def immediate(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Return a dependency of a function that never waits: a coroutine function, which FastAPI calls without a thread.

    Raises:
        TypeError: the function is a coroutine function.
    """
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{function} may wait")

    @wraps(function)
    async def dependency(*arguments: P.args, **options: P.kwargs) -> T:
        return function(*arguments, **options)

    _IMMEDIATE[dependency] = function
    return dependency


def _providers(function: Callable[..., Any], path_parameters: Set[str]) -> list[tuple[str, Provider]]:
    signature = inspect.signature(function)
    return [(name, _provider(parameter, path_parameters)) for name, parameter in signature.parameters.items()]


def _provider(parameter: inspect.Parameter, path_parameters: Set[str]) -> Provider:
    name, annotation = parameter.name, parameter.annotation
    base, *metadata = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    if base is Request:
        return lambda request: request
    if len(metadata) == 1 and isinstance(metadata[0], params.Depends):
        return _dependency(metadata[0], path_parameters)
    if name in path_parameters:
        if base is str and all(isinstance(item, params.Path) and _is_plain(item) for item in metadata):
            return lambda request: request.path_params[name]
    elif isinstance(base, type) and issubclass(base, BaseModel) and not metadata and _is_required(parameter):
        return lambda request: request.scope[BODY]
    elif base == (str | None) and parameter.default is None and len(metadata) == 1:
        if isinstance(metadata[0], params.Query) and metadata[0].alias is None and _is_plain(metadata[0]):
            return lambda request: request.query_params.get(name)
        if isinstance(metadata[0], params.Header) and (header := metadata[0].alias) is not None:
            if _is_plain(metadata[0]):
                return lambda request: request.headers.get(header)
            return partial(_constrained_header, header, TypeAdapter(annotation, config=ConfigDict(defer_build=True)))
    raise UnsupportedParameterError(name)


def _constrained_header(name: str, adapter: TypeAdapter[str | None], request: Request) -> str | None:
    """Return the value of an optional header.

    Raises:
        RequestValidationError: the value violates a constraint.
    """
    value = request.headers.get(name)
    if value is None:
        return None
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        raise RequestValidationError([{**each, "loc": ("header", name, *each["loc"])} for each in errors]) from None


def _is_required(parameter: inspect.Parameter) -> bool:
    return parameter.default is inspect.Parameter.empty


def _is_plain(item: object) -> bool:
    """Return whether a parameter has no constraint."""
    return isinstance(item, params.Param) and not item.metadata


def _dependency(depends: params.Depends, path_parameters: Set[str]) -> Provider:
    function = _IMMEDIATE.get(depends.dependency) if depends.dependency else None
    if function is None:
        raise UnsupportedParameterError(depends.dependency)
    providers = _providers(function, path_parameters)
    if len(providers) == 1:
        ((_, provide),) = providers
        return lambda request: function(provide(request))
    return lambda request: function(**{name: provide(request) for name, provide in providers})
