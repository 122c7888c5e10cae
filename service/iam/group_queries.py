"""Reads and writes groups and their members. Queries are limited to a tenant or its group."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, select

from client.models.validation import name_key
from service.audit.entries import AuditEvent
from service.db.dialect import lock_text
from service.db.engine import Record
from service.db.prepared import prepared
from service.db.statements import KeysetKey, add_row, after_key, delete_rows, has_row, records, update_row
from service.db.tables import api_keys, audit_log, group_members, groups, policy_attachments, workload_identities

MAX_MEMBERS = 200
"""Limit on members in a response with a whole group."""
MAX_COMPARED_NAMES = 10_000
"""Names of a tenant that a new name is compared with, other than for equality: the first ones."""


_MEMBERS = (
    select(func.count()).select_from(group_members).where(group_members.c.group_id == groups.c.id).scalar_subquery()
)
_POLICIES = (
    select(func.count())
    .select_from(policy_attachments)
    .where(
        # Without the tenant, databases read all attachments for each group.
        policy_attachments.c.tenant_id == groups.c.tenant_id,
        policy_attachments.c.attachee_type == "group",
        policy_attachments.c.attachee_id == groups.c.id,
    )
    .scalar_subquery()
)
_GROUP = select(groups, _MEMBERS.label("member_count"), _POLICIES.label("policy_count"))
_ONE = prepared(_GROUP.where(groups.c.tenant_id == bindparam("tenant"), groups.c.id == bindparam("group")))
_NAMED = prepared(
    select(groups.c.id).where(groups.c.tenant_id == bindparam("tenant"), groups.c.name == bindparam("name"))
)
_NAMES = prepared(
    select(groups.c.name)
    .where(groups.c.tenant_id == bindparam("tenant"))
    .order_by(groups.c.name)
    .limit(MAX_COMPARED_NAMES)
)
_FIRST_MEMBERS = prepared(
    select(group_members.c.member_type, group_members.c.member_id)
    .where(group_members.c.tenant_id == bindparam("tenant"), group_members.c.group_id == bindparam("group"))
    .order_by(group_members.c.added_at, group_members.c.member_type, group_members.c.member_id)
    .limit(MAX_MEMBERS)
)


def get(connection: Connection, tenant_id: str, group_id: str) -> Record | None:
    """Return a group with `member_count` and `policy_count`."""
    return connection.execute(_ONE, {"tenant": tenant_id, "group": group_id}).one_or_none()


def page(
    connection: Connection, tenant_id: str, member: tuple[str, str] | None, after: KeysetKey | None, limit: int
) -> Sequence[Record]:
    """Return groups in order of creation, optionally only those with a member; up to `limit` + 1 rows."""
    query = _GROUP.where(groups.c.tenant_id == tenant_id)
    if member is not None:
        query = query.where(
            groups.c.id.in_(
                select(group_members.c.group_id).where(
                    group_members.c.tenant_id == tenant_id,
                    group_members.c.member_type == member[0],
                    group_members.c.member_id == member[1],
                )
            )
        )
    order = (groups.c.created_at, groups.c.id)
    if after is not None:
        query = query.where(after_key(order, after))
    return list(records(connection, query.order_by(*order).limit(limit + 1)))


def named(connection: Connection, tenant_id: str, name: str) -> str | None:
    """Return the id of the group with a name."""
    group_id: str | None = connection.scalar(_NAMED, {"tenant": tenant_id, "name": name})
    return group_id


def compare_names(connection: Connection, tenant_id: str, name: str) -> Mapping[str, bool]:
    """Return the names of the tenant, and whether they are easily confused with a name; for `similar_name`.

    Call before the transaction of a change: 10,000 names take some 20 ms, in which no other change could run on SQLite.
    """
    key = name_key(name)
    return {one: name_key(one) == key for one in connection.scalars(_NAMES, {"tenant": tenant_id})}


def similar_name(
    connection: Connection, tenant_id: str, name: str, except_for: str | None, compared: Mapping[str, bool]
) -> str | None:
    """Return the name of another group that is easily confused with a name; None if there is none.

    The names come from the index of the unique names. Two transactions with such names wait for each other.

    Args:
        except_for: A name that does not count: that of the group to rename.
        compared: The result of `compare_names`. Names that are new since are compared here.
    """
    key = name_key(name)
    lock_text(connection, f"group {tenant_id} {key}")
    names = connection.scalars(_NAMES, {"tenant": tenant_id})

    def is_similar(other: str) -> bool:
        is_known = compared.get(other)
        return name_key(other) == key if is_known is None else is_known

    return next((one for one in names if one != except_for and is_similar(one)), None)


def add(connection: Connection, values: dict[str, Any]) -> None:
    add_row(connection, groups, {**values, "version": 1})


def change(connection: Connection, before: Record, values: dict[str, Any], at: datetime) -> None:
    """Write the next version of a group; `before` is a row of `get`."""
    update_row(connection, groups, {"id": before.id}, {**values, "version": before.version + 1, "updated_at": at})


def texts_at(connection: Connection, group: Record, version: int) -> dict[str, str]:
    """Return the former `name` and `description` of a group if they changed since a version.

    Groups have no history, but the audit log has the former values for each version.
    """
    entries = connection.scalars(
        select(audit_log.c.details)
        .where(
            audit_log.c.tenant_id == group.tenant_id,
            audit_log.c.target == f"group:{group.id}",
            audit_log.c.operation == AuditEvent.GROUP_UPDATE.value,
            audit_log.c.outcome == "done",
        )
        .order_by(audit_log.c.id.desc())
        .limit(max(group.version - version, 0))
    )
    return {member: change["from"] for details in entries for member, change in details.items()}


def remove(connection: Connection, tenant_id: str, group_id: str) -> None:
    delete_rows(connection, group_members, {"group_id": group_id})
    of_group = {"tenant_id": tenant_id, "attachee_type": "group", "attachee_id": group_id}
    delete_rows(connection, policy_attachments, of_group)
    delete_rows(connection, groups, {"tenant_id": tenant_id, "id": group_id})


def members(connection: Connection, group_id: str) -> list[tuple[str, str]]:
    """Return all members as (type, id)."""
    rows = connection.execute(
        select(group_members.c.member_type, group_members.c.member_id).where(group_members.c.group_id == group_id)
    )
    return [(row.member_type, row.member_id) for row in rows]


def first_members(connection: Connection, tenant_id: str, group_id: str) -> list[tuple[str, str]]:
    """Return the first `MAX_MEMBERS` members as (type, id), in order of addition."""
    rows = connection.execute(_FIRST_MEMBERS, {"tenant": tenant_id, "group": group_id})
    return [(row.member_type, row.member_id) for row in rows]


def is_member(connection: Connection, group_id: str, kind: str, member_id: str) -> bool:
    return has_row(connection, group_members, {"group_id": group_id, "member_type": kind, "member_id": member_id})


def member_page(
    connection: Connection, tenant_id: str, group_id: str, after: KeysetKey | None, limit: int
) -> Sequence[Record]:
    """Return members in order of addition, up to `limit` + 1 rows."""
    query = with_names(
        select(group_members), group_members.c.tenant_id, group_members.c.member_type, group_members.c.member_id
    ).where(group_members.c.tenant_id == tenant_id, group_members.c.group_id == group_id)
    order = (group_members.c.added_at, group_members.c.member_type, group_members.c.member_id)
    if after is not None:
        query = query.where(after_key(order, after))
    return list(records(connection, query.order_by(*order).limit(limit + 1)))


def add_member(connection: Connection, values: dict[str, Any]) -> bool:
    """Return False for an existing member. Call it inside `change`."""
    is_old = is_member(connection, values["group_id"], values["member_type"], values["member_id"])
    if not is_old:
        add_row(connection, group_members, values)
    return not is_old


def remove_member(connection: Connection, tenant_id: str, group_id: str, kind: str, member_id: str) -> None:
    member = {"group_id": group_id, "member_type": kind, "member_id": member_id}
    delete_rows(connection, group_members, {"tenant_id": tenant_id, **member})


def with_names(query: Select[Any], tenant: Any, kind: Any, identifier: Any) -> Select[Any]:
    """Add `principal_name` to rows about keys, groups and identities."""
    identity = workload_identities.c.namespace + "/" + workload_identities.c.service_account
    return query.add_columns(
        func.coalesce(
            select(api_keys.c.name)
            .where(kind == "api_key", api_keys.c.id == identifier, api_keys.c.tenant_id == tenant)
            .scalar_subquery(),
            select(identity)
            .where(
                kind == "workload_identity",
                workload_identities.c.id == identifier,
                workload_identities.c.tenant_id == tenant,
            )
            .scalar_subquery(),
            select(groups.c.name)
            .where(kind == "group", groups.c.id == identifier, groups.c.tenant_id == tenant)
            .scalar_subquery(),
        ).label("principal_name")
    )
