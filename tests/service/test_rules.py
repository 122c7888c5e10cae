"""The table of route policies is complete, and the index finds the routes of the router."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Match

from service import app as application
from service.api.dependencies import get_context, get_organization_context, get_tenant_context
from service.api.protected_route import protected_router
from service.api.route_index import RouteIndex
from service.audit.entries import AuditEvent
from service.authz.endpoints import Permission
from service.authz.route_policies import HOME_PATHS, ROUTE_POLICIES, RoutePolicy
from service.catalogue.operations import access_levels, enforced_scopes
from service.settings import from_arguments


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    folder = tmp_path_factory.mktemp("platform")
    app = application.create_app(from_arguments(["--data-dir", str(folder), "--world", "empty"], {}))
    yield app
    app.state.platform.database.close()


def test_every_route_has_a_policy_and_every_policy_a_route(app: FastAPI) -> None:
    routes = [route for route in app.routes if isinstance(route, APIRoute)]
    assert len(routes) == len(app.routes)
    assert {(method, route.path_format) for route in routes for method in route.methods or ()} == set(ROUTE_POLICIES)


def test_a_home_path_keeps_the_dependencies_and_responses_of_its_route() -> None:
    router, check, gone = protected_router("bindings"), Depends(lambda: None), {410: {"description": "gone"}}
    for path in HOME_PATHS.values():
        router.add_api_route(path, lambda: None, dependencies=[check], responses=gone)
    routes = application.home_routes(router.routes)
    assert {route.path for route in routes} == set(HOME_PATHS)
    assert all(route.dependencies == [check] and route.responses == gone for route in routes)


def test_the_context_of_a_route_has_the_type_that_its_policy_gives(app: FastAPI) -> None:
    allowed: dict[object, set[str | None]] = {
        get_context: {None},
        get_tenant_context: {"tenant"},
        get_organization_context: {"organization"},
    }
    for route in app.routes:
        assert isinstance(route, APIRoute)
        for dependency in route.dependant.dependencies:
            if dependency.call in allowed:
                tenancies = {ROUTE_POLICIES[method, route.path_format].tenancy for method in route.methods or ()}
                assert tenancies <= allowed[dependency.call], route.path_format


def strange_route(router: APIRouter) -> APIRouter:
    router.add_api_route("/api/v1/strange", lambda: None, methods=["GET", "POST"])
    return router


def test_a_route_without_a_decision_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    strange = strange_route(protected_router("strange"))
    with pytest.raises(RuntimeError, match="is not a protected route"):
        application.check_policies(strange_route(APIRouter()).routes)
    with pytest.raises(RuntimeError, match="has no policy"):
        application.check_policies(strange.routes)
    monkeypatch.setattr(application, "AREAS", (*application.AREAS, SimpleNamespace(router=strange)))
    with pytest.raises(RuntimeError, match="/api/v1/strange has no policy"):
        application.create_app(from_arguments(["--data-dir", str(tmp_path), "--world", "empty"], {}))
    for method in ("GET", "POST"):
        monkeypatch.setitem(ROUTE_POLICIES, (method, "/api/v1/strange"), RoutePolicy("principal"))
    with pytest.raises(RuntimeError, match="without an audit event"):
        application.check_policies(strange.routes)


def test_every_changing_route_has_an_audit_event_and_no_event_is_unused() -> None:
    events = {rule.audit_event for rule in ROUTE_POLICIES.values() if rule.audit_event}
    for (method, path), rule in ROUTE_POLICIES.items():
        changes = method != "GET" and not rule.dry_run and rule.who != "anyone"
        assert not changes or isinstance(rule.audit_event, AuditEvent), path
        assert method != "GET" or rule.audit_event is None, path
    service = Path(application.__file__).parent
    sources = [file for file in service.rglob("*.py") if file.name not in ("entries.py", "route_policies.py")]
    recorded = {name for file in sources for name in re.findall(r"AuditEvent\.([A-Z_]+)", file.read_text())}
    assert events | {AuditEvent[name] for name in recorded} == set(AuditEvent)


def test_permissions_and_scopes_are_those_of_the_catalogue() -> None:
    assert {rule.permission for rule in ROUTE_POLICIES.values() if rule.permission} == set(Permission)
    assert set(Permission) <= access_levels().keys()
    assert {rule.scope for rule in ROUTE_POLICIES.values() if rule.scope} <= enforced_scopes().keys()
    for names in (AuditEvent, Permission):
        assert [member.name for member in names] == sorted(member.name for member in names)
        assert all(member.name == re.sub(r"[.:-]", "_", member.value).upper() for member in names)


def test_a_policy_fits_its_path() -> None:
    homes = 0
    for (method, path), rule in ROUTE_POLICIES.items():
        # Operators and the local issuer exist on the socket only.
        assert rule.local is (path == "/metrics" or path.startswith(("/issuer/", "/api/v1/platform/"))), path
        assert (rule.who == "operator") <= rule.local, path
        in_tenant = "{tenant_id}" in path or path in HOME_PATHS
        expected = "tenant" if in_tenant else "organization" if "{organization_id}" in path else None
        assert rule.tenancy == expected, path
        assert rule.home is (path in HOME_PATHS), path
        if rule.home:
            homes += 1
            with_tenant = path.replace("/api/v1/", "/api/v1/tenants/{tenant_id}/")
            assert ROUTE_POLICIES[method, with_tenant] == replace(rule, home=False)
    assert homes == 18


ROUTES = [route for area in application.AREAS for route in area.router.routes]
ROUTES += application.home_routes(ROUTES)
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
