"""Refresh tokens, one use each, and token revocation: what ends a session. RFC 6749, 7009"""

import tempfile
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from service.authn.sessions import LIFETIME
from service.db.engine import Database
from service.db.tables import refresh_tokens
from tests.people import MEMBER
from tests.service.audited import audited
from tests.service.issuing import NOW, SCOPE, Issuing, Reply, claims_of
from tests.waiting import at_once


def test_a_refresh_gives_a_new_pair_for_the_same_session_and_never_a_wider_scope(issuing: Issuing) -> None:
    first = issuing.sign_in()
    issuing.clock.forward(minutes=29)
    reply = issuing.refresh(first["refresh_token"], scope=SCOPE)
    assert (reply.status, reply.body["expires_in"], reply.cache) == (200, 1800, "no-store")
    assert reply.body["refresh_token"] != first["refresh_token"]
    assert issuing.bearer(reply.body["access_token"]).session_id == claims_of(first["access_token"])["sid"]
    # The old access token lives until its own end.
    assert issuing.accepted(first["access_token"])
    issuing.clock.forward(minutes=1)
    assert not issuing.accepted(first["access_token"])
    assert issuing.accepted(reply.body["access_token"])
    # The scope is narrowed for one access token.
    tokens = issuing.sign_in(scope="openid email")
    assert issuing.refresh(tokens["refresh_token"], scope="openid profile").error == "invalid_scope"
    narrow = issuing.refresh(tokens["refresh_token"], scope="email").body
    assert claims_of(narrow["access_token"])["scope"] == "email"
    assert issuing.refresh(narrow["refresh_token"]).body["scope"] == "openid email"


