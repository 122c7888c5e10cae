"""Caches of authority are emptied after a set-back of the database, and off while triggers are missing."""

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Executable, delete, text, update

from service.app import open_platform
from service.authz import cache_guard
from service.authz.decisions import CatalogueSnapshot
from service.db import tables
from service.db.batch_writer import BatchWriter
from service.db.engine import Database
from service.db.origin import Origin
from service.db.tables import revisions
from service.operator import monitoring
from service.readiness_cache import ReadinessCache
from tests.people import AURORA
from tests.service import demo_world
from tests.service.conftest import KINDS
from tests.service.counted import KEY, TENANT, Counted
from tests.service.postgres import Cluster
from tests.service.queries import execute, fetch_scalars, listening
from tests.service.revised import all_revisions
from tests.waiting import until

LIST = f"{TENANT}/resources/instance"
REVOKE = update(tables.api_keys).where(tables.api_keys.c.name == KEY).values(revoked_at=tables.api_keys.c.created_at)


@pytest.fixture
def counted(tmp_path: Path, world_url: str | None) -> Iterator[Counted]:
    with closing(Counted(tmp_path, world_url)) as opened:
        opened.keep_leases()
        yield opened


def status(counted: Counted, headers: dict[str, str] | None = None) -> int:
    return counted.get(LIST, headers or counted.key).status_code


def warm(counted: Counted) -> None:
    assert [status(counted) for _ in range(2)] == [200, 200]
    # A busy server may not answer the event loop in time.
    until(lambda: is_cached(counted))


def is_cached(counted: Counted) -> bool:
    return counted.count("GET", LIST, counted.key) <= 2


def readiness(counted: Counted) -> tuple[int, str, str]:
    counted.platform.readiness = ReadinessCache()
    monitoring.checks(counted.platform)
    answer = counted.get("/readyz", {})
    return answer.status_code, answer.json()["status"], answer.json()["checks"]["triggers"]


def change(counted: Counted, *statements: Executable | str) -> None:
    """Change the database as an administrator."""
    with closing(Database(counted.platform.settings.database_url)) as other:
        execute(other, *(text(each) if isinstance(each, str) else each for each in statements))


@contextmanager
def dropped(counted: Counted, name: str, table: str) -> Iterator[None]:
    """Drop a trigger, and create it again as it was."""
    database = counted.platform.database
    if database.kind == "sqlite":
        [definition] = fetch_scalars(database, text(f"SELECT sql FROM sqlite_master WHERE name = '{name}'"))
        again = [definition]
    else:
        [definition] = fetch_scalars(
            database, text(f"SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = '{name}'")
        )
        again = [definition, f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}"]
    run(counted, f"DROP TRIGGER {name}" + (f" ON {table}" if database.kind == "postgresql" else ""))
    yield
    run(counted, *again)


def run(counted: Counted, *statements: str) -> None:
    with closing(Database(counted.platform.settings.database_url)) as other, other.write() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def trigger_of_updates(counted: Counted) -> str:
    return "revise_api_keys" + ("_update" if counted.platform.database.kind == "sqlite" else "")


