"""The listener of a browser sign-in, attacked."""

import base64
import hashlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from client.auth import sign_in
from client.auth.browser import PATH, AuthorizationCodeFlow
from client.auth.oidc import Provider
from client.errors import Exit, FrostError

PROVIDER = Provider("https://id.example", "frost-cli", "https://id.example/t", "https://id.example/a?x=1", "", "")


@pytest.fixture
def attempt() -> Iterator[AuthorizationCodeFlow]:
    with AuthorizationCodeFlow(PROVIDER) as running:
        yield running


def query(attempt: AuthorizationCodeFlow) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(attempt.url(device="d")).query).items()}


def visit(
    attempt: AuthorizationCodeFlow, path: str = "/callback", host: str | None = None, method: str = "GET", **values: str
) -> int:
    """The status of one request to the listener."""
    carrier = http.client.HTTPConnection(attempt.host, timeout=30)
    try:
        carrier.request(method, f"{path}?{urlencode(values)}", headers={"Host": host or attempt.host})
        answer = carrier.getresponse()
        body = answer.read()
        assert b"the-code" not in body
        return answer.status
    finally:
        carrier.close()


def code(attempt: AuthorizationCodeFlow, seconds: float = 30) -> str:
    return attempt.code(seconds, threading.Event())


def test_the_request_has_pkce_state_nonce_and_a_loopback_address(attempt: AuthorizationCodeFlow) -> None:
    sent = query(attempt)
    digest = hashlib.sha256(attempt.exchange("c")["code_verifier"].encode()).digest()
    assert sent["code_challenge"] == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert sent["code_challenge_method"] == "S256"
    assert sent["redirect_uri"] == attempt.redirect_uri == f"http://{attempt.host}/callback"
    assert min(len(sent["state"]), len(sent["nonce"])) >= 43
    assert (sign_in.BROWSER_SECONDS, PATH) == (300, "/callback")
    assert sent["x"] == "1"  # the query of the provider's address remains


def test_every_attempt_has_secrets_of_its_own(attempt: AuthorizationCodeFlow) -> None:
    with AuthorizationCodeFlow(PROVIDER) as other:
        ours, theirs = query(attempt), query(other)
        assert all(ours[name] != theirs[name] for name in ("state", "nonce", "code_challenge", "redirect_uri"))
        assert visit(other, state=ours["state"], code="the-code") == 400


def test_only_the_right_answer_is_taken_and_once(attempt: AuthorizationCodeFlow) -> None:
    state = query(attempt)["state"]
    port = attempt.host.rpartition(":")[2]
    right = {"state": state, "code": "the-code"}
    assert visit(attempt, state="wrong", code="the-code") == 400
    assert visit(attempt, code="the-code") == 400
    assert visit(attempt, state=state) == 400
    assert visit(attempt, "/other", **right) == 400
    for host in ("localhost", "evil.example"):
        assert visit(attempt, host=f"{host}:{port}", **right) == 400
    assert visit(attempt, **right, iss="https://evil.example") == 400
    assert visit(attempt, f"/callback?state={state}&code=a&code=b&x") == 400
    assert visit(attempt, method="POST", **right) == 501
    with pytest.raises(FrostError):
        code(attempt, 0.1)
    assert visit(attempt, **right) == 200
    assert code(attempt) == "the-code"
    assert visit(attempt, state=state, code="another") == 400
    assert code(attempt) == "the-code"


def test_a_refusal_of_the_provider_ends_it(attempt: AuthorizationCodeFlow) -> None:
    assert visit(attempt, state=query(attempt)["state"], error="access_denied\x1b[31m") == 200
    with pytest.raises(FrostError, match="access_denied") as caught:
        code(attempt)
    assert caught.value.exit_code == Exit.NOT_SIGNED_IN
    assert "\x1b" not in caught.value.message


def test_silent_visitors_do_not_keep_the_answer_out(attempt: AuthorizationCodeFlow) -> None:
    assert attempt._server.socket.getsockname()[0] == "127.0.0.1"
    host, port = attempt.host.split(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(20)]
    try:
        assert visit(attempt, state=query(attempt)["state"], code="the-code") == 200
    finally:
        for one in silent:
            one.close()


def test_it_ends_in_time_when_cancelled_and_when_left(attempt: AuthorizationCodeFlow) -> None:
    started = time.monotonic()
    with pytest.raises(FrostError) as caught:
        code(attempt, 0.3)
    assert caught.value.code == "SIGN_IN_TIMED_OUT"
    assert time.monotonic() - started < 20
    stop = threading.Event()
    stop.set()
    with pytest.raises(FrostError) as caught:
        attempt.code(60, stop)
    assert caught.value.exit_code == Exit.INTERRUPTED
    with AuthorizationCodeFlow(PROVIDER) as other:
        host, port = other.host.split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=2)


def test_a_redirect_to_another_place_is_not_followed(attempt: AuthorizationCodeFlow) -> None:
    for location in (
        "http://127.0.0.1:1/callback?code=c",
        "http://evil.example/callback?code=c",
        "https://127.0.0.1/callback",
        "/callback",
        "",
    ):
        with pytest.raises(FrostError, match="another address"):
            attempt.accept_redirect(location)


def test_the_id_token_must_answer_this_request(attempt: AuthorizationCodeFlow) -> None:
    nonce = query(attempt)["nonce"]
    right = {"iss": PROVIDER.issuer, "aud": "frost-cli", "nonce": nonce}
    attempt.check_id_token({"id_token": id_token(right)})
    attempt.check_id_token({"id_token": id_token({**right, "aud": ["other", "frost-cli"]})})
    for wrong in ({"iss": "https://evil.example"}, {"aud": "other"}, {"nonce": "x"}, {"nonce": None}):
        with pytest.raises(FrostError, match="another sign-in"):
            attempt.check_id_token({"id_token": id_token({**right, **wrong})})
    for broken in (None, "", "a.b", "a.é.c", 5):
        with pytest.raises(FrostError):
            attempt.check_id_token({"id_token": broken})


def test_a_provider_that_knows_one_address_only_gets_that_one_each_time(attempt: AuthorizationCodeFlow) -> None:
    """RFC 8252, 7.3 lets the port be free; some compare the whole address."""
    with AuthorizationCodeFlow(PROVIDER) as first:
        port = int(first.host.rpartition(":")[2])
        with pytest.raises(FrostError, match=f"127.0.0.1:{port}: Address already in use") as taken:
            AuthorizationCodeFlow(PROVIDER, port)
        assert "FROST_LOGIN_PORT" in taken.value.hint
    for _ in range(2):  # a connection of the last time still lingers there
        with AuthorizationCodeFlow(PROVIDER, port) as again:
            assert again.redirect_uri == f"http://127.0.0.1:{port}/callback"
            assert visit(again, state=query(again)["state"], code="the-code") == 200


def id_token(claims: dict[str, object]) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{body}.c2ln"
