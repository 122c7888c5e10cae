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
from tests.api import Answer
from tests.people import AURORA, OUTSIDER, OWNER, WEB_SHOP
from tests.service.access import code as code_of
from tests.service.queries import execute
from tests.service.running import Running
from tests.waiting import until

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


def test_a_path_without_a_route_is_not_found(demo: Running) -> None:
    inside = ("/api", "/api/", "/api/v1", "/api/v1/nothing", "/api/v1/tenants/", "/api/v2/tenants")
    outside = ("/", "/nothing", "/apiv1", "/issuer/nothing", "/docs", "/redoc", "/openapi.json")
    for paths, code, message in (
        (inside, "PATH_NOT_ROUTED", "no route found for path"),
        (outside, "NOT_FOUND", "the requested resource was not found"),
    ):
        assert {nested(demo.get(path), 404, code)["message"] for path in paths} == {message}
    # Unclean paths.
    for path in (
        *("/api/v1//tenants", "//api/v1/tenants", "/api/v1/./tenants", "/api/v1/organizations/../tenants", "/healthz/"),
        *("/api/v1/organizations/%2e%2e/tenants", "/api/v1/%2E/tenants", "/api/v1/tenants/%ff", "/./healthz"),
        *(f"/api/v1/tenants/{WEB_SHOP}{end}" for end in ("%2Foperations", "%5Coperations", "%00", "%0D%0A")),
    ):
        answer = demo.get(path, as_=OWNER)
        assert code_of(answer) in ((404, "PATH_NOT_ROUTED"), (404, "NOT_FOUND")), path


def test_a_refused_method_lists_the_allowed_ones(demo: Running) -> None:
    for method, path, allow in (
        *(("DELETE", f"/api/v1/tenants/{WEB_SHOP}", "GET, HEAD, PATCH"), ("PUT", CREATE, "GET, HEAD, POST")),
        *(("POST", "/api/v1/tenants", "GET, HEAD"), ("GET", "/api/v1/platform/stop", "POST")),
        *(("OPTIONS", "/healthz", "GET, HEAD"), ("PROPFIND", "/api/v1/me", "DELETE, GET, HEAD")),
    ):
        answer = demo.ask(method, path)
        nested(answer, 405, "METHOD_NOT_ALLOWED")
        assert answer.headers["allow"] == allow, path


