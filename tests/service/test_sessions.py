"""Sessions live until they end, are ended, or their person is deleted."""

import threading
import time

import pytest
from sqlalchemy import event

from service.authn import sessions
from service.authn.credential_use import CredentialUse
from service.db.batch_writer import BatchWriter
from service.principal import Principal
from tests.service.inside import READ_ONLY, every_connection
from tests.service.issuing import NOW, Issuing, claims_of


def caller_of(issuing: Issuing, tokens: dict[str, str]) -> Principal:
    return issuing.bearer(tokens["access_token"])


def test_ending_twice_is_one_end_with_one_entry(issuing: Issuing) -> None:
    caller = caller_of(issuing, issuing.sign_in())
    for _ in range(2):
        with issuing.database.write() as connection:
            sessions.sign_out(connection, caller, str(caller.session_id), at=issuing.clock.now())
        issuing.clock.forward(minutes=1)
    assert issuing.session(str(caller.session_id)).ended_at == NOW
    assert len(issuing.audited("session.end")) == 1


def test_an_end_that_is_rolled_back_leaves_neither_end_nor_entry(issuing: Issuing) -> None:
    tokens = issuing.sign_in()
    caller = caller_of(issuing, tokens)

    def end_and_fail() -> None:
        with issuing.database.write() as connection:
            sessions.sign_out(connection, caller, str(caller.session_id), at=issuing.clock.now())
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        end_and_fail()
    assert issuing.accepted(tokens["access_token"])
    assert issuing.audited("session.end") == []


def test_after_thirty_days_a_session_is_over_even_for_a_token_that_is_not(issuing: Issuing) -> None:
    tokens = issuing.sign_in()
    claims = claims_of(tokens["access_token"])
    # A token the issuer would never sign: it outlives its session.
    late = issuing.issuer.sign(claims | {"exp": claims["exp"] + 60 * 24 * 3600})
    issuing.clock.forward(days=30, microseconds=-1)
    assert issuing.accepted(late)
    issuing.clock.forward(microseconds=1)
    assert not issuing.accepted(late)


def test_last_seen_is_written_at_most_once_a_minute(issuing: Issuing) -> None:
    tokens, use = issuing.sign_in(), CredentialUse()
    session_id = claims_of(tokens["access_token"])["sid"]
    writer, writes = BatchWriter(issuing.database, [use]), list[str]()

    def ask() -> None:
        use.record(caller_of(issuing, tokens), issuing.clock.now())

    def note(connection: object, cursor: object, statement: str, *rest: object) -> None:
        if not statement.lstrip().upper().startswith(("SELECT", "BEGIN")):
            writes.append(statement)

    event.listen(issuing.database.engine, "before_cursor_execute", note)
    try:
        for _ in range(59):
            issuing.clock.forward(seconds=1)
            ask()
            writer.flush()
        assert (writes, issuing.session(session_id).last_seen_at) == ([], NOW)
        issuing.clock.forward(seconds=1)
        for _ in range(5):
            ask()
        assert writes == []
        writer.flush()
        assert len(writes) == 1
    finally:
        event.remove(issuing.database.engine, "before_cursor_execute", note)
    assert issuing.session(session_id).last_seen_at == issuing.clock.now()


def test_a_database_that_takes_no_changes_still_knows_its_sessions(issuing: Issuing) -> None:
    tokens, use = issuing.sign_in(), CredentialUse()
    issuing.clock.forward(minutes=2)
    with every_connection(issuing.database, READ_ONLY):
        use.record(caller_of(issuing, tokens), issuing.clock.now())
        BatchWriter(issuing.database, [use]).flush()
    assert issuing.session(claims_of(tokens["access_token"])["sid"]).last_seen_at == NOW


def test_no_request_that_began_after_the_end_is_let_in(issuing: Issuing) -> None:
    tokens = issuing.sign_in()
    caller = caller_of(issuing, tokens)
    ended = threading.Event()
    late: list[bool] = []
    served: list[bool] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            after = ended.is_set()
            accepted = issuing.accepted(tokens["access_token"])
            (late if after else served).append(accepted)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(served) < 50:
        time.sleep(0.005)
    with issuing.database.write() as connection:
        sessions.end(connection, caller.user_id, str(caller.session_id), reason="signed_out", at=issuing.clock.now())
    ended.set()
    while len(late) < 200:
        time.sleep(0.005)
    stop.set()
    for thread in threads:
        thread.join()
    assert any(served)
    assert not any(late)


@pytest.mark.parametrize(
    ("claims", "name"),
    [
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
    ],
)
def test_an_outside_session_is_a_sign_in_by_sid_else_by_subject(claims: dict[str, object], name: str | None) -> None:
    assert sessions.sign_in_key(claims) == name


def test_long_sign_in_keys_are_distinct() -> None:
    names = {sessions.sign_in_key({"sub": "u" * 250 + end, "auth_time": when}) for end in "ab" for when in (5, 6)}
    assert len(names) == 4
    assert all(name and len(name) <= sessions.MAX_KEY_LENGTH for name in names)
