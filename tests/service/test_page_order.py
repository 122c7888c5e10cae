"""Every page is read along an index from its cursor on."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import event

from service.activity import queries as activity_store
from service.activity.queries import ActivityFilter
from service.db.engine import Database, Record
from service.iam import group_queries, policy_queries
from service.principals import queries as principals_queries

Page = Callable[..., Sequence[Record]]

TENANT, PARENT, AT = str(uuid4()), str(uuid4()), datetime(2026, 1, 1, tzinfo=UTC)
MADE, MEMBER = (AT, str(uuid4())), (AT, "workload_identity", str(uuid4()))

PAGES: tuple[tuple[str, int, Page, tuple[Any, ...]], ...] = (
    ("ix_policy_attachments_attached", 3, policy_queries.attachment_page, (TENANT, PARENT, None, MEMBER, 50)),
    ("ix_group_members_added", 3, group_queries.member_page, (TENANT, PARENT, MEMBER, 50)),
    ("ix_policies_tenant_made", 2, policy_queries.page, (TENANT, None, None, MADE, 50)),
    ("ix_groups_tenant_made", 2, group_queries.page, (TENANT, None, MADE, 50)),
    ("ix_workload_identities_tenant_made", 2, principals_queries.identity_page, (TENANT, MADE, 50)),
    # SQLite keeps the number of the row beside every index, and looks for it after the instant.
    ("ix_audit_log_tenant_at", 1, activity_store.of_tenant, (TENANT, PARENT, ActivityFilter(), (AT, 7), 50)),
    ("ix_audit_log_organization_at", 1, activity_store.of_organization, (PARENT, ActivityFilter(), (AT, 7), 50)),
)
"""Index, number of its columns in a cursor, and the query of a page with its arguments."""


def plan_of(database: Database, page: Page, arguments: tuple[Any, ...]) -> list[str]:
    """Return the steps of the query plan."""
    executed: list[tuple[str, Any]] = []

    def record(*noted: Any) -> None:
        executed.append(noted[2:4])

    with database.read() as connection:
        event.listen(database.engine, "before_cursor_execute", record)
        page(connection, *arguments)
        event.remove(database.engine, "before_cursor_execute", record)
        ((statement, parameters),) = [one for one in executed if one[0].startswith("SELECT")]
        if database.kind == "sqlite":
            return [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
        # Of tables without rows every other plan is as good.
        for other in ("sort", "seqscan", "bitmapscan"):
            connection.exec_driver_sql(f"SET LOCAL enable_{other} = off")
        return list(connection.exec_driver_sql(f"EXPLAIN {statement}", parameters).scalars())


def test_a_page_is_read_along_an_index_from_its_cursor_on(database: Database) -> None:
    for index, columns, page, arguments in PAGES:
        plan = plan_of(database, page, arguments)
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
