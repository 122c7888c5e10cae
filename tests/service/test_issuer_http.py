"""The issuer and the session checks as the real process answers them, over its socket and over TCP."""

import http.client
import json
import socket
import stat
from collections.abc import Iterator
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from authlib.oauth2.rfc7636 import create_s256_code_challenge

from tests.homes import Answer
from tests.service.running import DEVICE_GRANT, MEMBER, OWNER, Running, exchange

REDIRECT = "http://127.0.0.1:41999/callback"
FORM = "application/x-www-form-urlencoded"


def post(running: Running, path: str, **fields: str) -> Answer:
    return running.request("POST", path, {"Content-Type": FORM}, urlencode(fields).encode())


def me(running: Running, token: str) -> Answer:
    return running.request("GET", "/api/v1/me", {"Authorization": f"Bearer {token}"})


def sign_in(running: Running, email: str = OWNER) -> dict[str, Any]:
    started = post(running, "/issuer/device_authorization", client_id="frost-cli", device="a laptop").json()
    assert post(running, "/issuer/device/approve", user_code=started["user_code"], email=email).status == 200
    polled = post(
        running, "/issuer/token", client_id="frost-cli", grant_type=DEVICE_GRANT, device_code=started["device_code"]
    )
    return {**started, **polled.json()}


def refresh(running: Running, token: str) -> Answer:
    return post(running, "/issuer/token", client_id="frost-cli", grant_type="refresh_token", refresh_token=token)


def test_discovery_names_only_what_is_there(demo: Running) -> None:
    answer = demo.get("/issuer/.well-known/openid-configuration")
    document = answer.json()
    assert document["issuer"] == "http://localhost/issuer" == demo.get("/api/v1/auth/cli-config").json()["issuer"]
    assert document["code_challenge_methods_supported"] == ["S256"]
    assert document["response_types_supported"] == ["code"]
    assert set(document["grant_types_supported"]) == {"authorization_code", "refresh_token", DEVICE_GRANT}
    (key,) = demo.get("/issuer/jwks").json()["keys"]
    assert (key["alg"], "d" in key) == ("ES256", False)
    for name in ("token_endpoint", "device_authorization_endpoint", "revocation_endpoint"):
        answer = post(demo, urlsplit(document[name]).path)
        assert (answer.status, answer.headers["cache-control"]) == (400, "no-store")
        assert set(answer.json()) <= {"error", "error_description"}
    assert demo.get(urlsplit(document["authorization_endpoint"]).path).json()["error"] == "unsupported_response_type"


def test_the_device_flow_signs_in_refreshes_and_signs_out(demo: Running) -> None:
    tokens = sign_in(demo)
    assert me(demo, tokens["access_token"]).json()["email"] == OWNER
    renewed = refresh(demo, tokens["refresh_token"]).json()
    assert me(demo, renewed["access_token"]).status == 200
    ended = demo.request("POST", "/api/v1/sessions/current/end", {"Authorization": f"Bearer {renewed['access_token']}"})
    assert (ended.status, ended.body) == (204, b"")
    for token in (tokens["access_token"], renewed["access_token"]):
        refused = me(demo, token)
        assert (refused.status, refused.json()["error"]["code"]) == (401, "AUTHENTICATION_REQUIRED")
    assert refresh(demo, renewed["refresh_token"]).json()["error"] == "invalid_grant"


def test_the_code_flow_signs_in_as_the_person_asked_for(demo: Running) -> None:
    verifier = token_urlsafe(32)
    query = {
        "response_type": "code",
        "client_id": "frost-cli",
        "redirect_uri": REDIRECT,
        "state": "st-1",
        "code_challenge": create_s256_code_challenge(verifier),
        "code_challenge_method": "S256",
        "login_hint": MEMBER,
    }
    answer = demo.get(f"/issuer/authorize?{urlencode(query)}")
    assert (answer.status, answer.headers["cache-control"]) == (302, "no-store")
    given = {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}
    assert given["state"] == "st-1"
    tokens = post(
        demo,
        "/issuer/token",
        grant_type="authorization_code",
        client_id="frost-cli",
        redirect_uri=REDIRECT,
        code=given["code"],
        code_verifier=verifier,
    ).json()
    assert me(demo, tokens["access_token"]).json()["email"] == MEMBER


