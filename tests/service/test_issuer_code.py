"""Authorization code with PKCE. RFC 6749, 7636, 8252"""

import base64
import json

import pytest
from joserfc import jwt

from tests.people import MEMBER, OWNER
from tests.service.issuing import GONE, REDIRECT, SCOPE, Issuing, claims_of
from tests.waiting import at_once

VERIFIER = "v" * 43


def test_a_code_and_its_verifier_give_a_session(issuing: Issuing) -> None:
    code, verifier = issuing.code(device="laptop")
    reply = issuing.exchange(code, verifier)
    assert (reply.status, reply.body["scope"], reply.cache) == (200, SCOPE, "no-store")
    caller = issuing.bearer(reply.body["access_token"])
    assert caller.email == OWNER
    assert issuing.session(str(caller.session_id)).device == "laptop"
    (entry,) = issuing.audited("session.start")
    assert entry.details["grant"] == "authorization_code"


def test_state_comes_back_as_it_was_and_login_hint_names_the_person(issuing: Issuing) -> None:
    reply = issuing.authorize(VERIFIER, state="a b&c=ü", login_hint=MEMBER)
    assert (reply.status, reply.cache) == (302, "no-store")
    assert reply.location.startswith(f"{REDIRECT}?")
    assert reply.query()["state"] == "a b&c=ü"
    tokens = issuing.exchange(reply.query()["code"], VERIFIER).body
    assert issuing.bearer(tokens["access_token"]).email == MEMBER


def test_a_refused_request_is_redirected_with_error_and_state_and_gets_no_code(issuing: Issuing) -> None:
    for fields, error in (
        *(({"response_type": kind}, "unsupported_response_type") for kind in ("token", "")),
        *(({"nonce": nonce}, "invalid_request") for nonce in ("n" * 201, "a\x00b")),
        ({"scope": "openid admin"}, "invalid_scope"),
        *(({"login_hint": person}, "access_denied") for person in ("nobody@aurora.example", GONE)),
        *(({"code_challenge": challenge}, "invalid_request") for challenge in ("", "x" * 42, "x" * 44, "x" * 42 + "=")),
        *(({"code_challenge_method": method}, "invalid_request") for method in ("", "plain", "s256")),
        ({"code_challenge": "", "code_challenge_method": ""}, "invalid_request"),
    ):
        reply = issuing.authorize(VERIFIER, **fields)
        query = reply.query()
        assert (reply.status, query["error"], query["state"], "code" in query) == (302, error, "st-1", False), fields
        denied = "The account does not exist on this platform."
        assert error != "access_denied" or query["error_description"] == denied


LOCAL = "127.0.0.1:5000"
HOSTS = ("localhost:5000", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:05000", "127.0.0.1:65536", f"user@{LOCAL}")
HOSTS += (f"{LOCAL}@evil.example", "127.0.0.1.evil.example:5000", "127.0.0.2:5000", "[::1:5000", "[::2]:5000")
HOSTS += ("0x7f.1:5000", "127.1:5000", "127.0.0.1:５０００")
PATHS = ("other", "callback/", "callback?x=1", "callback#x", "callback\n")


def test_only_loopback_addresses_are_redirect_targets(issuing: Issuing) -> None:
    uris = [*(f"http://{host}/callback" for host in HOSTS), *(f"http://{LOCAL}/{path}" for path in PATHS)]
    for uri in (*uris, f"https://{LOCAL}/callback", "javascript:alert(1)", ""):
        reply = issuing.authorize(VERIFIER, redirect_uri=uri)
        assert (reply.status, reply.error, reply.location) == (400, "invalid_request", ""), uri
        assert issuing.authorize(VERIFIER, redirect_uri=uri, response_type="token").location == ""
    for client_id in ("other", ""):
        reply = issuing.authorize(VERIFIER, client_id=client_id)
        assert (reply.status, reply.error, reply.location) == (400, "invalid_client", "")
    for uri in ("http://127.0.0.1:1/callback", "http://[::1]:65535/callback"):
        code, verifier = issuing.code(redirect_uri=uri)
        assert issuing.exchange(code, verifier, redirect_uri=uri).status == 200


def test_a_wrong_exchange_leaves_the_code_usable(issuing: Issuing) -> None:
    uris = ("http://127.0.0.1:42000/callback", "http://[::1]:41999/callback", "")
    for error, wrong in {
        "invalid_grant": [*({"redirect_uri": uri} for uri in uris), {"code_verifier": "w" * 43}, {"code": "made-up"}],
        "invalid_request": [{"code_verifier": ""}, {"code": ""}],
        "invalid_client": [{"client_id": "other"}, {"client_id": ""}],
    }.items():
        for fields in wrong:
            code, verifier = issuing.code()
            reply = issuing.exchange(code, verifier, **fields)
            assert (reply.status, reply.error) == (400, error), fields
            assert issuing.exchange(code, verifier).status == 200


@pytest.mark.parametrize("after", [0, 3600])
def test_a_code_lives_for_a_minute_and_a_replayed_one_ends_the_session_it_started(
    issuing: Issuing, after: float
) -> None:
    code, verifier = issuing.code()
    issuing.clock.forward(seconds=60)
    assert issuing.exchange(code, verifier).error == "invalid_grant"
    code, verifier = issuing.code()
    issuing.clock.forward(seconds=59.9)
    tokens = issuing.exchange(code, verifier).body
    bystander = issuing.sign_in()
    issuing.clock.forward(seconds=after)
    for _ in range(3):
        assert issuing.exchange(code, "x" * 43).error == "invalid_grant"
    assert not issuing.accepted(tokens["access_token"])
    assert issuing.refresh(tokens["refresh_token"]).error == "invalid_grant"
    (entry,) = issuing.audited("session.end")
    assert entry.details == {"reason": "authorization_code_reuse"}
    if not after:
        assert issuing.accepted(bystander["access_token"])


def test_a_code_exchanged_many_times_at_once_ends_its_one_session(issuing: Issuing) -> None:
    code, verifier = issuing.code()
    replies = at_once([lambda: issuing.exchange(code, verifier)] * 8)
    assert sorted(reply.status for reply in replies) == [200] + [400] * 7
    (won,) = [reply.body for reply in replies if reply.status == 200]
    assert not issuing.accepted(won["access_token"])
    assert len(issuing.audited("session.end")) == 1


def test_the_id_token_is_for_the_client_and_carries_the_nonce(issuing: Issuing) -> None:
    code, verifier = issuing.code(nonce="n-1")
    tokens = issuing.exchange(code, verifier).body
    kid = json.loads(base64.urlsafe_b64decode(tokens["id_token"].split(".")[0] + "=="))["kid"]
    key = issuing.issuer.key(kid)
    assert key is not None
    claims = jwt.decode(tokens["id_token"], key, ["ES256"]).claims
    assert (claims["aud"], claims["nonce"], claims["sub"], claims["email"]) == ("frost-cli", "n-1", "u-owner", OWNER)
    assert claims["sid"] == claims_of(tokens["access_token"])["sid"]
    assert not issuing.accepted(tokens["id_token"])
    tokens = issuing.exchange(*issuing.code(scope="profile")).body
    assert ("id_token" in tokens, tokens["scope"]) == (False, "profile")
