"""Every answer that is not a success has one of the two documented envelopes."""

import json
import socket
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import text

from service.api.middleware import MAX_BODY_BYTES
from service.db.engine import Database
from service.http_server.protocol import MAX_HEADER_BYTES
from tests.homes import Answer
from tests.service.planned import until
from tests.service.running import AURORA, OUTSIDER, OWNER, WEB_SHOP, Running

CREATE = f"/api/v1/organizations/{AURORA}/tenants"
JSON = {"Content-Type": "application/json"}


def nested(answer: Answer, status: int, code: str) -> dict[str, Any]:
    """The error of a nested envelope, after checking it."""
    assert answer.status == status, answer
    document = answer.json()
    assert set(document) == {"error"}
    error: dict[str, Any] = document["error"]
    assert error["code"] == code
    assert error["message"]
    assert set(error) <= {"code", "message", "details", "hint", "operationId", "required_permission"}
    assert isinstance(error.get("details", {}), dict)
    assert answer.headers["content-type"] == "application/json"
    return error


def send(platform: Running, body: bytes, path: str = CREATE, method: str = "POST", **headers: str) -> Answer:
    sent = {**JSON, "Authorization": f"Bearer {platform.token(OWNER)}", **headers}
    return platform.request(method, path, sent, body)


@pytest.mark.parametrize(
    ("paths", "code", "message"),
    [
        (
            ("/api", "/api/", "/api/v1", "/api/v1/nothing", "/api/v1/tenants/", "/api/v2/tenants"),
            "PATH_NOT_ROUTED",
            "no route found for path",
        ),
        (
            ("/", "/nothing", "/apiv1", "/issuer/nothing", "/docs", "/redoc", "/openapi.json"),
            "NOT_FOUND",
            "the requested resource was not found",
        ),
    ],
    ids=["inside the API", "outside of it"],
)
def test_a_path_without_a_route_is_not_found(demo: Running, paths: tuple[str, ...], code: str, message: str) -> None:
    assert {nested(demo.get(path), 404, code)["message"] for path in paths} == {message}


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1//tenants",
        "//api/v1/tenants",
        "/api/v1/./tenants",
        "/api/v1/organizations/../tenants",
        "/api/v1/organizations/%2e%2e/tenants",
        "/api/v1/%2E/tenants",
        f"/api/v1/tenants/{WEB_SHOP}%2Foperations",
        f"/api/v1/tenants/{WEB_SHOP}%5Coperations",
        f"/api/v1/tenants/{WEB_SHOP}%00",
        f"/api/v1/tenants/{WEB_SHOP}%0D%0A",
        "/api/v1/tenants/%ff",
        "/healthz/",
        "/./healthz",
    ],
)
def test_an_unclean_path_is_not_routed(demo: Running, path: str) -> None:
    answer = demo.get(path, as_=OWNER)
    assert answer.status == 404
    assert answer.json()["error"]["code"] in ("PATH_NOT_ROUTED", "NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", f"/api/v1/tenants/{WEB_SHOP}", "GET, HEAD, PATCH"),
        ("PUT", CREATE, "GET, HEAD, POST"),
        ("POST", "/api/v1/tenants", "GET, HEAD"),
        ("GET", "/api/v1/platform/stop", "POST"),
        ("OPTIONS", "/healthz", "GET, HEAD"),
        ("PROPFIND", "/api/v1/me", "DELETE, GET, HEAD"),
    ],
)
def test_a_refused_method_lists_the_allowed_ones(demo: Running, method: str, path: str, allow: str) -> None:
    answer = demo.ask(method, path)
    nested(answer, 405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == allow


@pytest.mark.parametrize(
    ("path", "as_", "status"),
    [
        ("/healthz", None, 200),
        ("/api/v1/tenants", OWNER, 200),
        ("/api/v1/tenants", None, 401),
        (f"/api/v1/tenants/{WEB_SHOP}", OUTSIDER, 403),
        ("/api/v1/nothing", OWNER, 404),
        ("/api/v1/platform/stop", None, 405),
        (f"/api/v1/tenants/{WEB_SHOP}/events", OWNER, 200),
    ],
)
def test_head_answers_as_get_without_the_body(demo: Running, path: str, as_: str | None, status: int) -> None:
    credential = [f"Authorization: Bearer {demo.token(as_)}"] if as_ else []
    lines = [f"HEAD {path} HTTP/1.1", "Host: localhost", *credential, "\r\n"]
    # A second request on the connection: nothing of a body stands between the two answers.
    after = "GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    first, _, rest = demo.raw("\r\n".join(lines).encode() + after.encode()).partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 %d " % status)
    assert rest.startswith(b"HTTP/1.1 200 ")
    named = dict(line.lower().split(b": ", 1) for line in first.split(b"\r\n")[1:])
    if path.endswith("/events"):
        assert named[b"content-type"].startswith(b"text/event-stream")
        return
    got = demo.get(path, as_=as_)
    assert got.status == status
    assert named[b"content-length"].decode() == got.headers["content-length"]
    assert named.get(b"allow", b"").decode() == got.headers.get("allow", "").lower()