def test_a_token_in_the_key_header_and_a_key_as_bearer_are_refused(demo: Running) -> None:
    token = sign_in(demo)["access_token"]
    key = next(iter(world_keys(demo).values()))["secret"]
    for headers in (
        {"X-API-Key": token},
        {"Authorization": f"Bearer {key}"},
        {"X-API-Key": key, "Authorization": f"Bearer {token}"},
    ):
        assert demo.request("GET", "/api/v1/me", headers).status == 401


def test_what_is_not_a_form_is_refused_in_the_oauth_shape(demo: Running) -> None:
    for content_type in ("application/json", "text/plain", ""):
        refused = demo.request("POST", "/issuer/token", {"Content-Type": content_type}, b'{"client_id":"frost-cli"}')
        assert (refused.status, refused.json()["error"]) == (400, "invalid_request")
        assert refused.headers["cache-control"] == "no-store"


def test_sessions_and_tokens_survive_kill_9(own: Running) -> None:
    tokens = sign_in(own)
    own.kill()
    own.start()
    assert me(own, tokens["access_token"]).status == 200
    renewed = refresh(own, tokens["refresh_token"])
    assert renewed.status == 200
    assert refresh(own, tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert me(own, renewed.json()["access_token"]).status == 401


def test_no_secret_of_a_sign_in_is_on_disk_and_the_key_is_the_owners_only(own: Running) -> None:
    tokens = sign_in(own)
    tokens["next"] = refresh(own, tokens["refresh_token"]).json()["refresh_token"]
    mode = (own.folder / "issuer.jwk").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600
    written = b"".join(path.read_bytes() for path in own.folder.parent.rglob("*") if path.is_file())
    for name in ("device_code", "user_code", "access_token", "refresh_token", "next"):
        assert tokens[name].encode() not in written, name
    assert b"/issuer/token" in written  # the log was among what was searched


# Over TCP


@pytest.fixture
def listening() -> Iterator[tuple[Running, int]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    with Running(None, "demo", "--listen", f"127.0.0.1:{port}") as running:
        yield running, port


def test_the_issuer_does_not_exist_over_tcp_but_its_sessions_do(listening: tuple[Running, int]) -> None:
    running, port = listening

    def ask(method: str, path: str, content: bytes | None = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        return exchange(connection, method, path, {"Content-Type": FORM, **headers}, content)

    for method, path in (
        ("GET", "/issuer/.well-known/openid-configuration"),
        ("GET", "/issuer/jwks"),
        ("POST", "/issuer/device_authorization"),
        ("POST", "/issuer/device/approve"),
        ("GET", "/issuer/authorize"),
        ("POST", "/issuer/token"),
        ("POST", "/issuer/revoke"),
    ):
        answer = ask(method, path, b"client_id=frost-cli" if method == "POST" else None)
        assert (answer.status, answer.json()["error"]["code"]) == (404, "NOT_FOUND"), path
    token = sign_in(running)["access_token"]
    assert ask("GET", "/api/v1/me", Authorization=f"Bearer {token}").json()["email"] == OWNER
    assert ask("POST", "/api/v1/sessions/current/end", Authorization=f"Bearer {token}").status == 204
    assert me(running, token).status == 401


def test_with_an_outside_issuer_there_is_no_local_one() -> None:
    with Running(None, "demo", "--issuer", "https://idp.example/realm") as running:
        assert running.get("/api/v1/auth/cli-config").json()["issuer"] == "https://idp.example/realm"
        for path in ("/issuer/jwks", "/issuer/.well-known/openid-configuration"):
            assert running.get(path).json()["error"]["code"] == "NOT_FOUND"
        assert post(running, "/issuer/device_authorization", client_id="frost-cli").status == 404


def world_keys(running: Running) -> dict[str, Any]:
    keys: dict[str, Any] = json.loads((running.folder / "world-keys.json").read_text())
    return keys
