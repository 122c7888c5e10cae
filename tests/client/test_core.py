"""Paths, signing and interpretation of responses, without a socket."""

import json
import unicodedata
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.api import account, groups, policies, tenants
from client.auth.credential_store import Credential
from client.errors import Exit, FrostError
from client.transport.call import NoResponse, Reply, Request, path, redact
from client.transport.endpoint import Endpoint
from client.transport.exchange import NeedCredential, RequestLogEntry, Send, Steps, exchange
from tests.client.wire import session

HERE = Endpoint.parse("unix:/tmp/api.sock")
KEY = Credential("api_key", "fmk_" + "a" * 36)
THERE = Endpoint.parse("https://api.frost.example")


def reply(status: int, document: Any, **headers: str) -> Reply:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    named = {"content-type": "application/json", "x-request-id": "req-12345678"}
    named.update({name.replace("_", "-"): value for name, value in headers.items()})
    return Reply(status, named, body)


def ended(steps: Steps, answer: Reply | NoResponse) -> FrostError:
    """Return the result of an exchange with this response."""
    effect = next(steps)
    if isinstance(effect, NeedCredential):
        effect = steps.send(KEY)
    assert isinstance(effect, Send)
    with pytest.raises(FrostError) as caught:
        steps.send(answer)
    return caught.value


def refused(status: int, document: Any, where: str = "/v1/tenants/t-1", **headers: str) -> FrostError:
    """The failure of a write with this answer."""
    return ended(exchange(Request("DELETE", where), HERE, lambda: 0.0), reply(status, document, **headers))


@pytest.mark.parametrize(
    "segment",
    ["", ".", "..", "a/b", "../../me", "a\\b", "%2e%2e", "%2F", "a\r\nX-Evil: 1", "a\x00", "a\u202eb", "a" * 8192],
)
def test_an_id_with_path_characters_is_refused_before_anything_is_sent(segment: str) -> None:
    for call in (tenants.get, tenants.list_of, tenants.operations, lambda part: tenants.operation("t", part)):
        with pytest.raises(FrostError) as caught:
            call(segment)
        assert caught.value.exit_code == Exit.USAGE
        assert caught.value.message.isprintable()


@given(st.text())
def test_a_segment_stays_one_segment_or_is_refused(segment: str) -> None:
    try:
        built = path("/v1/tenants/{}/operations/{}", segment, "op")
    except FrostError:
        return
    assert built.startswith("/v1/tenants/")
    assert built.count("/") == 5
    assert built.isascii()
    assert not set(built) & set("?#\\ \r\n")


def test_braces_in_an_id_are_only_characters() -> None:
    assert path("/v1/tenants/{}/x/{}", "{0}", "{}") == "/v1/tenants/%7B0%7D/x/%7B%7D"


def test_a_status_decides_how_a_command_ends() -> None:
    for exit_code, statuses in (
        (Exit.REFUSED, (400, 405, 422, 500)),
        (Exit.NOT_SIGNED_IN, (401,)),
        (Exit.NOT_ALLOWED, (403,)),
        (Exit.CONFLICT, (409, 412)),
        (Exit.UNREACHABLE, (502, 503, 504)),
    ):
        for status in statuses:
            assert refused(status, {"error": {"code": "X", "message": "m"}}).exit_code == exit_code, status


def test_a_value_refused_by_the_platform_is_a_usage_error() -> None:
    for code in (
        "INVALID_INPUT", "INVALID_CURSOR", "INVALID_POLICY_DOCUMENT", "UNKNOWN_OPERATION", "INVALID_API_KEY_NAME",
        "INVALID_SCOPE", "WILDCARD_SCOPE_NOT_ALLOWED", "API_KEY_LIFETIME_EXCEEDS_MAX", "API_KEY_EXPIRY_IN_PAST",
    ):  # fmt: skip
        assert refused(400, {"error": {"code": code, "message": "m"}}).exit_code == Exit.USAGE
        assert refused(409, {"error": {"code": code, "message": "m"}}).exit_code == Exit.CONFLICT


def test_a_flat_404_is_gone_and_a_nested_one_is_an_error() -> None:
    flat = refused(404, {"code": "NOT_FOUND", "message": "resource not found"})
    assert (flat.gone, flat.exit_code) == (True, Exit.NOT_FOUND)
    nested = refused(404, {"error": {"code": "PATH_NOT_ROUTED", "message": "no route found for path"}})
    assert (nested.gone, nested.exit_code) == (False, Exit.REFUSED)
    assert "api_endpoint" in nested.hint
    assert not refused(404, b"").gone
    assert not refused(404, {"code": 7, "message": "x"}).gone
    body = {"error": {"code": "NOT_FOUND", "message": "operation not found"}}
    error = refused(404, body, "/v1/tenants/t/operations/o")
    assert (error.gone, error.exit_code, error.message) == (False, Exit.NOT_FOUND, "operation not found")


def test_details_beside_the_code_are_kept() -> None:
    members = {"code": "APPLY_IN_PROGRESS", "message": "m", "details": {"a": 1}, "hint": "h"}
    error = refused(409, {"error": members | {"operationId": "op-1"}})
    assert (error.operation_id, error.details, error.hint) == ("op-1", {"a": 1}, "h")
    assert error.document() == {"error": members | {"requestId": "req-12345678"}}
    # Odd types do not lose code and message.
    error = refused(409, {"error": {"code": "C", "message": "m", "details": "text", "operationId": 7, "hint": []}})
    assert (error.code, error.message, error.details, error.operation_id, error.hint) == ("C", "m", None, "", "")


