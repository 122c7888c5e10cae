"""Rows that name a group, a policy, a key or an identity that does not exist."""

from collections.abc import Iterator

from sqlalchemy import Connection, and_, select

from service.db.engine import Database
from service.db.tables import (
    api_keys,
    group_members,
    groups,
    policies,
    policy_attachments,
    policy_versions,
    workload_identities,
)

PRINCIPALS = {"api_key": api_keys, "workload_identity": workload_identities, "group": groups}


def dangling(database: Database) -> list[str]:
    with database.read() as connection:
        return list(_dangling(connection))


def _dangling(connection: Connection) -> Iterator[str]:
    for column, home in (
        (group_members.c.group_id, groups),
        (policy_attachments.c.policy_id, policies),
        (policy_versions.c.policy_id, policies),
    ):
        query = select(column).where(column.not_in(select(home.c.id)))
        yield from (f"{column.table.name}: {identifier}" for identifier in connection.scalars(query))
    for kind, home in PRINCIPALS.items():
        for column, column_of_kind in (
            (group_members.c.member_id, group_members.c.member_type),
            (policy_attachments.c.attachee_id, policy_attachments.c.attachee_type),
        ):
            query = select(column).where(and_(column_of_kind == kind, column.not_in(select(home.c.id))))
            yield from (f"{column.table.name}: {kind} {identifier}" for identifier in connection.scalars(query))
