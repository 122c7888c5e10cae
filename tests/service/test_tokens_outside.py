"""Tokens of an outside issuer, served by a real HTTP server on the loopback."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey
from sqlalchemy import select

from service.authn import oidc_provider
from service.authn.bearer_tokens import SKEW_PERIOD_SECONDS, BearerTokens, ClockSkew
from service.authn.oidc_provider import ExternalIssuer
from service.authn.sessions import end, end_all
from service.db.engine import Database
from service.db.tables import audit_log, sessions
from service.errors import ApiError
from tests.service.identity_provider import Provider
from tests.service.issuing import GONE, MEMBER, NOW, OWNER, HandClock, Issuing
from tests.service.planned import until

AT = int(NOW.timestamp())


@pytest.fixture
def seconds() -> list[float]:
    """The clock of the provider's keys, which the test moves."""
    return [0.0]


@pytest.fixture
def trusting(database: Database, tmp_path: Path, provider: Provider, seconds: list[float]) -> BearerTokens:
    Issuing(database, tmp_path).populate()
    return BearerTokens(database, HandClock(), ExternalIssuer(provider.url, clock=lambda: seconds[0]))


def assuming(database: Database, folder: Path, provider: Provider, *claims: str) -> BearerTokens:
    Issuing(database, folder).populate()
    return BearerTokens(database, HandClock(), ExternalIssuer(provider.url, assumed_claims=frozenset(claims)))


def accepted(trusting: BearerTokens, token: str) -> bool:
    try:
        return trusting.authenticate(token, request_id="request-3", peer_uid=None, location="192.0.2.7").email == OWNER
    except ApiError as refusal:
        if refusal.code != "AUTHENTICATION_REQUIRED":
            raise
        return False


def rows(database: Database) -> list[Any]:
    with database.read() as connection:
        return list(connection.execute(select(sessions)))


def test_a_valid_token_starts_a_session_that_can_be_ended(
    trusting: BearerTokens, provider: Provider, database: Database
) -> None:
    token = provider.token()
    assert accepted(trusting, token)
    assert accepted(trusting, provider.token(iat=AT - 1))
    (row,) = rows(database)
    name = f"sid their-session {AT - 5}"
    assert (row.issuer, row.subject, row.user_id, row.place) == (provider.url, name, "u-owner", "192.0.2.7")
    with database.write() as connection:
        assert end(connection, row.user_id, row.id, reason="signed_out", at=NOW)
    assert not accepted(trusting, token)
    assert len(rows(database)) == 1


def test_without_a_sid_sessions_differ_by_sign_in_time(
    trusting: BearerTokens, provider: Provider, database: Database
) -> None:
    for auth_time in (AT - 100, AT - 50, AT - 100):
        assert accepted(trusting, provider.token(sid=None, auth_time=auth_time))
    assert sorted(row.subject for row in rows(database)) == [f"sub ext-1 {AT - 100}", f"sub ext-1 {AT - 50}"]


def test_a_token_without_auth_time_starts_no_session(
    trusting: BearerTokens, provider: Provider, database: Database
) -> None:
    """It may be refreshed from a sign-in before `revoke-all`, and nothing in it would tell."""
    for sid in (None, "their-session"):
        assert not accepted(trusting, provider.token(sid=sid, auth_time=None))
    assert rows(database) == []


def test_a_new_sign_in_after_a_sign_out_is_accepted(
    trusting: BearerTokens, provider: Provider, database: Database
) -> None:
    old = provider.token()
    assert accepted(trusting, old)
    with database.write() as connection:
        assert end(connection, "u-owner", rows(database)[0].id, reason="signed_out", at=NOW)
    assert accepted(trusting, provider.token(auth_time=AT))
    assert not accepted(trusting, old)


def test_parallel_first_uses_are_one_session(trusting: BearerTokens, provider: Provider, database: Database) -> None:
    token = provider.token()
    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(lambda _: accepted(trusting, token), range(12)))
    assert len(rows(database)) == 1
    with database.read() as connection:
        entries = connection.execute(select(audit_log.c.operation, audit_log.c.actor_id).order_by(audit_log.c.id)).all()
    assert sorted(map(tuple, entries)) == [("identity.link", "u-owner"), ("session.start", "u-owner")]
    assert provider.asked == ["/realm/.well-known/openid-configuration", "/realm/keys"]