@pytest.mark.parametrize(
    ("body", "said", "member"),
    [
        (b"{}", '"displayName" is required', "displayName"),
        (b'{"displayName": 7}', '"displayName": input should be a valid string', "displayName"),
        (b'{"displayName": null}', '"displayName": input should be a valid string', "displayName"),
        (b'{"displayName": "A", "role": "owner"}', 'invalid request body: unknown member "role"', "role"),
        (b'{"display_name": "A"}', '"displayName" is required', "displayName"),
    ],
)
def test_a_member_at_fault_is_named(demo: Running, body: bytes, said: str, member: str) -> None:
    error = nested(send(demo, body), 400, "INVALID_INPUT")
    assert error["message"] == said
    assert error["details"]["member"] == member


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'{"displayName": "A"} x',
        b'{"displayName": "A", "displayName": "B"}',
        b'{"displayName": NaN}',
        b"[" * 100_000,
        '{"displayName": "A"}'.encode("utf-16"),
        b'{"displayName": ' + b"9" * 5000 + b"}",
    ],
)
def test_json_is_read_strictly(demo: Running, body: bytes) -> None:
    """All the rules are in the tests of the two readers."""
    assert nested(send(demo, body), 400, "INVALID_INPUT")["message"].startswith("invalid request body")


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_only_json_is_taken_for_json(demo: Running, media_type: str) -> None:
    answer = send(demo, b'{"displayName": "A"}', **{"Content-Type": media_type})
    nested(answer, 415, "UNSUPPORTED_MEDIA_TYPE")


ANNOUNCED = f"Content-Length: {MAX_BODY_BYTES + 1}\r\nConnection: close\r\n\r\n".encode()
CHUNKS = (b"40000\r\n" + b" " * 0x40000 + b"\r\n") * 5 + b"0\r\n\r\n"


@pytest.mark.parametrize("rest", [ANNOUNCED, b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS], ids=["length", "chunks"])
def test_a_body_that_is_too_large_is_refused_before_its_end(demo: Running, rest: bytes) -> None:
    head = (
        f"POST {CREATE} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {demo.token(OWNER)}\r\n"
    )
    answer = demo.raw(head.encode() + rest, seconds=1)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b'"code":"BODY_TOO_LARGE"' in answer.replace(b'": "', b'":"')


@pytest.mark.parametrize(
    ("query", "member"), [("?include=everything", "include"), ("?include=", "include"), ("?include=usage2", "include")]
)
def test_a_query_at_fault_is_named(demo: Running, query: str, member: str) -> None:
    error = nested(demo.get(f"/api/v1/tenants{query}", as_=OWNER), 400, "INVALID_INPUT")
    assert error["details"]["member"] == member


