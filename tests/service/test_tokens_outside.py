"""Tokens of an outside issuer, served by a real HTTP server on the loopback."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import ECKey, OctKey, RSAKey
from sqlalchemy import select

from service.authn import oidc_provider
from service.authn.bearer_tokens import SKEW_PERIOD_SECONDS, BearerTokens, ClockSkew
from service.authn.oidc_provider import ExternalIssuer
from service.authn.sessions import end, end_all
from service.authn.unknown_keys import MAX_COUNTED, MAX_IDS, PERIOD_SECONDS, UnknownKeyLog
from service.db.engine import Database
from service.db.tables import audit_log, sessions
from service.errors import ApiError
from tests.people import MEMBER, OWNER
from tests.service.identity_provider import Provider
from tests.service.issuing import GONE, NOW, HandClock, Issuing
from tests.service.queries import fetch
from tests.waiting import at_once, until

AT = int(NOW.timestamp())


KEYS, DISCOVERY = "/realm/keys", "/realm/.well-known/openid-configuration"


class Outside:
    """A platform that trusts `provider`; `seconds` is the clock of its keys."""

    def __init__(self, database: Database, folder: Path, provider: Provider) -> None:
        Issuing(database, folder).populate()
        self.database, self.provider, self.seconds, self.clock = database, provider, 0.0, HandClock()
        self.tokens = self.trusting()

    def trusting(self, *assumed: str) -> BearerTokens:
        issuer = ExternalIssuer(self.provider.url, assumed_claims=frozenset(assumed), clock=lambda: self.seconds)
        return BearerTokens(self.database, self.clock, issuer)

    def accepts(self, token: str, email: str = OWNER) -> bool:
        try:
            return self.tokens.authenticate(token, request_id="r", peer_uid=None, location="192.0.2.7").email == email
        except ApiError as refusal:
            if refusal.code != "AUTHENTICATION_REQUIRED":
                raise
            return False

    def accepts_new(self, **options: Any) -> bool:
        return self.accepts(self.provider.token(**options))

    def sessions(self) -> list[Any]:
        return fetch(self.database, select(sessions))

    def sign_out(self) -> None:
        (row,) = self.sessions()
        with self.database.write() as connection:
            assert end(connection, row.user_id, row.id, reason="signed_out", at=NOW)


@pytest.fixture
def outside(database: Database, tmp_path: Path, provider: Provider) -> Outside:
    return Outside(database, tmp_path, provider)


new_key = partial(ECKey.generate_key, "P-256", auto_kid=True)


def test_a_valid_token_starts_a_session_that_can_be_ended(outside: Outside) -> None:
    token = outside.provider.token()
    assert outside.accepts(token)
    assert outside.accepts_new(iat=AT - 1)
    (row,) = outside.sessions()
    name = f"sid their-session {AT - 5}"
    assert (row.issuer, row.subject, row.user_id, row.place) == (outside.provider.url, name, "u-owner", "192.0.2.7")
    outside.sign_out()
    assert not outside.accepts(token)
    assert len(outside.sessions()) == 1
    assert outside.accepts_new(auth_time=AT), "a new sign-in"
    assert not outside.accepts(token)


def test_without_a_sid_sessions_differ_by_sign_in_time(outside: Outside) -> None:
    for auth_time in (AT - 100, AT - 50, AT - 100):
        assert outside.accepts_new(sid=None, auth_time=auth_time)
    assert sorted(row.subject for row in outside.sessions()) == [f"sub ext-1 {AT - 100}", f"sub ext-1 {AT - 50}"]


def test_parallel_first_uses_are_one_session(outside: Outside) -> None:
    token = outside.provider.token()
    assert all(at_once([partial(outside.accepts, token)] * 12))
    assert len(outside.sessions()) == 1
    entries = fetch(outside.database, select(audit_log.c.operation, audit_log.c.actor_id))
    assert sorted(map(tuple, entries)) == [("identity.link", "u-owner"), ("session.start", "u-owner")]
    assert outside.provider.asked == [DISCOVERY, KEYS]


def test_unverified_addresses_and_wrong_claims_start_no_session(
    outside: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for claims in (
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
        {"exp": 1e308},
        {"exp": 10**400},
        {"iat": -1e308},
        {"iat": -(10**400)},
        {"nbf": -(10**400)},
        {"sub": ""},
        # Such a token may be a refreshed one of a sign-in before `revoke-all`.
        {"auth_time": None},
        {"auth_time": None, "sid": None},
    ):
        assert not outside.accepts_new(**claims), claims
    assert outside.sessions() == []
    reasons = (
        *("no account has its e-mail address", "it is new and its token has no verified e-mail address"),
        *(
            "the setting --audience is 'frost', but its audience is 'other'",
            "it names another issuer, 'https://elsewhere.example'",
        ),
        *("it has expired or is not valid yet", "it was issued in the future"),
        *("it has no subject", "it has no auth_time"),
    )
    assert [reason for reason in reasons if reason not in caplog.text] == []
    assert outside.accepts_new()


def test_the_account_belongs_to_the_subject_of_the_first_sign_in(outside: Outside) -> None:
    assert outside.accepts_new()
    # The address is linked to another subject, in the same session and in another one.
    assert not outside.accepts_new(sub="ext-2")
    assert not outside.accepts_new(sub="ext-2", sid="another")
    assert len(outside.sessions()) == 1
    for change in ({"email": "married@aurora.example"}, {"email": MEMBER}, {"email": None}, {"email_verified": False}):
        assert outside.accepts_new(auth_time=AT - 4, **change)
    assert {row.user_id for row in outside.sessions()} == {"u-owner"}


def test_a_session_does_not_pass_to_another_person(outside: Outside) -> None:
    assert outside.accepts_new()
    other = {"sub": "ext-2", "email": MEMBER}
    assert not outside.accepts_new(**other)
    assert outside.accepts(outside.provider.token(**other, sid="their own"), MEMBER)
    assert not outside.accepts_new(**other), "nor once the platform knows that person"


def test_of_two_subjects_with_one_address_one_is_linked(outside: Outside) -> None:
    tokens = [outside.provider.token(sub=f"ext-{number}", sid=f"s-{number}") for number in range(6)]
    assert sum(at_once([partial(outside.accepts, token) for token in tokens])) == 1


def test_only_access_tokens_are_accepted(outside: Outside) -> None:
    outside.tokens = outside.trusting("auth_time")
    rows: tuple[tuple[str, dict[str, str], bool], ...] = (
        ("at+jwt", {}, True),
        ("application/AT+JWT", {}, True),
        ("JWT", {}, True),
        ("JWT", {"typ": "Bearer"}, True),
        ("JWT", {"nonce": "n"}, False),
        ("JWT", {"at_hash": "h"}, False),
        ("JWT", {"typ": "ID"}, False),
        ("logout+jwt", {}, False),
        ("dpop+jwt", {}, False),
    )
    for kind, claims, accepted in rows:
        assert outside.accepts_new(kind=kind, sid=f"{kind} {claims}", **claims) is accepted, (kind, claims)


@pytest.mark.parametrize("kind", ["JWT", ""])
def test_auth_time_of_other_token_types_must_be_assumed(outside: Outside, kind: str) -> None:
    """RFC 9068, 2.2.1 promises it of at+jwt. Another may have the time of the token there, also of a refreshed one."""
    outside.tokens = outside.trusting("email_verified")
    assert outside.accepts_new()
    assert not outside.accepts_new(kind=kind), "nor for a session that exists"
    outside.tokens = outside.trusting("auth_time")
    assert outside.accepts_new(kind=kind)
    assert not outside.accepts_new(kind=kind, auth_time=None, sid="next")


def test_a_verified_address_must_be_claimed_or_assumed(outside: Outside) -> None:
    outside.tokens = outside.trusting("auth_time")
    assert not outside.accepts_new(email_verified=None)
    outside.tokens = outside.trusting("email_verified")
    for verified in (False, "true", "false", 0):
        assert not outside.accepts_new(email_verified=verified), verified
    assert outside.accepts_new(email_verified=None)


def test_tokens_of_a_withdrawn_key_are_refused(outside: Outside) -> None:
    token = outside.provider.token()
    assert outside.accepts(token)
    outside.provider.publish(new_key())
    assert outside.accepts(token)
    outside.seconds += oidc_provider.KEYS_MAX_AGE_SECONDS
    assert outside.accepts(token)
    outside.seconds += 1
    assert not outside.accepts(token)


def test_an_outage_of_the_provider_is_bridged_for_an_hour(outside: Outside) -> None:
    assert outside.accepts_new()
    outside.provider.say(KEYS, {}, 500)
    outside.seconds += oidc_provider.MAX_STALE_SECONDS
    assert outside.accepts_new(iat=AT - 1)
    outside.seconds += oidc_provider.MIN_FETCH_INTERVAL_SECONDS + 1
    with pytest.raises(ApiError) as refusal:
        outside.accepts_new(iat=AT - 2)
    assert refusal.value.status_code == 503


def test_only_published_keys_for_signatures_are_used(outside: Outside) -> None:
    rsa, encryption = (RSAKey.generate_key(2048, auto_kid=True) for _ in range(2))
    secret = OctKey.generate_key(256, auto_kid=True)
    keys = [key.as_dict(private=False) for key in (outside.provider.key, rsa, encryption)]
    keys[2]["use"] = "enc"
    outside.provider.say(KEYS, {"keys": [*keys, secret.as_dict(private=True)]})
    assert not outside.accepts_new(key=encryption, algorithm="RS256")
    assert not outside.accepts_new(key=secret, algorithm="HS256")
    assert outside.accepts_new()
    assert outside.accepts_new(key=rsa, algorithm="RS256")
    assert not outside.accepts_new(key=rsa, algorithm="RS512")


def test_unknown_key_ids_are_fetched_at_a_bounded_rate(outside: Outside) -> None:
    assert outside.accepts_new()
    newer, made_up, newest = (new_key() for _ in range(3))
    outside.provider.publish(outside.provider.key, newer)
    assert outside.accepts_new(key=newer)
    assert len(outside.provider.asked) == 4
    for _ in range(5):
        assert not outside.accepts_new(key=made_up)
    assert len(outside.provider.asked) == 4
    outside.provider.publish(newest)
    outside.seconds += oidc_provider.UNKNOWN_KEY_INTERVAL_SECONDS + 1
    assert outside.accepts_new(key=newest)
    assert len(outside.provider.asked) == 6


def test_strangers_delay_a_new_key_by_seconds_and_do_not_hide_its_line(
    outside: Outside, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert outside.accepts_new()
    assert not outside.accepts_new(key=new_key())
    changed = new_key()
    outside.provider.publish(changed)
    assert not outside.accepts_new(key=changed)
    assert f"the issuer has no key with its key ID {changed.kid!r}" in caplog.text
    for _ in range(oidc_provider.UNKNOWN_KEY_INTERVAL_SECONDS + 1):
        outside.seconds += 1
        assert not outside.accepts_new(key=new_key())
    assert outside.accepts_new(key=changed)


def test_key_ids_that_strangers_invent_fill_no_log(outside: Outside, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "service.authn.unknown_keys")
    log = UnknownKeyLog("https://id.example.com", lambda: outside.seconds)
    for _ in range(3):
        for number in range(1000):
            log.record(f"invented-{number}\n" + "x" * 10_000)
    assert len(caplog.messages) == MAX_IDS
    assert max(map(len, caplog.messages)) < 300
    assert not any("\n" in message for message in caplog.messages)
    for _ in range(5):
        log.record("invented-77\n" + "x" * 10_000)
    outside.seconds += PERIOD_SECONDS
    log.record("genuine")
    summary, line = caplog.messages[MAX_IDS:]
    assert f"{MAX_COUNTED} more key IDs, most often 'invented-77" in summary
    assert summary.endswith("(8 times)")
    assert "'genuine'" in line
    log.record("genuine")
    assert len(caplog.messages) == MAX_IDS + 2


def test_few_threads_wait_for_a_slow_provider(monkeypatch: pytest.MonkeyPatch) -> None:
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
    outside: Outside, path: str, status: int, change: Any, headers: dict[str, str]
) -> None:
    provider = outside.provider
    good = json.loads(provider.answers[path][2])
    provider.say("/realm/elsewhere", good)
    provider.say(path, change if change == [] else good | change, status, **headers)
    with pytest.raises(ApiError) as refusal:
        outside.accepts_new()
    assert (refusal.value.status_code, refusal.value.code) == (503, "SERVICE_UNAVAILABLE")
    assert "/realm/elsewhere" not in provider.asked
    assert outside.sessions() == []


def test_keys_over_plain_http_from_elsewhere_are_not_fetched(outside: Outside) -> None:
    provider = outside.provider
    url = f"http://localhost:{provider.server.server_address[1]}{KEYS}"
    provider.say(DISCOVERY, {"issuer": provider.url, "jwks_uri": url})
    with pytest.raises(ApiError):
        outside.accepts_new()
    assert KEYS not in provider.asked


def test_an_issuer_that_is_not_a_plain_https_url_is_refused_at_the_start() -> None:
    for url in (
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
    ):
        with pytest.raises(ValueError, match="must be"):
            ExternalIssuer(url)


def test_the_lead_of_the_issuers_clock_is_forgotten(outside: Outside) -> None:
    assert outside.accepts_new(iat=AT + 25)

    def signs_in_after_revoke_all(hours: float) -> bool:
        outside.clock.forward(hours=hours)
        at = int(outside.clock.now().timestamp())
        with outside.database.write() as connection:
            end_all(connection, "u-owner", reason="revoked_all", at=outside.clock.now())
        outside.clock.forward(seconds=10)
        try:
            return outside.accepts_new(iat=at + 5, auth_time=at + 5, exp=at + 600, sid=f"sid {at}")
        except ApiError:
            return False

    assert [signs_in_after_revoke_all(hours) for hours in (0, 0.9, 1.5)] == [False, False, True]


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
