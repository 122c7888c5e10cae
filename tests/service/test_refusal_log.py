"""Repeated refusals of a principal are one counted audit entry a minute."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Connection, event, select

from client.tables.activity import details_text
from service.audit.entries import AuditEvent, Refusal, RefusalLog
from service.audit.seals import key_of
from service.audit.verification import verify
from service.clock import FixedClock
from service.db.batch_writer import BatchWriter
from service.db.engine import Database
from service.db.tables import audit_log
from service.principal import Principal
from tests.people import MEMBER, OWNER, STAGING
from tests.service.audited import SECRET
from tests.service.queries import fetch
from tests.service.running import Running
from tests.waiting import until

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
RENAME = Refusal(AuditEvent.TENANT_RENAME, "/api/v1/tenants/t", 403, "PERMISSION_DENIED", None, "t")


def principal(request_id: str = "r", **members: Any) -> Principal:
    return Principal(kind="api_key", request_id=request_id, user_id="u", **({"key_id": "k"} | members))


def belongs_to(
    _: Connection, __: Principal, organization_id: str | None, tenant_id: str | None
) -> tuple[str | None, str | None]:
    return organization_id, tenant_id


def entries(database: Database) -> list[tuple[str, dict[str, Any]]]:
    """Return the request id and the details of all entries, oldest first."""
    query = select(audit_log.c.request_id, audit_log.c.details).order_by(audit_log.c.id)
    return [(row.request_id, row.details) for row in fetch(database, query)]


def repeated(database: Database) -> list[int]:
    """Return the number of refusals that each entry counts."""
    return [details.get("repeated", 1) for _, details in entries(database)]


def record(log: RefusalLog, times: int = 1) -> None:
    for _ in range(times):
        log.record(principal(), RENAME)


@pytest.fixture
def log(database: Database) -> RefusalLog:
    return RefusalLog(database, FixedClock(NOW), belongs_to)


def test_the_first_is_an_entry_at_once_and_the_others_are_one(database: Database, log: RefusalLog) -> None:
    for number in range(5):
        log.record(principal(f"r{number}"), RENAME)
    refused = {"status": 403, "code": "PERMISSION_DENIED"}
    assert entries(database) == [("r0", refused)]
    log.flush()
    assert entries(database) == [("r0", refused), ("r4", {**refused, "repeated": 4})]
    log.flush()
    assert len(entries(database)) == 2
    # Counts are written at the stop, and later refusals one by one.
    record(log, 3)
    log.close()
    assert repeated(database) == [1, 4, 1, 2]
    record(log, 2)
    assert repeated(database) == [1, 4, 1, 2, 1, 1]


def test_different_refusals_are_entries_of_their_own(database: Database, log: RefusalLog) -> None:
    others = [
        (principal(key_id="other"), RENAME),
        (principal(key_id=None, session_id="s"), RENAME),
        *((principal(), replace(RENAME, event=AuditEvent.TENANT_CREATE)), (principal(), replace(RENAME, target="/o"))),
        *((principal(), replace(RENAME, status=404)), (principal(), replace(RENAME, code="SESSION_REQUIRED"))),
    ]
    for of, refusal in [(principal(), RENAME), *others]:
        log.record(of, refusal)
    assert repeated(database) == [1] * 7


def test_while_a_refusal_is_repeated_each_minute_has_one_entry(database: Database, log: RefusalLog) -> None:
    for _ in range(3):
        record(log, 2)
        log.flush()
    assert repeated(database) == [1, 1, 2, 2]
    # One within a minute of the last is counted; after a minute without one it is the first again.
    record(log)
    log.flush()
    log.flush()
    assert repeated(database) == [1, 1, 2, 2, 1]
    record(log)
    assert repeated(database) == [1, 1, 2, 2, 1, 1]


def test_counts_are_written_in_time_without_a_further_refusal(database: Database, log: RefusalLog) -> None:
    writer = BatchWriter(database, (), [(log.flush, 0.05)], seconds=0.01)
    writer.start()
    for _ in range(2):
        record(log, 2)
        until(lambda: not log._counts)
    writer.stop()
    assert repeated(database) == [1, 1, 1, 1]


def test_no_refusal_is_lost_while_the_log_takes_no_entry(database: Database, log: RefusalLog) -> None:
    def fail(*arguments: Any) -> None:
        if arguments[2].startswith("INSERT INTO audit_log"):
            raise RuntimeError("the disk is full")

    event.listen(database.engine, "before_cursor_execute", fail)
    record(log, 2)
    log.flush()
    record(log)
    event.remove(database.engine, "before_cursor_execute", fail)
    assert repeated(database) == []
    log.flush()
    assert repeated(database) == [3]


def test_beyond_the_bound_of_counted_refusals_each_is_an_entry(database: Database) -> None:
    log = RefusalLog(database, FixedClock(NOW), belongs_to, max_counted=2)
    for key_id in ("a", "b", "c", "a", "c"):
        log.record(principal(key_id=key_id), RENAME)
    log.flush()
    assert repeated(database) == [1, 1, 1, 1, 1]
    assert len(log._counts) == 2


def test_concurrent_refusals_are_all_counted_and_the_chain_holds(database: Database, log: RefusalLog) -> None:
    def refuse(of: str) -> None:
        for _ in range(50):
            log.record(principal(key_id=of), RENAME)

    with ThreadPoolExecutor(4) as threads:
        refusing = threads.map(refuse, "aabb")
        log.flush()
        list(refusing)
    log.close()
    assert sum(repeated(database)) == 200
    with database.read() as connection:
        assert verify(connection, key_of(SECRET)).fault is None


def test_the_counted_entry_is_shown_as_the_others_are(own: Running) -> None:
    path = f"/api/v1/tenants/{STAGING}"
    for _ in range(4):
        assert own.ask("PATCH", path, as_=MEMBER, body={"displayName": "x"}).status == 403
    # Counts are written when the platform stops.
    own.stop()
    own.start()
    query = "?operation=tenant.rename&outcome=refused"
    shown = own.get(f"{path}/activity{query}", as_=OWNER).json()["entries"]
    assert [entry["details"].get("repeated") for entry in shown] == [3, None]
    differs = {"id": "", "at": "", "requestId": "", "details": {}}
    assert shown[0] | differs == shown[1] | differs
    assert details_text(shown[0]["details"]).endswith("repeated: 3")