@pytest.mark.parametrize(
    ("path", "as_", "status"),
    [
        *(("/healthz", None, 200), ("/api/v1/tenants", OWNER, 200), ("/api/v1/tenants", None, 401)),
        *((f"/api/v1/tenants/{WEB_SHOP}", OUTSIDER, 403), ("/api/v1/nothing", OWNER, 404)),
        *(("/api/v1/platform/stop", None, 405), (f"/api/v1/tenants/{WEB_SHOP}/events", OWNER, 200)),
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
    headers = dict(line.lower().split(b": ", 1) for line in first.split(b"\r\n")[1:])
    if path.endswith("/events"):
        assert headers[b"content-type"].startswith(b"text/event-stream")
        return
    got = demo.get(path, as_=as_)
    assert got.status == status
    assert headers[b"content-length"].decode() == got.headers["content-length"]
    assert headers.get(b"allow", b"").decode() == got.headers.get("allow", "").lower()


def test_a_member_at_fault_is_named(demo: Running) -> None:
    for body, message, member in (
        (b"{}", '"displayName" is required', "displayName"),
        (b'{"displayName": 7}', '"displayName": input should be a valid string', "displayName"),
        (b'{"displayName": null}', '"displayName": input should be a valid string', "displayName"),
        (b'{"displayName": "A", "role": "owner"}', 'invalid request body: unknown member "role"', "role"),
        (b'{"display_name": "A"}', '"displayName" is required', "displayName"),
    ):
        error = nested(send(demo, body), 400, "INVALID_INPUT")
        assert (error["message"], error["details"]["member"]) == (message, member), body
    for query in ("include=everything", "include=", "include=usage2"):
        error = nested(demo.get(f"/api/v1/tenants?{query}", as_=OWNER), 400, "INVALID_INPUT")
        assert error["details"]["member"] == "include"


def test_a_body_is_read_as_strict_json(demo: Running) -> None:
    """All the rules are in the tests of the two readers."""
    for body in (
        *(b"", b"[]", b"null", b'{"displayName": "A"} x', b'{"displayName": "A", "displayName": "B"}', b"[" * 100_000),
        *(b'{"displayName": NaN}', '{"displayName": "A"}'.encode("utf-16"), b'{"displayName": ' + b"9" * 5000 + b"}"),
    ):
        assert nested(send(demo, body), 400, "INVALID_INPUT")["message"].startswith("invalid request body"), body[:50]
    for media_type in ("text/plain", "application/x-www-form-urlencoded", ""):
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


def test_ids_are_uuids_in_any_spelling(demo: Running) -> None:
    for segment in ("7", "web-shop", WEB_SHOP[:-1], f"{WEB_SHOP}0", "{" + WEB_SHOP, "١" * 8):
        for kind, end in (("tenant", ""), ("organization", "/tenants")):
            answer = demo.get(f"/api/v1/{kind}s/{quote(segment)}{end}", as_=OWNER)
            assert nested(answer, 400, "INVALID_INPUT")["message"] == f"invalid {kind} ID"
    canonical = demo.get(f"/api/v1/tenants/{WEB_SHOP}", as_=OWNER).json()
    for spelling in (WEB_SHOP.upper(), f"%7B{WEB_SHOP}%7D", f"urn:uuid:{WEB_SHOP}", WEB_SHOP.replace("-", "")):
        assert demo.get(f"/api/v1/tenants/{spelling}", as_=OWNER).json() == canonical
    assert canonical["id"] == WEB_SHOP


def test_the_refusal_of_invalid_http_has_the_envelope(demo: Running) -> None:
    for request, status, error in (
        (b"NONSENSE\r\n\r\n", 400, "INVALID_REQUEST"),
        (b"GET /healthz HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", 400, "INVALID_REQUEST"),
        (b"GET /healthz HTTP/1.1\r\nX\x00: y\r\n\r\n", 400, "INVALID_REQUEST"),
        (b"GET /healthz HTTP/1.1\r\nX-Long: " + b"x" * (2 * MAX_HEADER_BYTES), 431, "HEAD_TOO_LARGE"),
    ):
        head, _, body = demo.raw(request).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d" % status), request
        assert b"x-request-id: " in head
        assert json.loads(body)["error"]["code"] == error


def test_only_an_unexpected_failure_is_logged_with_the_request_id_and_answered_without_internals(
    own: Running, own_database: Database
) -> None:
    head = b"POST /issuer/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(own.socket))
        caller.sendall(head + b"Content-Length: 100\r\n\r\nhalf")
    until(lambda: '"path":"/issuer/token"' in own.log)
    assert "request failed" not in own.log, "a caller that leaves during its body is no failure"
    token = own.token(OWNER)
    execute(own_database, text("ALTER TABLE memberships RENAME TO mislaid"))
    answer = own.get("/api/v1/tenants", as_=OWNER)
    error, request_id = nested(answer, 500, "INTERNAL_ERROR"), answer.headers["x-request-id"]
    assert error["details"] == {"requestId": request_id}
    assert b"memberships" not in answer.body
    lines = [json.loads(line) for line in own.log.splitlines()]
    assert any("memberships" in line.get("exception", "") for line in lines if line.get("request_id") == request_id)
    assert token not in own.log
    assert own.get("/healthz").status == 200


def test_every_answer_has_the_version_and_a_request_id(demo: Running) -> None:
    for path in ("/healthz", "/api/v1/me", "/api/v1/nothing", "/nothing", "/api/v1//me"):
        answer = demo.get(path)
        assert len(answer.headers["x-request-id"]) == 36
        assert answer.headers["x-frost-version"] == demo.get("/api/v1/platform/status").json()["version"]
    # A plain one is kept, and any other replaced.
    for request_id, is_kept in (
        *(("trace-0001", True), ("a" * 64, True), ("short", False), ("a" * 65, False)),
        *(("trace 0001", False), ("trace_0001", False)),
    ):
        answer = demo.get("/healthz", headers={"X-Request-Id": request_id})
        assert (answer.headers["x-request-id"] == request_id) is is_kept, request_id