@pytest.mark.parametrize(
    "changes",
    [
        {"email": "nobody@aurora.example"},
        {"email": GONE},
        {"email": None},
        {"email_verified": False},
        {"email_verified": None},
        {"email_verified": "true"},
        {"aud": "other"},
        {"iss": "https://elsewhere.example"},
        {"exp": AT},
        {"nbf": AT + 60},
        {"iat": AT + 60},
        {"iat": "now"},
        {"sub": ""},
    ],
    ids=str,
)
def test_unverified_addresses_and_wrong_claims_start_no_session(
    trusting: BearerTokens, provider: Provider, database: Database, changes: dict[str, Any]
) -> None:
    assert not accepted(trusting, provider.token(**changes))
    assert rows(database) == []


def test_the_account_belongs_to_the_subject_of_the_first_sign_in(
    trusting: BearerTokens, provider: Provider, database: Database
) -> None:
    assert accepted(trusting, provider.token())
    for change in ({"email": "married@aurora.example"}, {"email": MEMBER}, {"email": None}, {"email_verified": False}):
        assert accepted(trusting, provider.token(auth_time=AT - 4, **change))
    assert {row.user_id for row in rows(database)} == {"u-owner"}


def test_an_address_linked_to_another_subject_is_refused(
    trusting: BearerTokens, provider: Provider, database: Database
) -> None:
    assert accepted(trusting, provider.token())
    assert not accepted(trusting, provider.token(sub="ext-2"))
    assert not accepted(trusting, provider.token(sub="ext-2", sid="another"))
    assert len(rows(database)) == 1


def test_a_session_does_not_pass_to_another_person(trusting: BearerTokens, provider: Provider) -> None:
    assert accepted(trusting, provider.token())
    assert not accepted(trusting, provider.token(sub="ext-2", email=MEMBER))
    # Nor once that person is known here.
    known = provider.token(sub="ext-2", email=MEMBER, sid="their own")
    assert trusting.authenticate(known, request_id="r", peer_uid=None).email == MEMBER
    assert not accepted(trusting, provider.token(sub="ext-2", email=MEMBER))


def test_of_two_subjects_with_one_address_one_is_linked(trusting: BearerTokens, provider: Provider) -> None:
    tokens = [provider.token(sub=f"ext-{number}", sid=f"s-{number}") for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(lambda token: accepted(trusting, token), tokens)) == 1


@pytest.mark.parametrize(
    ("kind", "claims", "passes"),
    [
        ("at+jwt", {}, True),
        ("application/AT+JWT", {}, True),
        ("JWT", {}, True),
        ("JWT", {"typ": "Bearer"}, True),
        ("JWT", {"nonce": "n"}, False),
        ("JWT", {"at_hash": "h"}, False),
        ("JWT", {"typ": "ID"}, False),
        ("logout+jwt", {}, False),
        ("dpop+jwt", {}, False),
    ],
)
def test_only_access_tokens_are_accepted(
    database: Database, tmp_path: Path, provider: Provider, kind: str, claims: dict[str, str], passes: bool
) -> None:
    trusting = assuming(database, tmp_path, provider, "auth_time")
    assert accepted(trusting, provider.token(kind=kind, **claims)) is passes


@pytest.mark.parametrize("kind", ["JWT", ""])
def test_auth_time_of_other_token_types_must_be_assumed(
    database: Database, tmp_path: Path, provider: Provider, kind: str
) -> None:
    """RFC 9068, 2.2.1 promises it of at+jwt. Another may have the time of the token there, also of a refreshed one."""
    closed = assuming(database, tmp_path, provider, "email_verified")
    assert accepted(closed, provider.token())
    assert not accepted(closed, provider.token(kind=kind)), "nor for a session that is there"
    opened = BearerTokens(database, HandClock(), ExternalIssuer(provider.url, assumed_claims={"auth_time"}))
    assert accepted(opened, provider.token(kind=kind))
    assert not accepted(opened, provider.token(kind=kind, auth_time=None, sid="next"))