def test_a_malformed_error_body_is_reported_by_its_status() -> None:
    for body in (b"", b"plain words", b"<html>500</html>", b"[1]", b"\xff\xfe", b"[" * 100_000):
        error = refused(500, body)
        assert (error.code, error.message[:8], "<" in error.message) == ("ERROR", "HTTP 500", False)


def test_a_version_too_old_has_a_code_of_our_own_and_safe_words() -> None:
    error = refused(426, {"error": {"code": "PROVIDER_UPGRADE_REQUIRED", "message": "\x1b[31mupgrade"}})
    assert (error.code, error.message) == ("CLIENT_UPGRADE_REQUIRED", "␛[31mupgrade")
    assert refused(426, b"").message
    assert len(refused(400, {"error": {"code": "C", "message": "x" * 2**20}}).message) == 1000


def test_the_permission_is_named_only_when_it_is_one() -> None:
    invalid = (
        *("unclassified:update", "compute:unclassified", "/v1/tenants/x", "compute:\u202eupdate", "compute:update\n"),
        *("compute", "a:b:c:d", "", 7),
    )
    for code, permission, shown in (
        ("INSUFFICIENT_PERMISSIONS", "compute:instances:create", True),
        ("insufficient_permission", "network:update", True),
        ("FEATURE_NOT_ENABLED", "network:update", False),
        *(("INSUFFICIENT_PERMISSIONS", one, False) for one in invalid),
    ):
        error = refused(403, {"code": code, "message": "no", "required_permission": permission})
        assert (error.message == f"no (required permission: {permission})") is shown
        assert error.message.startswith("no")


@given(st.text(), st.text())
def test_no_message_code_or_hint_carries_a_control_to_the_terminal(message: str, code: str) -> None:
    error = refused(400, {"error": {"code": code, "message": message, "hint": message}}, x_request_id="\x1b[0m")
    shown = error.message + error.code + error.hint
    assert all(one.isprintable() or unicodedata.category(one) == "Zs" for one in shown)
    assert "\x1b" not in error.request_id


def test_a_redirect_names_the_host_without_a_password_and_safely() -> None:
    error = refused(302, b"", location="https://me:secret@evil.example\x1b0;x/path")
    assert "secret" not in error.message
    assert "evil.example␛" in error.message
    assert refused(302, b"", location="http://[::1").code == "REDIRECT_REFUSED"


def test_unreachable_names_the_endpoint_and_the_next_command() -> None:
    error = ended(exchange(account.me().request, THERE, lambda: 0.0), NoResponse("no route", 10.0, retryable=False))
    assert (error.exit_code, error.message) == (Exit.UNREACHABLE, "https://api.frost.example/api: no route")
    assert "frost config show" in error.hint
    # No further try begins after the connect limit.
    assert ended(exchange(account.me().request, THERE, lambda: 0.0), NoResponse("timeout", 10.0)).code == "UNREACHABLE"


def test_a_body_that_is_no_json_value_is_a_mistake_of_ours() -> None:
    for body in ({"displayName": "\ud800"}, {"n": float("nan")}):
        steps = exchange(Request("POST", "/v1/x", body=body), HERE, lambda: 0.0)
        next(steps)
        with pytest.raises(FrostError) as caught:
            steps.send(session())
        assert caught.value.exit_code == Exit.USAGE


@pytest.mark.parametrize(
    "text",
    [
        "key fmk_SECRETSECRETSECRETSECRETSECRET123456 refused",
        "Authorization: Bearer eyJhbGciOiJFUzI1NiJ9.SECRET.SECRET-_x",
        "{'X-API-Key': 'SECRETSECRET'}",
        "refresh_token=xxxxSECRETSECRET&client_id=frost-cli",
        '{"access_token": "xxxxSECRET", "refreshToken":"xxxxSECRET"}',
        "Authorization: Basic xxxxSECRET",
        "api_key: xxxxSECRET",
    ],
)
def test_a_secret_in_a_text_is_cut_to_its_beginning(text: str) -> None:
    assert "SECRET" not in redact(text).replace("SECR…", "")
    assert "…" in redact(text)


def test_a_line_of_the_trace_is_one_safe_line() -> None:
    text = "GET /api/v1/tenants 200 12 ms request 0a1b2c3d"
    assert redact(text) == text
    line = RequestLogEntry("GET", "/api/v1/x\n\x1b", 0, 0.5, note="the platform is not running", attempt=2).line()
    assert line == "GET /api/v1/x␊␛ - 500 ms try 2 (the platform is not running)"


def test_two_creates_have_two_keys_and_a_rename_has_none() -> None:
    keys = {tenants.create("o", "n").request.idempotency_key for _ in range(3)}
    assert len(keys) == 3
    assert tenants.rename("t", "n").request.idempotency_key is None
    for make in (partial(policies.create, "t", "n", "", "{}"), partial(groups.create, "t", "n")):
        assert len({make().request.idempotency_key for _ in range(3)}) == 3
    # A caller that repeats a creation passes its key.
    assert policies.create("t", "n", "", "{}", idempotency_key="the same").request.idempotency_key == "the same"
    assert tenants.list_all(usage=True).request.query == (("include", "usage"),)
