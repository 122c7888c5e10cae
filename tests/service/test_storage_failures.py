"""Storage that fails while the platform runs: a moved database file, I/O errors, a damaged queue."""

import errno
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import event, insert, update
from sqlalchemy.exc import DBAPIError, OperationalError

from service.api.middleware import unexpected_error
from service.db import engine
from service.db.dialect import is_read_only_or_full, is_transient, is_unreachable
from service.db.engine import Database
from service.db.storage import FileMoved, is_storage_failure
from service.db.tables import platform_state
from service.files import DamagedFile
from service.http_server.request_metrics import RequestMetrics
from service.operator import monitoring
from tests.people import OWNER, STAGING
from tests.service.inside import Inside
from tests.service.live import Live
from tests.service.queries import execute
from tests.service.running import Running
from tests.waiting import until

TENANT = f"/api/v1/tenants/{STAGING}"


def sqlite_error(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("an error of SQLite")
    error.sqlite_errorcode = code  # type: ignore[misc]
    return error


def postgresql_error(state: str) -> Exception:
    error = Exception("an error of PostgreSQL")
    error.sqlstate = state  # type: ignore[attr-defined]
    return error


def wrapped(error: Exception) -> DBAPIError:
    return OperationalError("SELECT 1", None, error)


FAILURES = (
    sqlite_error(sqlite3.SQLITE_IOERR_FSYNC),
    sqlite_error(sqlite3.SQLITE_IOERR_READ),
    wrapped(sqlite_error(sqlite3.SQLITE_IOERR_WRITE)),
    wrapped(sqlite_error(sqlite3.SQLITE_CORRUPT)),
    wrapped(sqlite_error(sqlite3.SQLITE_NOTADB)),
    wrapped(sqlite_error(sqlite3.SQLITE_CANTOPEN)),
    wrapped(postgresql_error("58030")),
    wrapped(postgresql_error("XX001")),
    FileMoved("moved"),
    OSError(errno.EIO, "input/output error"),
    DamagedFile("issuer.jwk is damaged"),
)
FULL = (
    wrapped(sqlite_error(sqlite3.SQLITE_FULL)),
    wrapped(sqlite_error(sqlite3.SQLITE_READONLY)),
    wrapped(postgresql_error("53100")),
    *(OSError(number, "full") for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS)),
)
OTHERS = (
    wrapped(sqlite_error(sqlite3.SQLITE_CONSTRAINT)),
    ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
    TimeoutError(errno.ETIMEDOUT, "timed out"),
    FileNotFoundError(errno.ENOENT, "not found"),
    OSError(errno.EMFILE, "too many open files"),
    ValueError("another error"),
)


def answer(error: Exception) -> tuple[int, str]:
    platform = SimpleNamespace(request_metrics=RequestMetrics())
    scope = {"frost.request_id": "1", "app": SimpleNamespace(state=SimpleNamespace(platform=platform))}
    response = unexpected_error(scope, error)
    return response.status_code, response.code


def test_only_errors_of_the_storage_are_storage_failures() -> None:
    for error in FAILURES:
        assert (is_storage_failure(error), is_read_only_or_full(error)) == (True, False), error
        assert answer(error) == (503, "STORAGE_FAILED")
        # A job waits for the storage, and does not fail.
        assert is_unreachable(error)
    for error in FULL:
        assert (is_storage_failure(error), is_read_only_or_full(error)) == (False, True), error
        assert answer(error) == (503, "SERVICE_UNAVAILABLE")
    for error in OTHERS:
        assert (is_storage_failure(error), is_read_only_or_full(error), is_transient(error)) == (False,) * 3, error
        assert answer(error) == (500, "INTERNAL_ERROR")


OUT_OF_DESCRIPTORS = """
import os, resource, sys
from sqlalchemy.exc import OperationalError
from service.db.dialect import is_transient, is_unreachable
from service.db.engine import Database
from service.db.storage import is_storage_failure

database = Database(f"sqlite:///{sys.argv[1]}")
for is_full in (False, True):
    descriptors = []
    if is_full:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        try:
            while True:
                descriptors.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
    try:
        with database.read_committed() as connection:
            connection.exec_driver_sql("SELECT 1")
        print("read")
    except OperationalError as error:
        states = is_storage_failure(error), is_transient(error), is_unreachable(error), database.has_storage_failed
        for descriptor in descriptors:
            os.close(descriptor)
        print(error.orig.sqlite_errorname, states)
    database.engine.dispose()
"""


