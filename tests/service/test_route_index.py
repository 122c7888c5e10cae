"""The route index and the router find the same routes."""

import re

import pytest
from starlette.routing import Match

from service.api.protected_route import protected_router
from service.api.route_index import RouteIndex
from service.app import AREAS, home_routes

ROUTES = [route for area in AREAS for route in area.router.routes]
ROUTES += home_routes(ROUTES)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def routed(method: str, path: str) -> object:
    """Return the route that Starlette's router selects, and its parameters."""
    for route in ROUTES:
        match, child = route.matches({"type": "http", "method": method, "path": path, "root_path": ""})
        if match is Match.FULL:
            return child["route"], child["path_params"]
    return None


def test_the_index_finds_the_route_and_parameters_of_the_router() -> None:
    router = protected_router("test")
    router.routes.extend(ROUTES)
    index = RouteIndex(router, router)
    for path in {re.sub(r"{(\w+)}", r"value-of-\1", route.path_format) for route in ROUTES}:
        routes = {method: index.find(method, path) for method in METHODS}
        # Starlette adds HEAD to routes that are analysed; `HeadMiddleware` turns HEAD into GET.
        assert routes.pop("HEAD") is None
        assert routes == {method: routed(method, path) for method in routes}
        assert any(routes.values())
    for path in ("/", "", "/api", "/api/v1/tenants/", "/api/v1/tenants/a/b/c/d/e/f/g/h/i/j", "/healthz/"):
        assert index.find("GET", path) is None, path


def test_two_routes_of_a_method_and_path_are_refused() -> None:
    router = protected_router("test")
    router.get("/pets/{pet}")(lambda pet: pet)
    router.get("/pets/{name}/toys")(lambda name: name)
    RouteIndex(router, router)
    router.get("/pets/{pet}")(lambda pet: pet)
    with pytest.raises(ValueError, match=re.escape("two routes match GET /pets/{pet}")):
        RouteIndex(router, router)