def test_without_a_trigger_each_request_is_decided_from_the_database(
    counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    guard, name = counted.platform.cache_guard, trigger_of_updates(counted)
    warm(counted)
    assert readiness(counted) == (200, "ok", "ok")
    with dropped(counted, name, "api_keys"):
        guard.check()
        guard.check()
        assert [(each.table, each.name) for each in guard.missing] == [("api_keys", name)]
        assert readiness(counted) == (200, "ok", "failed")
        errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert [f"{name} on api_keys" in error for error in errors] == [True]
        assert status(counted) == 200
        assert not is_cached(counted)
        change(counted, REVOKE)
        assert status(counted) == 401
        change(counted, update(tables.api_keys).values(revoked_at=None))
        assert status(counted) == 200
    change(counted, REVOKE)
    guard.check()
    assert (guard.missing, readiness(counted)) == ((), (200, "ok", "ok"))
    assert "grants are cached again" in caplog.text
    assert status(counted) == 401
    change(counted, update(tables.api_keys).values(revoked_at=None))
    # SQLite reports the change of the schema to the first request from memory.
    assert [status(counted) for _ in range(2)] == [200, 200]
    guard.confirm()
    warm(counted)


def test_sqlite_reports_a_dropped_trigger_to_the_next_request(tmp_path: Path) -> None:
    """In the transaction that revokes the key."""
    with closing(Counted(tmp_path, None)) as counted:
        guard = counted.platform.cache_guard
        warm(counted)
        revoke = f"UPDATE api_keys SET revoked_at = created_at WHERE name = '{KEY}'"
        with dropped(counted, "revise_api_keys_update", "api_keys"):
            run(counted, revoke)
            assert status(counted) == 401
            guard.confirm()
            assert [each.table for each in guard.missing] == ["api_keys"]
            run(counted, revoke.replace("created_at", "NULL"))
            assert [status(counted) for _ in range(2)] == [200, 200]
            run(counted, revoke)
            assert status(counted) == 401
        guard.check()
        run(counted, revoke.replace("created_at", "NULL"))
        assert [status(counted) for _ in range(2)] == [200, 200]
        guard.confirm()
        assert guard.missing == ()
        warm(counted)
        run(counted, "CREATE TABLE other (id INTEGER)")
        assert [status(counted), is_cached(counted)] == [200, False]
        guard.confirm()
        warm(counted)


def is_switched_on(counted: Counted) -> bool:
    sizes = {cache.max_size > 0 for cache in (counted.platform.subjects.tenants, counted.platform.subjects.subjects)}
    [is_on] = sizes | {counted.platform.authorities._is_on}
    return is_on


def test_a_suspension_that_meets_the_end_of_a_check_keeps_the_caches_off(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop suspends while the thread of the checks turns the caches on."""
    guard, authorities = counted.platform.cache_guard, counted.platform.authorities
    switch, suspensions = authorities.switch, [threading.Thread(target=guard.suspend)]

    def suspend_and_switch(*, is_on: bool) -> None:
        if is_on and suspensions:
            suspension = suspensions.pop()
            suspension.start()
            # With a common lock the suspension waits for the check.
            suspension.join(0.2)
            ended.append(suspension)
        switch(is_on=is_on)

    ended: list[threading.Thread] = []
    monkeypatch.setattr(authorities, "switch", suspend_and_switch)
    guard.check()
    ended.pop().join()
    assert not is_switched_on(counted)
    guard.confirm()
    assert is_switched_on(counted)


def test_caches_are_off_until_all_revisions_are_increased(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    guard, states = counted.platform.cache_guard, []
    warm(counted)
    with dropped(counted, trigger_of_updates(counted), "api_keys"):
        change(counted, REVOKE)

    def fail(_: object) -> None:
        states.append(is_switched_on(counted))
        raise RuntimeError("the database is away")

    before = all_revisions(counted.platform.database)
    with monkeypatch.context() as patch:
        patch.setattr(cache_guard, "increase_all_revisions", fail)
        for attempt in (guard.check, guard.confirm):
            with pytest.raises(RuntimeError):
                attempt()
            assert not is_switched_on(counted)
    assert states == [False, False]
    assert all_revisions(counted.platform.database) == before
    guard.confirm()
    assert is_switched_on(counted)
    after = all_revisions(counted.platform.database)
    assert all(after[domain] > revision for domain, revision in before.items())
    guard.confirm()
    assert all_revisions(counted.platform.database) == after


def test_a_check_that_cannot_read_the_triggers_is_repeated(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = counted.platform.cache_guard

    def fail(_: object) -> None:
        raise RuntimeError("the database is away")

    with monkeypatch.context() as patch:
        patch.setattr(cache_guard, "read_triggers", fail)
        with pytest.raises(RuntimeError):
            guard.check()
        assert is_switched_on(counted)
        guard.suspend()
        for attempt in (guard.confirm, guard.check, guard.confirm):
            with pytest.raises(RuntimeError):
                attempt()
            assert not is_switched_on(counted)
    guard.confirm()
    assert is_switched_on(counted)


def test_a_change_without_a_trigger_is_decided_in_its_transaction(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The revisions that a change compares tell nothing while triggers are missing."""
    name = "revise_memberships" + ("_update" if counted.platform.database.kind == "sqlite" else "")
    write, demotions = counted.platform.database.write, [update(tables.memberships).values(role="viewer")]

    def demote_and_write() -> Any:
        """Demote the person after the request was authorized, before its transaction begins."""
        if demotions:
            change(counted, demotions.pop())
        return write()

    def put() -> int:
        return counted.ask("PUT", f"{TENANT}/default-tags", counted.session, {"tags": {"a": "b"}}).status_code

    assert put() == 200
    with dropped(counted, name, "memberships"):
        counted.platform.cache_guard.check()
        assert put() == 200
        monkeypatch.setattr(counted.platform.database, "write", demote_and_write)
        assert put() == 403
        assert not demotions


def test_the_digest_of_the_catalogue_is_read_only_after_a_change(counted: Counted) -> None:
    decisions, operation = counted.platform.decisions, tables.catalogue_operations.c.name == "compute:instances:list"

    def read() -> tuple[int, CatalogueSnapshot]:
        """Return how many statements read the table, and the catalogue."""
        counted.forget()
        with counted.platform.database.read() as connection:
            catalogue = decisions.catalogue(connection)
        return sum("catalogue_operations" in one for one in counted.statements), catalogue

    decisions.clear()
    # Revision 0 may be that of several states.
    change(counted, delete(revisions))
    _, first = read()
    assert [read(), read()] == [(1, first)] * 2
    change(counted, update(tables.catalogue_operations).where(operation).values(description="Other"))
    assert [read(), read()] == [(1, first), (0, first)]
    change(counted, update(tables.catalogue_operations).where(operation).values(access_level="write"))
    (statements, second), third = read(), read()
    assert (statements, third) == (2, (0, second))
    assert (first.levels["compute:instances:list"], second.levels["compute:instances:list"]) == ("list", "write")
    counted.platform.cache_guard.suspend()
    assert read() == (1, second)
    counted.platform.cache_guard.confirm()
    assert read() == (0, second)


def test_without_its_triggers_an_altered_catalogue_is_seen(counted: Counted) -> None:
    decisions, database = counted.platform.decisions, counted.platform.database
    name = "revise_catalogue_operations" + ("_update" if database.kind == "sqlite" else "")

    def levels() -> set[str]:
        with database.read() as connection:
            return set(decisions.catalogue(connection).levels.values())

    assert len(levels()) > 1
    with dropped(counted, name, "catalogue_operations"):
        counted.platform.cache_guard.check()
        change(counted, update(tables.catalogue_operations).values(access_level="read"))
        assert levels() == {"read"}
        change(counted, update(tables.catalogue_operations).values(access_level="write"))
    counted.platform.cache_guard.check()
    assert levels() == {"write"}


def test_a_platform_that_starts_without_a_trigger_caches_nothing(counted: Counted) -> None:
    with dropped(counted, trigger_of_updates(counted), "api_keys"):
        started = open_platform(counted.platform.settings)
        assert [each.table for each in started.cache_guard.missing] == ["api_keys"]
        assert started.subjects.tenants.max_size == 0
    started.cache_guard.check()
    assert started.cache_guard.missing == ()
    assert started.subjects.tenants.max_size > 0
    started.database.close()


@pytest.mark.parametrize("kind", ["postgresql"])
@pytest.mark.parametrize(
    ("statements", "undo"),
    [
        (
            ["ALTER TABLE api_keys DISABLE TRIGGER revise_api_keys"],
            "ALTER TABLE api_keys ENABLE ALWAYS TRIGGER revise_api_keys",
        ),
        (
            ["ALTER TABLE api_keys ENABLE TRIGGER revise_api_keys"],
            "ALTER TABLE api_keys ENABLE ALWAYS TRIGGER revise_api_keys",
        ),
        (
            # A trigger of the same name on another table, and one with another function, are not the trigger.
            [
                "DROP TRIGGER revise_api_keys_truncate ON api_keys",
                "CREATE TRIGGER revise_api_keys_truncate BEFORE TRUNCATE ON groups EXECUTE FUNCTION revise_truncated()",
                "ALTER TABLE groups ENABLE ALWAYS TRIGGER revise_api_keys_truncate",
            ],
            "",
        ),
        (
            [
                "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
                "DROP TRIGGER revise_api_keys_truncate ON api_keys",
                "CREATE TRIGGER revise_api_keys_truncate BEFORE TRUNCATE ON api_keys EXECUTE FUNCTION nothing()",
                "ALTER TABLE api_keys ENABLE ALWAYS TRIGGER revise_api_keys_truncate",
            ],
            "",
        ),
        (
            # A revocation changes another column.
            [
                "DROP TRIGGER revise_api_keys ON api_keys",
                "CREATE CONSTRAINT TRIGGER revise_api_keys AFTER UPDATE OF scopes OR DELETE ON api_keys"
                " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION revise_api_keys()",
                "ALTER TABLE api_keys ENABLE ALWAYS TRIGGER revise_api_keys",
            ],
            "",
        ),
        (
            [
                "DROP TRIGGER revise_api_keys ON api_keys",
                "CREATE TRIGGER revise_api_keys AFTER DELETE ON api_keys FOR EACH ROW"
                " EXECUTE FUNCTION revise_api_keys()",
                "ALTER TABLE api_keys ENABLE ALWAYS TRIGGER revise_api_keys",
            ],
            "",
        ),
    ],
    ids=[
        "disabled",
        "not always",
        "on another table",
        "with another function",
        "for other columns",
        "for other events",
    ],
)
def test_a_trigger_that_is_not_the_expected_one_is_missing(
    kind: str, statements: list[str], undo: str, tmp_path: Path, demo_url: Callable[[str], str | None]
) -> None:
    with closing(Counted(tmp_path, demo_url(kind))) as counted:
        run(counted, *statements)
        counted.platform.cache_guard.check()
        assert [each.table for each in counted.platform.cache_guard.missing] == ["api_keys"]
        if undo:
            run(counted, undo)
            counted.platform.cache_guard.check()
            assert counted.platform.cache_guard.missing == ()


@pytest.mark.parametrize(
    "weaken",
    [
        lambda sql: sql.replace("UPDATE OF tenant_id,", "UPDATE OF name,").replace(", revoked_at", ""),
        lambda sql: sql.replace(" BEGIN ", " WHEN OLD.revoked_at = 1 BEGIN "),
        lambda sql: sql.replace("OLD.tenant_id", "OLD.user_id").replace("NEW.tenant_id", "NEW.user_id"),
        lambda sql: sql.replace(" WHERE true", " WHERE false"),
    ],
    ids=["for other columns", "with a condition", "for other domains", "without rows"],
)
def test_a_weakened_trigger_of_sqlite_is_missing_at_the_start(tmp_path: Path, weaken: Callable[[str], str]) -> None:
    with closing(Counted(tmp_path, None)) as counted:
        name = "revise_api_keys_update"
        [definition] = fetch_scalars(
            counted.platform.database, text(f"SELECT sql FROM sqlite_master WHERE name = '{name}'")
        )
        assert weaken(definition) != definition
        run(counted, f"DROP TRIGGER {name}", weaken(definition))
        started = open_platform(counted.platform.settings)
        assert [each.name for each in started.cache_guard.missing] == [name]
        spaced = definition.replace(" BEGIN ", "\nBEGIN\n  ").replace("ON api_keys", 'ON "api_keys"')
        run(counted, f"DROP TRIGGER {name}", spaced)
        started.cache_guard.check()
        assert started.cache_guard.missing == ()
        started.database.close()


def test_triggers_that_were_altered_between_two_checks_increase_all_revisions(counted: Counted) -> None:
    """Another process may have cached what changed in the meantime."""
    guard = counted.platform.cache_guard
    warm(counted)
    with dropped(counted, trigger_of_updates(counted), "api_keys"):
        change(counted, REVOKE)
    before = all_revisions(counted.platform.database)
    guard.check()
    after = all_revisions(counted.platform.database)
    assert all(after[domain] > revision for domain, revision in before.items())
    assert status(counted) == 401
    guard.check()
    assert all_revisions(counted.platform.database) == after


@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_table_that_was_rewritten_increases_all_revisions(
    kind: str, tmp_path: Path, demo_url: Callable[[str], str | None]
) -> None:
    with closing(Counted(tmp_path, demo_url(kind))) as counted:
        before = all_revisions(counted.platform.database)
        counted.platform.cache_guard.check()
        assert all_revisions(counted.platform.database) == before
        run(counted, "ALTER TABLE api_keys ALTER last_used_at TYPE bigint USING last_used_at + 1")
        counted.platform.cache_guard.check()
        after = all_revisions(counted.platform.database)
        assert all(after[domain] > revision for domain, revision in before.items())


@pytest.mark.parametrize("kind", ["postgresql"])
def test_a_role_that_may_not_read_the_origin_works_without_it(
    kind: str, new_database_url: Callable[[str, bool], str], cluster: Cluster
) -> None:
    url = new_database_url(kind, True)
    with closing(Database(url)) as owner, owner.write() as connection:
        connection.exec_driver_sql("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    cluster.execute("DROP ROLE IF EXISTS curious")
    cluster.execute("CREATE ROLE curious LOGIN NOSUPERUSER")
    with closing(Database(url.replace("frost@", "curious@"))) as database:
        for _ in range(2):
            with database.read() as connection:
                assert connection.exec_driver_sql("SELECT 1").scalar() == 1
            database.observe_origin()
        assert not database.origin.is_known


def test_a_lower_revision_drops_all_caches_and_is_logged_once(
    counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    platform, guard = counted.platform, counted.platform.cache_guard
    execute(platform.database, text("UPDATE memberships SET role = role"))
    warm(counted)
    change(counted, update(revisions).where(revisions.c.domain == AURORA).values(revision=1))
    assert status(counted) == 200
    assert platform.decisions._catalogue is not None
    guard.confirm()
    guard.confirm()
    assert (guard.set_backs, caplog.text.count("a revision is lower than before")) == (1, 1)
    assert (len(platform.authorities._entries), platform.decisions._catalogue) == (0, None)
    warm(counted)


def test_an_older_snapshot_is_no_set_back(counted: Counted) -> None:
    guard = counted.platform.cache_guard
    execute(counted.platform.database, text("UPDATE memberships SET role = role"))
    stored = all_revisions(counted.platform.database)
    guard.compare({AURORA: stored[AURORA] - 1}, {AURORA: stored[AURORA]})
    guard.confirm()
    assert guard.set_backs == 0
    guard.compare({}, {})
    guard.confirm()


def test_a_failed_confirmation_is_repeated(counted: Counted) -> None:
    guard, database = counted.platform.cache_guard, counted.platform.database
    execute(database, text("UPDATE memberships SET role = role"))
    warm(counted)
    change(counted, delete(revisions))
    assert status(counted) == 200

    def fail(*_: object) -> None:
        raise RuntimeError("the database is away")

    with listening(database, fail), pytest.raises(RuntimeError):
        guard.confirm()
    assert guard.set_backs == 0
    guard.confirm()
    assert guard.set_backs == 1


def test_the_thread_of_the_checks_survives_a_failed_confirmation(
    counted: Counted, caplog: pytest.LogCaptureFixture
) -> None:
    guard, database = counted.platform.cache_guard, counted.platform.database
    guard.compare({AURORA: 1}, {AURORA: 2**62})

    def fail(*_: object) -> None:
        raise RuntimeError("the database is away")

    writer = BatchWriter(database, (), [(guard.confirm, 0)], seconds=0.01)
    with listening(database, fail):
        writer.start()
        until(lambda: "a periodic task failed" in caplog.text)
    until(lambda: guard.set_backs == 1)
    writer.stop()


def test_both_checks_are_repeated(counted: Counted) -> None:
    tasks = {task.run: task.seconds for task in counted.platform.writer._tasks}
    guard = counted.platform.cache_guard
    assert (tasks[guard.confirm], tasks[guard.check]) == (1, 60)


def test_another_file_drops_all_caches(tmp_path: Path) -> None:
    with closing(Counted(tmp_path, None)) as counted:
        warm(counted)
        file = Path(str(counted.platform.database.engine.url.database))
        shutil.copy(file, tmp_path / "copy")
        counted.platform.cache_guard.check()
        assert counted.platform.cache_guard.set_backs == 0
        (tmp_path / "copy").rename(file)
        counted.platform.database.observe_origin()
        counted.platform.database.observe_origin()
        assert counted.platform.cache_guard.set_backs == 1
        assert not counted.platform.authorities._entries


@pytest.mark.parametrize("kind", KINDS)
def test_each_new_connection_and_each_check_tells_the_origin(
    kind: str, new_database_url: Callable[[str, bool], str]
) -> None:
    with closing(Database(new_database_url(kind, True))) as database:
        with database.read():
            pass
        first = database.origin._current
        assert first is not None
        changes: list[int] = []
        database.origin.on_change = lambda: changes.append(1)
        for observe in (lambda: None, database.observe_origin):
            database.origin._current = ("another", "timeline")
            if observe is database.observe_origin:
                observe()
            else:
                database.engine.dispose()
                with database.read():
                    pass
            assert database.origin._current == first
        assert len(changes) == 2


@pytest.mark.parametrize("kind", ["postgresql"])
def test_connections_of_the_event_loop_tell_the_origin(
    kind: str, tmp_path: Path, demo_url: Callable[[str], str | None]
) -> None:
    with closing(Counted(tmp_path, demo_url(kind))) as counted:
        warm(counted)
        origin, guard = counted.platform.database.origin, counted.platform.cache_guard
        first, origin._current = origin._current, ("another", "timeline")
        # Each request of a test has its own event loop, and so its own connection.
        assert status(counted) == 200
        assert (origin._current, guard.set_backs) == (first, 1)


@pytest.mark.slow
def test_a_promoted_standby_drops_all_caches(tmp_path: Path) -> None:
    """The standby takes the address of the server that it replaces."""
    with Cluster() as primary:
        primary.create("demo")
        url = primary.url("demo")
        with closing(Counted(tmp_path, demo_world.register(url, demo_world.load(url)))) as demo:
            demo.keep_leases()
            warm(demo)
            primary.run("pg_basebackup", "-h", str(primary.folder), "-U", "frost", "-D", "standby", "-R", "-c", "fast")
            primary.stop()
            (primary.folder / "data").rename(primary.folder / "former")
            (primary.folder / "standby").rename(primary.folder / "data")
            primary.start()
            primary.execute("SELECT pg_promote()")
            until(lambda: status(demo) == 200)
            assert demo.platform.cache_guard.set_backs == 1
            warm(demo)


def test_an_unknown_origin_is_no_change() -> None:
    origin, changes = Origin(), []
    origin.on_change = lambda: changes.append(1)
    for each in (
        None,
        ("1", "2", "00000001"),
        None,
        ("1", "2", None),
        ("1", "2", "00000001"),
        ("1", "2", "00000002"),
        ("1", "2", "00000002"),
    ):
        origin.observe(each)
    assert len(changes) == 1
