"""Sessions live until they end, are ended, or their person is deleted."""

import pytest

from service.authn import sessions
from tests.service.issuing import NOW, Issuing, claims_of


def test_a_session_ends_once_with_its_entry_in_one_transaction(issuing: Issuing) -> None:
    tokens = issuing.sign_in()
    principal = issuing.bearer(tokens["access_token"])
    session_id = str(principal.session_id)

    def end_and_fail() -> None:
        with issuing.database.write() as connection:
            sessions.sign_out(connection, principal, session_id, at=issuing.clock.now())
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        end_and_fail()
    assert issuing.accepted(tokens["access_token"])
    assert issuing.audited("session.end") == []
    for _ in range(2):
        with issuing.database.write() as connection:
            sessions.sign_out(connection, principal, session_id, at=issuing.clock.now())
        issuing.clock.forward(minutes=1)
    assert issuing.session(session_id).ended_at == NOW
    assert len(issuing.audited("session.end")) == 1


def test_after_thirty_days_a_session_is_over_even_for_a_token_that_is_not(issuing: Issuing) -> None:
    tokens = issuing.sign_in()
    claims = claims_of(tokens["access_token"])
    # The issuer signs no token that outlives its session.
    late = issuing.issuer.sign(claims | {"exp": claims["exp"] + 60 * 24 * 3600})
    issuing.clock.forward(days=30, microseconds=-1)
    assert issuing.accepted(late)
    issuing.clock.forward(microseconds=1)
    assert not issuing.accepted(late)


def test_an_outside_session_is_a_sign_in_by_sid_else_by_subject() -> None:
    rows: tuple[tuple[dict[str, object], str | None], ...] = (
        ({"sid": "s-1", "sub": "u", "auth_time": 5}, "sid s-1 5"),
        ({"sub": "u", "auth_time": 5}, "sub u 5"),
        ({"sid": "", "sub": "u", "auth_time": 5}, "sub u 5"),
        ({"sub": "u"}, None),
        ({"sid": "s-1", "sub": "u"}, None),
        ({"sub": "u", "auth_time": "5"}, None),
        ({"sub": "u", "auth_time": True}, None),
        ({"sub": "u", "auth_time": -5}, None),
        ({"sub": "u", "auth_time": 1 << 70}, None),
        ({"sub": "u" * 300, "auth_time": 5}, None),
        ({"sid": "a\x00", "sub": "u", "auth_time": 5}, None),
    )
    for claims, name in rows:
        assert sessions.sign_in_key(claims) == name, claims
    long = [{"sub": "u" * 250 + end, "auth_time": time} for end in "ab" for time in (5, 6)]
    names = {sessions.sign_in_key(claims) for claims in long}
    assert len(names) == 4
    assert all(name and len(name) <= sessions.MAX_KEY_LENGTH for name in names)
