"""Every page is read along an index from its cursor on."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, event

from service.activity import queries as activity_store
from service.activity.queries import ActivityFilter
from service.db.engine import Database, Record
from service.iam import group_queries, policy_queries
from service.principals import queries as principals_queries

Read = Callable[[Connection], Sequence[Record]]

TENANT, PARENT, AT = str(uuid4()), str(uuid4()), datetime(2026, 1, 1, tzinfo=UTC)
MADE, MEMBER = (AT, str(uuid4())), (AT, "workload_identity", str(uuid4()))

PAGES: tuple[tuple[str, int, Read], ...] = (
    (
        "ix_policy_attachments_attached",
        3,
        lambda connection: policy_queries.attachment_page(connection, TENANT, PARENT, None, MEMBER, 50),
    ),
    ("ix_group_members_added", 3, lambda connection: group_queries.member_page(connection, TENANT, PARENT, MEMBER, 50)),
    ("ix_policies_tenant_made", 2, lambda connection: policy_queries.page(connection, TENANT, None, None, MADE, 50)),
    ("ix_groups_tenant_made", 2, lambda connection: group_queries.page(connection, TENANT, None, MADE, 50)),
    (
        "ix_workload_identities_tenant_made",
        2,
        lambda connection: principals_queries.identity_page(connection, TENANT, MADE, 50),
    ),
    # SQLite keeps the number of the row beside every index, and looks for it after the instant.
    (
        "ix_audit_log_tenant_at",
        1,
        lambda connection: activity_store.of_tenant(connection, TENANT, PARENT, ActivityFilter(), (AT, 7), 50),
    ),
    (
        "ix_audit_log_organization_at",
        1,
        lambda connection: activity_store.of_organization(connection, PARENT, ActivityFilter(), (AT, 7), 50),
    ),
)


def plan_of(database: Database, read: Read) -> list[str]:
    """Return the steps of the query plan."""
    executed: list[tuple[str, Any]] = []

    def record(*arguments: Any) -> None:
        executed.append(arguments[2:4])

    with database.read() as connection:
        event.listen(database.engine, "before_cursor_execute", record)
        read(connection)
        event.remove(database.engine, "before_cursor_execute", record)
        ((statement, parameters),) = [one for one in executed if one[0].startswith("SELECT")]
        if database.kind == "sqlite":
            return [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
        # Of tables without rows every other plan is as good.
        for other in ("sort", "seqscan", "bitmapscan"):
            connection.exec_driver_sql(f"SET LOCAL enable_{other} = off")
        return list(connection.exec_driver_sql(f"EXPLAIN {statement}", parameters).scalars())


def test_a_page_is_read_along_an_index_from_its_cursor_on(database: Database) -> None:
    for index, columns, read in PAGES:
        plan = plan_of(database, read)
        assert not [step for step in plan if "TEMP B-TREE" in step or re.search(r"\bSort\b", step)]
        if database.kind == "sqlite":
            (step,) = [step for step in plan if index in step]
            first, *more = re.search(r"\((\w+)=\? AND \(?([^()<>]*)\)?[<>]\(?([^()]*)\)?\)", step).groups()  # type: ignore[union-attr]
            assert first.endswith("_id")
            assert [len(one.split(",")) for one in more] == [columns, columns]
            assert not [step for step in plan if step.startswith("SCAN ")]
        else:
            place = next(number for number, step in enumerate(plan) if f"using {index} " in step)
            assert "Index Cond" in plan[place + 1]
            assert "ROW(" in plan[place + 1]
            scans = [number for number, step in enumerate(plan) if " Scan " in step]
            assert scans
            assert not [plan[number] for number in scans if "Cond:" not in plan[number + 1]]
