"""A key is looked up and counted in one go: whatever else happens then, no request passes uncounted. checklist K32"""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError

from service.access import keys
from service.access.ratelimit import TooMany
from service.db.engine import Database
from tests.service.inside import Inside


def asked(inside: Inside, secret: str) -> int:
    try:
        keys.caller_of(inside.platform, secret, request_id="r", peer_uid=None)
    except TooMany:
        return 429
    return 200


@contextmanager
def every_connection(database: Database, statement: dict[str, str]) -> Any:
    """Said on each connection before it is used."""

    def say(driver_connection: Any, *_: object) -> None:
        cursor = driver_connection.cursor()
        cursor.execute(statement[database.kind])
        cursor.close()
        if database.kind == "postgresql":
            driver_connection.commit()

    event.listen(database.engine, "checkout", say)
    yield
    event.remove(database.engine, "checkout", say)


def test_requests_that_come_at_the_same_instant_are_each_counted(inside: Inside) -> None:
    secret = inside.stored_key(rate_limit=25)
    with ThreadPoolExecutor(16) as threads:
        assert Counter(threads.map(lambda _: asked(inside, secret), range(200))) == {200: 25, 429: 175}


def test_a_database_that_takes_no_changes_still_knows_its_keys(inside: Inside) -> None:
    secret = inside.stored_key(rate_limit=1)
    read_only = {"sqlite": "PRAGMA query_only=ON", "postgresql": "SET default_transaction_read_only=on"}
    with every_connection(inside.platform.database, read_only):
        assert [asked(inside, secret) for _ in range(3)] == [200, 200, 200]


def test_a_request_that_could_not_be_counted_for_another_reason_does_not_pass(inside: Inside) -> None:
    """Else whoever keeps the row of a key busy would be rid of its limit."""
    secret = inside.stored_key(rate_limit=60)
    assert asked(inside, secret) == 200
    other = Database(str(inside.platform.database.engine.url.render_as_string(hide_password=False)))
    impatient = {"sqlite": "PRAGMA busy_timeout=20", "postgresql": "SET lock_timeout='20ms'"}
    with every_connection(inside.platform.database, impatient), other.write() as busy:
        busy.execute(text("UPDATE rate_limits SET full_at = full_at"))
        with pytest.raises(DBAPIError):
            asked(inside, secret)
    other.close()