@pytest.mark.parametrize("days", [0, 10])
def test_a_second_use_ends_the_session_and_is_audited_once(issuing: Issuing, days: int) -> None:
    stolen = issuing.sign_in()
    other = issuing.sign_in()
    honest = issuing.refresh(stolen["refresh_token"]).body
    for _ in range(days // 2):
        issuing.clock.forward(days=2)
        other, honest = issuing.sign_in(), issuing.refresh(honest["refresh_token"]).body
    for _ in range(3):
        assert issuing.refresh(stolen["refresh_token"]).error == "invalid_grant"
    assert issuing.refresh(honest["refresh_token"]).error == "invalid_grant"
    assert not issuing.accepted(honest["access_token"])
    assert not issuing.accepted(stolen["access_token"])
    session_id = claims_of(stolen["access_token"])["sid"]
    (entry,) = issuing.audited("session.end")
    assert (entry.details, entry.target) == ({"reason": "refresh_token_reuse"}, f"session:{session_id}")
    assert issuing.session(session_id).end_reason == "refresh_token_reuse"
    assert issuing.accepted(other["access_token"])


def test_of_many_uses_at_once_in_several_processes_one_succeeds(issuing: Issuing, database_url: str) -> None:
    # Four engines stand for four processes: the in-process writer lock is no help between them.
    replicas = [issuing] + [Issuing(audited(database_url), issuing.folder, issuing.clock) for _ in range(3)]
    try:
        for round_number in range(1, 6):
            token = issuing.sign_in()["refresh_token"]
            replies = at_once([partial(replicas[number % 4].refresh, token) for number in range(12)])
            assert sorted(reply.status for reply in replies) == [200] + [400] * 11
            assert {reply.error for reply in replies if reply.status == 400} == {"invalid_grant"}
            (won,) = [reply.body for reply in replies if reply.status == 200]
            assert not issuing.accepted(won["access_token"])
            assert len(issuing.audited("session.end")) == round_number
    finally:
        for replica in replicas[1:]:
            replica.database.close()


def test_no_token_outlives_its_session(issuing: Issuing) -> None:
    tokens = issuing.sign_in()
    session_id = claims_of(tokens["access_token"])["sid"]
    end = NOW + LIFETIME
    while issuing.clock.now() + timedelta(days=3) < end:
        issuing.clock.forward(days=3)
        tokens = issuing.refresh(tokens["refresh_token"]).body
        assert issuing.session(session_id).expires_at == end
    issuing.clock.instant = end - timedelta(seconds=90)
    tokens = issuing.refresh(tokens["refresh_token"]).body
    assert tokens["expires_in"] == 90
    assert claims_of(tokens["access_token"])["exp"] <= end.timestamp()
    issuing.clock.instant = end - timedelta(milliseconds=1)
    at_the_last_moment = issuing.refresh(tokens["refresh_token"]).body
    assert claims_of(at_the_last_moment["access_token"])["exp"] <= end.timestamp()
    issuing.clock.instant = end
    assert not issuing.accepted(tokens["access_token"])
    assert issuing.refresh(at_the_last_moment["refresh_token"]).error == "invalid_grant"


def test_after_thirty_days_a_session_is_over_even_for_a_token_that_is_not(issuing: Issuing) -> None:
    tokens = issuing.sign_in()
    claims = claims_of(tokens["access_token"])
    # The issuer signs no token that outlives its session.
    late = issuing.issuer.sign(claims | {"exp": claims["exp"] + 60 * 24 * 3600})
    issuing.clock.forward(days=30, microseconds=-1)
    assert issuing.accepted(late)
    issuing.clock.forward(microseconds=1)
    assert not issuing.accepted(late)


def test_made_up_missing_and_misused_tokens_are_refused(issuing: Issuing) -> None:
    tokens = issuing.sign_in(email=MEMBER)
    assert issuing.refresh("made-up").error == "invalid_grant"
    assert issuing.refresh(tokens["access_token"]).error == "invalid_grant"
    assert issuing.refresh("").error == "invalid_request"
    assert issuing.refresh(tokens["refresh_token"], client_id="other").error == "invalid_client"
    renewed = issuing.refresh(tokens["refresh_token"])
    assert renewed.status == 200
    assert not issuing.accepted(renewed.body["refresh_token"])
    issuing.delete(MEMBER)
    assert issuing.refresh(renewed.body["refresh_token"]).error == "invalid_grant"
    assert not issuing.accepted(renewed.body["access_token"])


# A random history of one session. A token is named by how many came before it.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("newest"), st.just(0)),
        st.tuples(st.just("earlier"), st.integers(0, 5)),
        st.tuples(st.just("minutes"), st.sampled_from([1, 29, 31, 60 * 24 * 12])),
        st.tuples(st.just("revoke"), st.integers(0, 5)),
    ),
    max_size=14,
)


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=STEPS)
def test_a_session_lives_until_its_end_its_revocation_or_a_second_use(
    database: Database, steps: list[tuple[str, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        issuing = Issuing(database, Path(folder))
        with database.read() as connection:
            populated = connection.execute(select(refresh_tokens).limit(1)).first() is not None
        if not populated:
            issuing.populate()
        held = [issuing.sign_in()]
        used: set[int] = set()
        end, alive = issuing.clock.now() + LIFETIME, True
        fresh_until = issuing.clock.now() + timedelta(minutes=30)
        for kind, number in steps:
            alive = alive and issuing.clock.now() < end
            if kind == "minutes":
                issuing.clock.forward(minutes=number)
            elif kind == "revoke":
                token = held[number % len(held)]["refresh_token"]
                assert issuing.ask("revoke", {"token": token, "client_id": "frost-cli"}).status == 200
                alive = False
            else:
                index = len(held) - 1 if kind == "newest" else number % len(held)
                reply = issuing.refresh(held[index]["refresh_token"])
                assert (reply.status == 200) == (alive and index not in used)
                if reply.status == 200:
                    used.add(index)
                    held.append(reply.body)
                    fresh_until = min(issuing.clock.now() + timedelta(minutes=30), end)
                else:
                    alive = False
            now = issuing.clock.now()
            # `exp` is a whole second, rounded down.
            if now < fresh_until - timedelta(seconds=1) or now >= fresh_until:
                assert issuing.accepted(held[-1]["access_token"]) == (alive and now < fresh_until)


def revoke(issuing: Issuing, token: str, **fields: str) -> Reply:
    return issuing.ask("revoke", {"token": token, "client_id": "frost-cli", **fields})


@pytest.mark.parametrize("which", ["refresh_token", "access_token"])
def test_either_token_ends_its_session_and_only_that(issuing: Issuing, which: str) -> None:
    tokens, other = issuing.sign_in(), issuing.sign_in()
    # It ends once.
    for _ in range(2):
        assert revoke(issuing, tokens[which]).status == 200
        issuing.clock.forward(minutes=1)
    assert not issuing.accepted(tokens["access_token"])
    assert issuing.refresh(tokens["refresh_token"]).error == "invalid_grant"
    assert issuing.accepted(other["access_token"])
    session_id = claims_of(tokens["access_token"])["sid"]
    session = issuing.session(session_id)
    assert (session.end_reason, session.ended_at) == ("signed_out", NOW)
    (entry,) = issuing.audited("session.end")
    assert (entry.actor_id, entry.target) == ("u-owner", f"session:{session_id}")


def test_an_invalid_token_is_answered_with_200_and_ends_nothing(issuing: Issuing) -> None:
    tokens = issuing.sign_in()
    head, body, _ = tokens["access_token"].split(".")
    for token in ("made-up", "a.b.c", "eyJhbGciOiJub25lIn0.e30.", "x" * 9000, f"{head}.{body}.{'A' * 86}"):
        assert revoke(issuing, token, token_type_hint="something").status == 200
    assert issuing.ask("revoke", {"token": tokens["refresh_token"]}).error == "invalid_client"
    assert issuing.ask("revoke", {"client_id": "frost-cli"}).error == "invalid_request"
    assert issuing.accepted(tokens["access_token"])
    # A used refresh token ends the session as well.
    newer = issuing.refresh(tokens["refresh_token"]).body
    assert revoke(issuing, tokens["refresh_token"], token_type_hint="access_token").status == 200
    assert not issuing.accepted(newer["access_token"])
    assert revoke(issuing, tokens["refresh_token"]).status == 200
    assert len(issuing.audited("session.end")) == 1
