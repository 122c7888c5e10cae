"""Finds the route of a request by the segments of its path.

Starlette compares a path with the regular expression of each route in turn: with 150 routes, that takes longer than
most reads. Requests that match no route by method and path go to the router, which answers 404 and 405.
"""

from collections.abc import Callable, Sequence
from operator import itemgetter

from fastapi import APIRouter
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.protected_route import ProtectedRoute

Segments = tuple[str, ...]


class _Pattern:
    """The routes with parameters at the same positions: by method and literal segments."""

    def __init__(self, names: Segments) -> None:
        self.parameters = [(position, name) for position, name in enumerate(names) if name]
        # The first segment is empty in every path. With it there are always two positions, so the result is a tuple.
        self.literals: Callable[[Sequence[str]], Segments] = itemgetter(
            0, *(position for position, name in enumerate(names) if not name)
        )
        self.routes: dict[Segments, ProtectedRoute] = {}


class RouteIndex:
    """The ASGI application of a router whose routes have parameters only as whole segments.

    Args:
        framework: serves the requests of routes that are not direct, and those without a route.

    Raises:
        ValueError: two routes match the same method and path.
    """

    def __init__(self, router: APIRouter, framework: ASGIApp) -> None:
        self._router = router
        self._framework = framework
        self._by_length: dict[int, dict[Segments, _Pattern]] = {}
        """Patterns by number of segments and names of the parameters ("" for a literal)."""
        for route in router.routes:
            self._add(route)

    def _add(self, route: BaseRoute) -> None:
        if not isinstance(route, ProtectedRoute):
            raise ValueError(f"{route} cannot be indexed")  # noqa: TRY004
        segments = route.path_format.split("/")
        names = tuple(segment[1:-1] if segment.startswith("{") else "" for segment in segments)
        pattern = self._by_length.setdefault(len(segments), {}).setdefault(names, _Pattern(names))
        for method in route.methods or ():
            key = (method, *pattern.literals(segments))
            if key in pattern.routes:
                raise ValueError(f"two routes match {method} {route.path_format}")
            pattern.routes[key] = route

    def find(self, method: str, path: str) -> tuple[ProtectedRoute, dict[str, str]] | None:
        """Return the route of a method and path, and the values of its path parameters."""
        segments = path.split("/")
        if "" in segments[1:]:
            return None
        for pattern in self._by_length.get(len(segments), {}).values():
            route = pattern.routes.get((method, *pattern.literals(segments)))
            if route is not None:
                return route, {name: segments[position] for position, name in pattern.parameters}
        return None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match = self.find(scope["method"], scope["path"])
        if match is not None:
            # As `Router.app` and `Route.matches` do.
            route, scope["path_params"] = match
            scope["router"], scope["route"], scope["endpoint"] = self._router, route, route.endpoint
            if route.is_direct:
                await route.serve(scope, receive, send)
                return
        await self._framework(scope, receive, send)

    async def serve_in_framework(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that came back from the framework, as `Router.app` does, without a second search."""
        route: ProtectedRoute | None = scope.get("route")
        await (self._router.app if route is None else route.app)(scope, receive, send)
