"""Routes that are analysed on their first use: when, once, in threads, and with the result of FastAPI."""

import threading
from pathlib import Path
from typing import cast

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from pydantic import BaseModel

from service.api import protected_route
from service.api.protected_route import LazyRoute
from tests.waiting import at_once

ROOT = Path(__file__).parents[2]


class Pet(BaseModel):
    name: str


def name_pet(pet_id: int, pet: Pet, loud: bool = False) -> dict[str, object]:
    """Name a pet."""
    return {"id": pet_id, "name": pet.name.upper() if loud else pet.name}


def router(route_class: type[APIRoute]) -> APIRouter:
    router = APIRouter(route_class=route_class, tags=["pets"])
    router.put("/pets/{pet_id:int}", operation_id="namePet", status_code=201, responses={404: {"model": Pet}})(name_pet)
    router.get("/pets")(lambda: [])
    return router


@pytest.fixture
def analyses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that FastAPI has analysed, in order."""
    paths: list[str] = []
    analyse = APIRoute.__init__

    def record(self: APIRoute, path: str, *args: object, **options: object) -> None:
        paths.append(path)
        analyse(self, path, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(APIRoute, "__init__", record)
    return paths


def test_a_request_analyses_only_its_own_route(analyses: list[str]) -> None:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.router.routes.extend(router(LazyRoute).routes)
    client = TestClient(app)
    for _ in range(2):
        answer = client.put("/pets/7?loud=yes", json={"name": "rex"})
        assert (answer.status_code, answer.json()) == (201, {"id": 7, "name": "REX"})
    assert client.put("/pets/7", json={"name": 7}).status_code == 422
    assert client.put("/pets/seven", json={"name": "rex"}).status_code == 404
    assert analyses == ["/pets/{pet_id:int}"]


def test_threads_that_use_a_route_first_analyse_it_once(analyses: list[str]) -> None:
    route = cast(LazyRoute, router(LazyRoute).routes[0])
    used = at_once([lambda: (id(route.app), id(route.dependant), id(route.body_field))] * 8)
    assert set(used) == {(id(route.app), id(route.dependant), id(route.body_field))}
    assert analyses == ["/pets/{pet_id:int}"]


def test_all_routes_but_a_broken_one_are_analysed_after_the_start(caplog: pytest.LogCaptureFixture) -> None:
    def endpoint(thing: threading.Event) -> None: ...

    routes = [LazyRoute("/things", endpoint), *router(LazyRoute).routes]
    protected_route.analyse_routes(routes, threading.Event(), delay=0, pause=0)
    assert ["dependant" in vars(route) for route in routes] == [False, True, True]
    assert caplog.messages == ["/things cannot be analysed"]
    # A request that needs it fails each time.
    for _ in range(2):
        with pytest.raises(Exception, match="Invalid args for response field"):
            _ = routes[0].app  # type: ignore[attr-defined]