def test_a_verified_address_must_be_claimed_or_assumed(database: Database, tmp_path: Path, provider: Provider) -> None:
    assert not accepted(assuming(database, tmp_path, provider, "auth_time"), provider.token(email_verified=None))
    opened = BearerTokens(database, HandClock(), ExternalIssuer(provider.url, assumed_claims={"email_verified"}))
    for said in (False, "true", "false", 0):
        assert not accepted(opened, provider.token(email_verified=said)), said
    assert accepted(opened, provider.token(email_verified=None))


def test_tokens_of_a_withdrawn_key_are_refused(
    trusting: BearerTokens, provider: Provider, seconds: list[float]
) -> None:
    token = provider.token()
    assert accepted(trusting, token)
    newer = ECKey.generate_key("P-256")
    newer.ensure_kid()
    provider.publish(newer)
    assert accepted(trusting, token)
    seconds[0] += oidc_provider.KEYS_MAX_AGE_SECONDS
    assert accepted(trusting, token)
    seconds[0] += 1
    assert not accepted(trusting, token)


def test_an_outage_of_the_provider_is_bridged_for_an_hour(
    trusting: BearerTokens, provider: Provider, seconds: list[float]
) -> None:
    assert accepted(trusting, provider.token())
    provider.say(KEYS, {}, 500)
    seconds[0] += oidc_provider.MAX_STALE_SECONDS
    assert accepted(trusting, provider.token(iat=AT - 1))
    seconds[0] += oidc_provider.MIN_FETCH_INTERVAL_SECONDS + 1
    with pytest.raises(ApiError) as caught:
        accepted(trusting, provider.token(iat=AT - 2))
    assert caught.value.status_code == 503


def test_keys_for_encryption_sign_nothing(trusting: BearerTokens, provider: Provider) -> None:
    key = RSAKey.generate_key(2048)
    key.ensure_kid()
    wrong = {**key.as_dict(private=False), "use": "enc"}
    provider.say(KEYS, {"keys": [provider.key.as_dict(private=False), wrong]})
    assert not accepted(trusting, provider.token(key=key, algorithm="RS256"))
    assert accepted(trusting, provider.token())


def test_shared_secrets_are_refused_even_when_published(trusting: BearerTokens, provider: Provider) -> None:
    secret = OctKey.generate_key(256)
    secret.ensure_kid()
    provider.say("/realm/keys", {"keys": [provider.key.as_dict(private=False), secret.as_dict(private=True)]})
    assert not accepted(trusting, provider.token(key=secret, algorithm="HS256"))
    assert accepted(trusting, provider.token())


def test_an_rsa_provider_is_understood(trusting: BearerTokens, provider: Provider) -> None:
    key = RSAKey.generate_key(2048)
    key.ensure_kid()
    provider.publish(key)
    assert accepted(trusting, provider.token(key=key, algorithm="RS256"))


def test_unknown_key_ids_are_fetched_at_a_bounded_rate(
    trusting: BearerTokens, provider: Provider, seconds: list[float]
) -> None:
    assert accepted(trusting, provider.token())
    newer, made_up, newest = (ECKey.generate_key("P-256") for _ in range(3))
    for key in (newer, made_up, newest):
        key.ensure_kid()
    provider.publish(provider.key, newer)
    assert accepted(trusting, provider.token(key=newer))
    assert len(provider.asked) == 4
    for _ in range(5):
        assert not accepted(trusting, provider.token(key=made_up))
    assert len(provider.asked) == 4
    provider.publish(newest)
    seconds[0] += oidc_provider.MIN_FETCH_INTERVAL_SECONDS + 1
    assert accepted(trusting, provider.token(key=newest))
    assert len(provider.asked) == 6


def test_few_threads_wait_for_a_slow_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on, answers = threading.Event(), list[object]()

    def slow(_: object) -> dict[str, object]:
        go_on.wait(30)
        return {"known": object()}

    monkeypatch.setattr(ExternalIssuer, "_fetch", slow)
    issuer = ExternalIssuer("https://id.example")

    def ask(_: int) -> None:
        try:
            answers.append(issuer.key("made up"))
        except ApiError as refusal:
            answers.append(refusal.status_code)

    with ThreadPoolExecutor(40) as pool:
        asking = [pool.submit(ask, number) for number in range(40)]
        try:
            until(lambda: len(answers) >= 39 - oidc_provider.MAX_WAITING)
        finally:
            go_on.set()
        wait(asking)
    assert answers.count(None) + answers.count(503) == 40
    assert 1 < answers.count(None) <= oidc_provider.MAX_WAITING + 1


