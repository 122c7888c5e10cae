"""Endpoints that are called without FastAPI get the arguments that FastAPI gives them."""

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Header, Path, Query
from fastapi.testclient import TestClient
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from service.api.direct_call import DirectCall, UnsupportedParameterError, immediate


@immediate
def page(
    limit: Annotated[str | None, Query(description="items")] = None, cursor: Annotated[str | None, Query()] = None
) -> dict[str, str | None]:
    return {"limit": limit, "cursor": cursor}


@immediate
def upper_kind(kind: Annotated[str, Path(description="a kind")]) -> str:
    return kind.upper()


def answer(
    request: Request,
    pet_id: str,
    kind: Annotated[str, Depends(upper_kind)],
    paging: Annotated[dict[str, str | None], Depends(page)],
    version: Annotated[str | None, Header(alias="If-Match")] = None,
    name: Annotated[str | None, Query()] = None,
) -> JSONResponse:
    return JSONResponse([request.url.path, pet_id, kind, paging, version, name])


def direct(endpoint: Callable[..., Response], *path: str) -> Callable[[Request], Response]:
    call = DirectCall(endpoint, {*path})

    def route(request: Request) -> Response:
        return call(request)

    return route


def client() -> TestClient:
    """An application that answers a path by FastAPI, and another one by `DirectCall`."""
    app = FastAPI()
    app.get("/by/fastapi/{kind}/{pet_id}")(answer)
    app.get("/by/us/{kind}/{pet_id}")(direct(answer, "kind", "pet_id"))
    return TestClient(app)


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("dog/7", {}),
        ("dog/7?limit=3&cursor=abc&name=rex", {"If-Match": '"4"'}),
        ("dog/7?name=", {"If-Match": ""}),
        ("dog/7?name=first&name=last&limit=1&limit=2", {}),
        ("a%20b/%C3%A4?name=%F0%9F%90%B6&other=1", {"IF-MATCH": "x"}),
    ],
)
def test_arguments_are_those_of_fastapi(path: str, headers: dict[str, str]) -> None:
    both = [client().get(f"/by/{who}/{path}", headers=headers).json() for who in ("fastapi", "us")]
    assert both[0][1:] == both[1][1:]
    assert both[0][0] == both[1][0].replace("/by/us/", "/by/fastapi/")


async def unmarked() -> int:
    return 1


@pytest.mark.parametrize(
    "parameter",
    [
        *(Annotated[str | None, Query(max_length=3)], Annotated[str, Query()], Annotated[str | None, Header()]),
        *(int, dict[str, str] | None, Annotated[int, Depends(unmarked)]),
    ],
)
def test_other_parameters_are_left_to_fastapi(parameter: Any) -> None:
    def endpoint(pet_id: Any) -> Response: ...

    endpoint.__annotations__["pet_id"] = parameter
    with pytest.raises(UnsupportedParameterError):
        DirectCall(endpoint, {"pet_id"} if parameter is int else set())


def test_endpoints_that_wait_or_return_data_are_left_to_fastapi_and_dependencies_must_not_wait() -> None:
    def returns_data() -> dict[str, str]: ...

    for endpoint in (unmarked, returns_data):
        with pytest.raises(UnsupportedParameterError):
            DirectCall(endpoint, set())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="may wait"):
        immediate(unmarked)
