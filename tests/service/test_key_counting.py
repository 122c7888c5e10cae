"""Requests of a key are counted, and its last use is written in batches."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError
from starlette.requests import Request

from service.api.authorization import Credential, authenticate
from service.authn.rate_limit import RateLimited
from service.db.engine import Database
from service.db.tables import api_keys
from tests.service.inside import READ_ONLY, Inside, every_connection


def use(inside: Inside, secret: str) -> int:
    request = Request({"type": "http", "headers": [], "client": ("uid:0", 1), "frost.request_id": "r"})
    try:
        authenticate(inside.platform, request, Credential.of("api_key", secret))
    except RateLimited:
        return 429
    return 200


def test_a_database_that_takes_no_changes_still_knows_its_keys(inside: Inside) -> None:
    secret = inside.stored_key(rate_limit=3)
    with every_connection(inside.platform.database, READ_ONLY):
        assert [use(inside, secret) for _ in range(3)] == [200, 200, 200]
        inside.platform.writer.flush()


def test_a_request_that_cannot_be_counted_does_not_pass(inside: Inside) -> None:
    secret = inside.stored_key(rate_limit=60)
    assert use(inside, secret) == 200
    inside.platform.writer.flush()
    other = Database(str(inside.platform.database.engine.url.render_as_string(hide_password=False)))
    impatient = {"sqlite": "PRAGMA busy_timeout=20", "postgresql": "SET lock_timeout='20ms'"}
    with every_connection(inside.platform.database, impatient), other.write() as busy:
        busy.execute(text("UPDATE rate_limits SET full_at = full_at"))
        if other.kind == "sqlite":
            # Counted in memory, without the database.
            assert [use(inside, secret) for _ in range(61)].count(429) >= 1
        else:
            with pytest.raises(DBAPIError):
                use(inside, secret)
    other.close()


@pytest.mark.parametrize(("seconds", "writes"), [(None, 1), (0, 0), (55, 0), (65, 1)])
def test_a_last_use_is_written_once_a_minute(inside: Inside, seconds: int | None, writes: int) -> None:
    used = None if seconds is None else datetime.now(UTC) - timedelta(seconds=seconds)
    secret = inside.stored_key(rate_limit=600, last_used_at=used)
    inside.keep_leases()
    assert use(inside, secret) == 200
    inside.forget()
    assert use(inside, secret) == 200
    # One query: counting it takes no statement.
    assert [statement.split()[0] for statement in inside.statements] == ["SELECT"]
    inside.forget()
    inside.platform.writer.flush()
    assert sum("UPDATE api_keys" in statement for statement in inside.statements) == writes
    with inside.platform.database.read() as connection:
        stored = connection.scalars(select(api_keys.c.last_used_at)).one()
    assert (stored != used) == bool(writes)