def test_a_process_with_too_many_open_files_is_no_failed_storage(tmp_path: Path, migrated_file: Path) -> None:
    shutil.copy(migrated_file, tmp_path / "platform.db")
    command = [sys.executable, "-c", OUT_OF_DESCRIPTORS, str(tmp_path / "platform.db")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines() == ["read", "SQLITE_CANTOPEN (False, True, True, False)"]


@pytest.mark.parametrize("make", [Path.unlink, lambda path: (path.unlink(), path.mkdir())])
def test_a_file_that_cannot_be_opened_is_failed_storage(
    database: Database, tmp_path: Path, make: Callable[[Path], object]
) -> None:
    error = sqlite_error(sqlite3.SQLITE_CANTOPEN)
    assert database.files is not None
    make(tmp_path / "platform.db")
    database.files.mark_openable(error)
    assert is_storage_failure(error)


# A file that is moved


@pytest.fixture
def database(tmp_path: Path, migrated_file: Path) -> Iterator[Database]:
    shutil.copy(migrated_file, tmp_path / "platform.db")
    with closing(Database(f"sqlite:///{tmp_path / 'platform.db'}")) as opened:
        execute(opened, insert(platform_state).values(name="world", value="test"))
        yield opened


def store(database: Database, name: str) -> None:
    execute(database, insert(platform_state).values(name=name, value=""))


def stored(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM platform_state")}


def move(path: Path) -> None:
    path.rename(path.with_name("moved"))


def replace_by_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


@pytest.mark.parametrize("name", ["platform.db", "platform.db-wal"])
@pytest.mark.parametrize("change", [move, Path.unlink, replace_by_copy])
def test_no_change_is_acknowledged_into_a_file_that_is_not_in_place(
    database: Database, tmp_path: Path, name: str, change: Callable[[Path], None]
) -> None:
    store(database, "before")
    change(tmp_path / name)
    for number in range(2):
        with pytest.raises(OperationalError, match="was moved, deleted or replaced"):
            store(database, f"after {number}")
    assert (tmp_path / name).exists() == (change is replace_by_copy)
    assert monitoring.storage_state(database) == "moved"


def test_a_file_that_is_moved_during_the_commit_acknowledges_nothing(database: Database, tmp_path: Path) -> None:
    moved: list[str] = []

    def move_at_commit(statement: str) -> None:
        if statement == "COMMIT" and not moved:
            moved.append(statement)
            move(tmp_path / "platform.db")

    event.listen(database.engine, "connect", lambda driver, _: driver.set_trace_callback(move_at_commit))
    database.engine.dispose()
    with pytest.raises(OperationalError, match="was moved, deleted or replaced"):
        store(database, "during")
    assert moved


def test_a_file_that_is_put_back_takes_changes_again(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "platform.db"
    move(path)
    with pytest.raises(OperationalError):
        store(database, "refused")
    (tmp_path / "moved").rename(path)
    store(database, "accepted")
    assert stored(path) == {"world", "accepted"}


def test_no_connection_creates_another_file(database: Database, tmp_path: Path) -> None:
    with database.engine.connect():
        move(tmp_path / "platform.db")
        with pytest.raises(OperationalError, match="was moved"), database.engine.connect():
            pass
    assert not (tmp_path / "platform.db").exists()


def test_all_connections_may_be_closed_and_opened_again(database: Database) -> None:
    for number in range(3):
        database.engine.dispose()
        store(database, str(number))
    assert monitoring.storage_state(database) == "ok"


# Errors of the disk


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[tuple[Inside, list[str]]]:
    """A platform, and the statements that fail with an I/O error: those that begin with one of these words."""
    words: list[str] = []
    with closing(Inside(tmp_path, None, "empty")) as inside:

        def fail(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
            if any(statement.startswith(word) for word in words):
                raise sqlite_error(sqlite3.SQLITE_CORRUPT if "DAMAGED" in words else sqlite3.SQLITE_IOERR_FSYNC)

        event.listen(inside.platform.database.engine, "before_cursor_execute", fail)
        yield inside, words


def test_the_platform_is_not_ready_until_a_write_succeeds(failing: tuple[Inside, list[str]]) -> None:
    inside, words = failing
    platform = inside.platform
    assert monitoring.database_check(platform) == "ok"
    words.append("UPDATE")
    change = update(platform_state).values(value="x").where(platform_state.c.name == "none")
    with pytest.raises(OperationalError):
        execute(platform.database, change)
    assert platform.database.has_storage_failed
    # Also before the next check, and when a check can write nothing.
    assert monitoring.with_current_state(platform, {"database": "ok"})["database"] == "failed"
    assert [monitoring.database_check(platform) for _ in range(2)] == ["failed", "failed"]
    words.clear()
    assert monitoring.with_current_state(platform, {"database": "ok"})["database"] == "failed"
    assert monitoring.database_check(platform) == "ok"
    assert monitoring.with_current_state(platform, {"database": "ok"})["database"] == "ok"


def test_damaged_data_is_reported_for_a_time_though_other_writes_succeed(
    failing: tuple[Inside, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, words = failing
    platform, now = inside.platform, [1_000.0]
    monkeypatch.setattr(engine, "time", SimpleNamespace(monotonic=lambda: now[0]))
    words += ["UPDATE", "DAMAGED"]
    for _ in range(2):
        with pytest.raises(OperationalError):
            execute(platform.database, update(platform_state).values(value="x").where(platform_state.c.name == "none"))
        now[0] += engine.DAMAGE_SECONDS - 1
    words.clear()
    assert [monitoring.database_check(platform) for _ in range(2)] == ["failed", "failed"]
    now[0] += 1
    assert monitoring.database_check(platform) == "ok"


def test_a_failed_connection_of_the_reader_is_no_internal_error(tmp_path: Path) -> None:
    with closing(Inside(tmp_path, None, "empty")) as inside:
        secret = inside.stored_key()
        with inside.platform.database.engine.connect():
            (tmp_path / "platform.db").rename(tmp_path / "moved.db")
            response = inside.get("/api/v1/me", {"X-API-Key": secret})
        assert (response.status_code, response.json()["error"]["code"]) == (503, "STORAGE_FAILED")
        (tmp_path / "moved.db").rename(tmp_path / "platform.db")
        assert inside.get("/api/v1/me", {"X-API-Key": secret}).status_code == 403


def test_a_data_directory_that_is_gone_is_a_result_of_the_checks(
    failing: tuple[Inside, list[str]], tmp_path: Path
) -> None:
    inside, _ = failing
    tmp_path.rename(tmp_path.with_name("gone"))
    results = monitoring._run_checks(inside.platform)
    assert (results["database"], results["disk"]) == ("moved", "failed")
    tmp_path.with_name("gone").rename(tmp_path)
    assert monitoring._run_checks(inside.platform)["database"] == "ok"


# In a process


def check_of(running: Running, name: str) -> str:
    return str(running.get("/readyz").json()["checks"].get(name))


def test_a_running_platform_names_its_moved_database(own: Running) -> None:
    path = own.folder / "platform.db"

    def rename(name: str) -> Any:
        return own.ask("PATCH", TENANT, as_=OWNER, body={"displayName": name})

    assert rename("Before").status == 200
    move(path)
    refused = rename("After")
    assert (refused.status, refused.json()["error"]["code"]) == (503, "STORAGE_FAILED")
    ready = own.get("/readyz")
    assert (ready.status, ready.json()["checks"]["database"]) == (503, "moved")
    assert own.get("/healthz").status == 200
    (own.folder / "moved").rename(path)
    assert rename("Back").status == 200
    until(lambda: own.get("/readyz").status == 200)


def test_a_sign_in_with_a_key_that_was_damaged_after_the_start_is_no_internal_error(own: Running) -> None:
    # Not used yet, so not in memory.
    (own.folder / "issuer.jwk").write_text("{}")
    refused = own.get("/issuer/jwks")
    assert (refused.status, refused.json()["error"]["code"]) == (503, "STORAGE_FAILED")
    until(lambda: check_of(own, "issuer") == "damaged")
    (own.folder / "issuer.jwk").unlink()
    assert own.get("/issuer/jwks").status == 200
    until(lambda: own.get("/readyz").status == 200)


def test_a_queue_that_was_damaged_is_not_ready(failing: tuple[Inside, list[str]], tmp_path: Path) -> None:
    inside, _ = failing
    assert monitoring._run_checks(inside.platform)["operations"] == "ok"
    (tmp_path / "workflows.db").write_bytes(b"no database" * 1000)
    assert monitoring._run_checks(inside.platform)["operations"] == "damaged"
    (tmp_path / "workflows.db").unlink()
    assert monitoring._run_checks(inside.platform)["operations"] == "ok"


def test_operations_go_on_after_the_queue_is_removed() -> None:
    with Live(None) as live:
        owner = live.owner()
        path = live.folder / "workflows.db"

        def is_active(name: str) -> None:
            tenant = live.create_tenant(owner, name)
            until(lambda: live.read(f"/api/v1/tenants/{tenant['id']}", owner)["status"] == "active")

        is_active("First")
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        is_active("Second")
        until(lambda: live.get("/readyz").status == 200)