KEYS, DISCOVERY = "/realm/keys", "/realm/.well-known/openid-configuration"


@pytest.mark.parametrize(
    ("path", "status", "change", "headers"),
    [
        (KEYS, 500, {}, {}),
        (KEYS, 200, {"keys": "none"}, {}),
        (KEYS, 200, {"keys": []}, {}),
        (KEYS, 200, {"filler": "x" * 300_000}, {}),
        (KEYS, 302, {}, {"Location": "/realm/elsewhere"}),
        (DISCOVERY, 404, {}, {}),
        (DISCOVERY, 200, {"issuer": "https://elsewhere.example"}, {}),
        (DISCOVERY, 200, {"issuer": None}, {}),
        (DISCOVERY, 200, {"jwks_uri": None}, {}),
        (KEYS, 200, [], {}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_unreadable_provider_documents_are_an_outage(
    trusting: BearerTokens,
    provider: Provider,
    database: Database,
    path: str,
    status: int,
    change: Any,
    headers: dict[str, str],
) -> None:
    good = provider.answers[path][2]
    provider.say("/realm/elsewhere", json.loads(good))
    provider.say(path, change if change == [] else json.loads(good) | change, status, **headers)
    with pytest.raises(ApiError) as caught:
        accepted(trusting, provider.token())
    assert (caught.value.status_code, caught.value.code) == (503, "SERVICE_UNAVAILABLE")
    assert "/realm/elsewhere" not in provider.asked
    assert rows(database) == []


def test_keys_over_plain_http_from_elsewhere_are_not_fetched(trusting: BearerTokens, provider: Provider) -> None:
    port = provider.server.server_address[1]
    provider.say(
        "/realm/.well-known/openid-configuration",
        {"issuer": provider.url, "jwks_uri": f"http://localhost:{port}/realm/keys"},
    )
    with pytest.raises(ApiError):
        accepted(trusting, provider.token())
    assert "/realm/keys" not in provider.asked


@pytest.mark.parametrize(
    "url",
    [
        "http://idp.example",
        "http://localhost:8080",
        "http://127.0.0.1.evil.example/",
        "http://127.0.0.1@evil.example/",
        "https://user:pw@idp.example",
        "https://idp.example/?x=1",
        "https://idp.example/#x",
        "ftp://idp.example",
        "idp.example",
        "",
    ],
)
def test_an_issuer_that_is_not_a_plain_https_url_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        ExternalIssuer(url)


def test_the_lead_of_the_issuers_clock_is_forgotten(database: Database, tmp_path: Path, provider: Provider) -> None:
    Issuing(database, tmp_path).populate()
    clock = HandClock()
    opened = BearerTokens(database, clock, ExternalIssuer(provider.url))
    assert accepted(opened, provider.token(iat=AT + 25))

    def signs_in_after_revoke_all(hours: float) -> bool:
        clock.forward(hours=hours)
        at = int(clock.now().timestamp())
        with database.write() as connection:
            end_all(connection, "u-owner", reason="revoked_all", at=clock.now())
        clock.forward(seconds=10)
        times = {"iat": at + 5, "auth_time": at + 5, "exp": at + 600, "sid": f"sid {at}"}
        try:
            return accepted(opened, provider.token(**times))
        except ApiError:
            return False

    assert not signs_in_after_revoke_all(hours=0)
    assert not signs_in_after_revoke_all(hours=0.9)
    assert signs_in_after_revoke_all(hours=1.5)


def test_a_lead_lasts_for_one_to_two_periods_and_the_largest_counts() -> None:
    lead, clock = ClockSkew(), HandClock()
    assert lead.seconds(clock.now()) == 0
    lead.record(7, clock.now())
    lead.record(20, clock.now())
    lead.record(-3, clock.now())
    clock.forward(seconds=SKEW_PERIOD_SECONDS)
    lead.record(5, clock.now())
    assert lead.seconds(clock.now()) == 20
    clock.forward(seconds=SKEW_PERIOD_SECONDS)
    assert lead.seconds(clock.now()) == 5
    clock.forward(seconds=3 * SKEW_PERIOD_SECONDS)
    assert lead.seconds(clock.now()) == 0
