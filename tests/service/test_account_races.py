"""Keys and sessions that are created while their person is deleted or signed out everywhere end too.

One side of each race is a transaction of the test's own that stays open until the other side had time to begin.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select

from service.account import queries
from service.account import routes as account_routes
from service.authn import secret_format, sessions
from service.db.engine import Database
from service.db.revisions import lock_domains
from service.db.tables import api_keys, device_codes
from service.errors import ApiError
from service.oidc_issuer.queries import consume_device_code
from service.principal import Principal
from tests.people import WEB_SHOP
from tests.service import factories
from tests.service.held import ARRIVAL_SECONDS
from tests.service.queries import fetch, fetch_scalars

NOW = factories.AT


@contextmanager
def overlapping(database: Database) -> Iterator[tuple[Connection, Callable[..., Future[None]]]]:
    """Open a transaction, and return a function that begins another one, which ends after it."""
    with ThreadPoolExecutor(1) as thread, database.write() as connection:

        def begin(work: Callable[[Connection], object]) -> Future[None]:
            def run() -> None:
                with database.write() as other:
                    work(other)

            return thread.submit(run)

        yield connection, begin
        time.sleep(ARRIVAL_SECONDS)


def delete(connection: Connection) -> None:
    """Delete the account, under the locks of the route."""
    lock_domains(connection, ["u", *account_routes.affected_organizations(connection, "u")])
    account_routes.mark_deleted(connection, "u", NOW)


@pytest.fixture
def person(database: Database) -> None:
    with database.write() as connection:
        factories.add(connection, factories.seat(NOW, id=WEB_SHOP))
        approved: dict[str, Any] = {"device_code_hash": "d", "user_code": "c", "status": "approved", "user_id": "u"}
        approved |= {"client_id": "frost-cli", "scope": "", "device": "", "interval": 5}
        times = {"created_at": NOW, "expires_at": NOW + timedelta(minutes=10)}
        connection.execute(insert(device_codes).values(approved | times))


def add_key(connection: Connection, key_id: str = "k") -> str:
    values = {"id": key_id, "tenant_id": WEB_SHOP, "user_id": "u", "name": "kk", "scopes": [], "rate_limit": 1}
    times = {"created_at": NOW, "expires_at": NOW + timedelta(days=1)}
    return queries.add_key(connection, b"secret", values | times)


@pytest.mark.usefixtures("person")
def test_a_deletion_waits_for_the_creation_of_a_key_and_revokes_it(database: Database) -> None:
    with overlapping(database) as (connection, begin):
        lock_domains(connection, ["u"])
        add_key(connection)
        done = begin(delete)
    done.result()
    assert fetch_scalars(database, select(api_keys.c.revoked_at)) == [NOW]


@pytest.mark.usefixtures("person")
def test_two_keys_get_different_prefixes(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, free = secret_format.mint(), secret_format.mint()
    minted = iter([taken, taken, taken, free])
    monkeypatch.setattr(secret_format, "mint", lambda: next(minted))
    with overlapping(database) as (connection, begin):
        assert add_key(connection, "first") == taken
        done = begin(lambda other: add_key(other, "second"))
    done.result()
    prefixes = {row.id: row.key_prefix for row in fetch(database, select(api_keys))}
    assert prefixes == {"first": secret_format.lookup_prefix(taken), "second": secret_format.lookup_prefix(free)}


def require_no_session(database: Database) -> None:
    with database.read() as connection:
        assert not sessions.list_active(connection, "u", NOW)


def start(connection: Connection) -> None:
    arguments = {"issuer": "local", "user_id": "u", "device": "", "location": "", "session_id": "s"}
    sessions.start(connection, at=NOW, **arguments)


def start_outside(connection: Connection, at: datetime = NOW, **seconds: int) -> None:
    """Start the session of an outside issuer, whose claims have times after or before NOW."""
    times = {name: int(NOW.timestamp()) + second for name, second in ({"auth_time": -1} | seconds).items()}
    session = sessions.start_session_for_new_sign_in(
        connection,
        issuer="https://idp.example",
        sign_in_key="sid s 1",
        claims={"sub": "e", "email": "u@x.example", "email_verified": True, **times},
        signed_in_at=times["auth_time"],
        principal=Principal(kind="anonymous", request_id="r", peer_uid=None),
        location="",
        at=at,
    )
    assert session


def end_all(connection: Connection) -> None:
    sessions.end_all(connection, "u", reason="revoked_all", at=NOW)


def collect(connection: Connection) -> None:
    assert consume_device_code(connection, "d")
    start(connection)


@pytest.mark.usefixtures("person")
@pytest.mark.parametrize("first", [collect, start_outside], ids=["device code", "outside issuer"])
def test_a_session_that_starts_during_it_ends_too(database: Database, first: Callable[[Connection], None]) -> None:
    with overlapping(database) as (connection, begin):
        first(connection)
        done = begin(end_all)
    done.result()
    require_no_session(database)


@pytest.mark.usefixtures("person")
def test_no_outside_session_starts_while_all_are_ended(database: Database) -> None:
    with overlapping(database) as (connection, begin):
        end_all(connection)
        done = begin(start_outside)
    with pytest.raises(ApiError):
        done.result()
    require_no_session(database)


@pytest.mark.usefixtures("person")
def test_only_a_later_outside_sign_in_starts_a_session(database: Database) -> None:
    """The platform may see a session of an outside issuer for the first time after everything ended."""
    times: list[dict[str, int]] = [{"auth_time": -60}, {"auth_time": -60, "iat": 60}, {"auth_time": 0}]
    later, at = [{"auth_time": 60}, {"auth_time": 60, "iat": 61}], NOW + timedelta(minutes=2)
    with database.write() as connection:
        end_all(connection)
        for seconds in times:
            with pytest.raises(ApiError) as refused:
                start_outside(connection, at, **seconds)
            assert (refused.value.status_code, refused.value.code) == (401, "REAUTHENTICATION_REQUIRED")
            assert 'max_age="120"' in (refused.value.headers or {})["WWW-Authenticate"]
        for seconds in later:
            start_outside(connection, at, **seconds)