@pytest.mark.parametrize("segment", ["7", "web-shop", WEB_SHOP[:-1], f"{WEB_SHOP}0", "{" + WEB_SHOP, "١" * 8])
def test_an_id_that_is_no_uuid_is_invalid_input(demo: Running, segment: str) -> None:
    for kind in ("tenant", "organization"):
        path = f"/api/v1/{kind}s/{quote(segment)}{'/tenants' if kind == 'organization' else ''}"
        assert nested(demo.get(path, as_=OWNER), 400, "INVALID_INPUT")["message"] == f"invalid {kind} ID"


@pytest.mark.parametrize(
    "spelling", [WEB_SHOP.upper(), "%7B" + WEB_SHOP + "%7D", f"urn:uuid:{WEB_SHOP}", WEB_SHOP.replace("-", "")]
)
def test_every_spelling_of_a_uuid_is_read_and_answered_canonically(demo: Running, spelling: str) -> None:
    answer = demo.get(f"/api/v1/tenants/{spelling}", as_=OWNER)
    assert answer.status == 200
    assert answer.json()["id"] == WEB_SHOP


@pytest.mark.parametrize(
    "request_text",
    [
        b"NONSENSE\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"POST /api/v1/me HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nX\x00: y\r\n\r\n",
    ],
)
def test_the_refusal_of_invalid_http_has_the_envelope(demo: Running, request_text: bytes) -> None:
    head, _, body = demo.raw(request_text).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert b"x-request-id: " in head
    assert json.loads(body)["error"]["code"] == "INVALID_REQUEST"


def test_an_endless_head_is_cut_off(demo: Running) -> None:
    answer = demo.raw(b"GET /healthz HTTP/1.1\r\nX-Long: " + b"x" * (2 * MAX_HEADER_BYTES))
    assert answer.startswith(b"HTTP/1.1 431")
    assert b"HEAD_TOO_LARGE" in answer


def test_a_caller_that_leaves_during_its_body_is_no_failure(own: Running) -> None:
    head = b"POST /issuer/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(own.socket))
        caller.sendall(head + b"Content-Length: 100\r\n\r\nhalf")
    until(lambda: '"path":"/issuer/token"' in own.log)
    assert "request failed" not in own.log


def test_an_unexpected_failure_has_the_request_id_and_no_internals(own: Running) -> None:
    token = own.token(OWNER)
    opened = Database(own.database_url)
    with opened.write() as connection:
        connection.execute(text("ALTER TABLE memberships RENAME TO mislaid"))
    opened.close()
    answer = own.request("GET", "/api/v1/tenants", {"Authorization": f"Bearer {token}"})
    error = nested(answer, 500, "INTERNAL_ERROR")
    assert error["details"] == {"requestId": answer.headers["x-request-id"]}
    assert b"memberships" not in answer.body
    logged = [json.loads(line) for line in own.log.splitlines()]
    failures = [line for line in logged if line.get("request_id") == answer.headers["x-request-id"]]
    assert any("memberships" in line.get("exception", "") for line in failures)
    assert token not in own.log
    ready = own.get("/healthz")
    assert ready.status == 200


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/me", "/api/v1/nothing", "/nothing", "/api/v1//me"])
def test_every_answer_has_a_request_id_and_the_version(demo: Running, path: str) -> None:
    answer = demo.get(path)
    assert len(answer.headers["x-request-id"]) == 36
    assert answer.headers["x-frost-version"] == demo.get("/api/v1/platform/status").json()["version"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("trace-0001", True),
        ("a" * 64, True),
        ("short", False),
        ("a" * 65, False),
        ("trace 0001", False),
        ("trace_0001", False),
    ],
)
def test_a_plain_request_id_is_kept_and_any_other_replaced(demo: Running, given: str, kept: bool) -> None:
    answer = demo.get("/healthz", headers={"X-Request-Id": given})
    assert (answer.headers["x-request-id"] == given) is kept
