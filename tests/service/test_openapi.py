"""The published operation ids are stable."""

from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from service import app as application
from service.api import openapi, response_schemas
from service.authz.route_policies import HOME_PATHS

PUBLISHED = Path(__file__).with_name("operation_ids.txt")


@pytest.fixture(scope="module")
def routes() -> list[APIRoute]:
    tenanted = [route for area in application.AREAS for route in area.router.routes]
    return [route for route in (*tenanted, *application.home_routes(tenanted)) if isinstance(route, APIRoute)]


def test_operation_ids_are_the_published_ones(routes: list[APIRoute]) -> None:
    lines = {f"{method} {route.path_format} {route.operation_id}" for route in routes for method in route.methods or ()}
    assert sorted(lines) == PUBLISHED.read_text().splitlines()


def test_an_operation_without_a_tenant_is_named_after_the_one_with_it(routes: list[APIRoute]) -> None:
    ids = {(route.path_format, method): route.operation_id for route in routes for method in route.methods or ()}
    for (path, method), operation_id in ids.items():
        if path in HOME_PATHS:
            assert operation_id == f"{ids[HOME_PATHS[path], method]}{openapi.OWN_TENANT_SUFFIX}"


def test_every_described_answer_is_one_of_an_operation(routes: list[APIRoute]) -> None:
    ids = {route.operation_id for route in routes}
    for table in (
        response_schemas.SCHEMAS_BY_OPERATION,
        response_schemas.FURTHER_RESPONSES,
        response_schemas.MEDIA_TYPES,
        openapi.SPECIAL_REFUSALS,
    ):
        assert table.keys() <= ids
