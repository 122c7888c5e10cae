"""Reads and writes policies, their history and attachments. Queries are limited to a tenant or its policy."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Integer, String, bindparam, func, select, update
from sqlalchemy.sql.dml import ReturningUpdate

from client.models.validation import name_key
from service.db.engine import Record
from service.db.prepared import prepared
from service.db.statements import (
    KeysetKey,
    add_row,
    after_key,
    chunks,
    delete_rows,
    has_row,
    named_parameters,
    records,
)
from service.db.tables import group_members, memberships, policies, policy_attachments, policy_versions, tenants, users
from service.iam.group_queries import MAX_COMPARED_NAMES, with_names
from service.principals.grants import entitled_membership

_ATTACHMENTS = (
    select(func.count())
    .select_from(policy_attachments)
    .where(policy_attachments.c.policy_id == policies.c.id)
    .scalar_subquery()
)
# A policy with its author and the author's current role in the tenant; without a role the policy is orphaned.
_POLICY = (
    select(
        policies,
        users.c.name.label("author_name"),
        users.c.email.label("author_email"),
        memberships.c.role.label("author_role"),
        _ATTACHMENTS.label("attachment_count"),
    )
    .select_from(policies)
    .join(users, users.c.id == policies.c.authored_by)
    .join(tenants, tenants.c.id == policies.c.tenant_id)
    .outerjoin(memberships, entitled_membership())
)

_ONE = prepared(_POLICY.where(policies.c.tenant_id == bindparam("tenant"), policies.c.id == bindparam("policy")))


def get(connection: Connection, tenant_id: str, policy_id: str) -> Record | None:
    """Return a policy with its author and `attachment_count`."""
    return connection.execute(_ONE, {"tenant": tenant_id, "policy": policy_id}).one_or_none()


def summaries(connection: Connection, tenant_id: str, ids: Sequence[str]) -> list[Record]:
    """Return policies in order of id: `id`, `name`, `version`, `authored_by`, `author_role`."""
    query = _POLICY.where(policies.c.tenant_id == tenant_id).with_only_columns(
        policies.c.id,
        policies.c.name,
        policies.c.version,
        policies.c.authored_by,
        memberships.c.role.label("author_role"),
    )
    rows: list[Record] = []
    for batch in chunks(sorted(ids)):
        rows += connection.execute(query.where(policies.c.id.in_(batch)).order_by(policies.c.id))
    return rows


MAX_SIMILAR_NAMES = 1_000
"""They are parameters of a statement."""


def similar_names(connection: Connection, tenant_id: str, name: str) -> Sequence[str]:
    """Return at most 1,000 names of policies that are easily confused with a name, itself included.

    As with groups, a limited number of names is compared, which does not hide an equal name.
    """
    key = name_key(name)
    query = select(policies.c.name).where(policies.c.tenant_id == tenant_id).distinct().order_by(policies.c.name)
    names = {name: None, **dict.fromkeys(connection.scalars(query.limit(MAX_COMPARED_NAMES)))}
    return [one for one in names if name_key(one) == key][:MAX_SIMILAR_NAMES]


def page(
    connection: Connection,
    tenant_id: str,
    attachee: tuple[str, str] | None,
    names: Sequence[str] | None,
    after: KeysetKey | None,
    limit: int,
) -> Sequence[Record]:
    """Return policies in order of creation, optionally filtered by attachee and names; up to `limit` + 1 rows."""
    query = _POLICY.where(policies.c.tenant_id == tenant_id)
    if names is not None:
        query = query.where(policies.c.name.in_(names))
    if attachee is not None:
        query = query.where(
            policies.c.id.in_(
                select(policy_attachments.c.policy_id).where(
                    policy_attachments.c.tenant_id == tenant_id,
                    policy_attachments.c.attachee_type == attachee[0],
                    policy_attachments.c.attachee_id == attachee[1],
                )
            )
        )
    order = (policies.c.created_at, policies.c.id)
    if after is not None:
        query = query.where(after_key(order, after))
    return list(records(connection, query.order_by(*order).limit(limit + 1)))


def add(connection: Connection, values: dict[str, Any], version: dict[str, Any]) -> None:
    """Write a new policy with the first entry of its history."""
    add_row(connection, policies, {**values, "version": 1})
    _remember(connection, values["tenant_id"], values["id"], 1, version)


def change(connection: Connection, before: Record, values: dict[str, Any], version: dict[str, Any]) -> Record:
    """Write the next version of a policy with its history. `before` and the result are rows of `get`."""
    number, author_id = before.version + 1, values["authored_by"]
    author: Any = before
    if author_id != before.authored_by:
        author = connection.execute(_AUTHOR, {"tenant": before.tenant_id, "user": author_id}).one()
    joined = {name: getattr(author, name) for name in ("author_name", "author_email", "author_role")}
    joined["attachment_count"] = before.attachment_count
    key = {"key_tenant": before.tenant_id, "key_policy": before.id}
    changed = {**values, "version": number}
    row = connection.execute(_update(tuple(changed)), {**changed, **joined, **key}).one()
    _remember(connection, before.tenant_id, before.id, number, version)
    return row


@cache
def _update(columns: tuple[str, ...]) -> ReturningUpdate[Any]:
    """Return an UPDATE that returns a row like `_ONE`, with the joined columns from parameters."""
    joined = [bindparam(name, type_=String).label(name) for name in ("author_name", "author_email", "author_role")]
    count = bindparam("attachment_count", type_=Integer).label("attachment_count")
    return prepared(
        update(policies)
        .where(policies.c.tenant_id == bindparam("key_tenant"), policies.c.id == bindparam("key_policy"))
        .values(named_parameters(policies, columns))
        .returning(policies, *joined, count)
    )


_AUTHOR = prepared(
    select(
        users.c.name.label("author_name"),
        users.c.email.label("author_email"),
        memberships.c.role.label("author_role"),
    )
    .select_from(users)
    .join(tenants, tenants.c.id == bindparam("tenant"))
    .outerjoin(memberships, entitled_membership())
    .where(users.c.id == bindparam("user"))
)


def _remember(connection: Connection, tenant_id: str, policy_id: str, number: int, version: dict[str, Any]) -> None:
    key = {"policy_id": policy_id, "tenant_id": tenant_id, "version": number}
    add_row(connection, policy_versions, {**key, **version})


def remove(connection: Connection, tenant_id: str, policy_id: str) -> None:
    for table in (policy_attachments, policy_versions):
        delete_rows(connection, table, {"policy_id": policy_id})
    delete_rows(connection, policies, {"tenant_id": tenant_id, "id": policy_id})


_VERSION = select(policy_versions, users.c.name.label("changed_by_name")).join(
    users, users.c.id == policy_versions.c.changed_by
)


_ENTRY = tuple(policy_versions.c[name] for name in ("version", "changed_by", "changed_at", "change", "changed"))


def version(connection: Connection, tenant_id: str, policy_id: str, number: int) -> Record | None:
    return connection.execute(
        _VERSION.where(
            policy_versions.c.tenant_id == tenant_id,
            policy_versions.c.policy_id == policy_id,
            policy_versions.c.version == number,
        )
    ).one_or_none()


def version_page(
    connection: Connection, tenant_id: str, policy_id: str, before: int | None, limit: int
) -> Sequence[Record]:
    """Return the history of a policy before a version, newest first, up to `limit` + 1 rows."""
    query = _VERSION.where(policy_versions.c.tenant_id == tenant_id, policy_versions.c.policy_id == policy_id)
    if before is not None:
        query = query.where(policy_versions.c.version < before)
    return list(records(connection, query.order_by(policy_versions.c.version.desc()).limit(limit + 1)))


def versions_after(connection: Connection, tenant_id: str, policy_id: str, number: int) -> Sequence[Record]:
    """Return up to 50 changes of a policy since a version, oldest first, without documents."""
    entries = _VERSION.with_only_columns(*_ENTRY, users.c.name.label("changed_by_name"))
    return connection.execute(
        entries.where(
            policy_versions.c.tenant_id == tenant_id,
            policy_versions.c.policy_id == policy_id,
            policy_versions.c.version > number,
        )
        .order_by(policy_versions.c.version)
        .limit(50)
    ).all()


def attachment_page(
    connection: Connection,
    tenant_id: str,
    policy_id: str,
    attachee: tuple[str, str] | None,
    after: KeysetKey | None,
    limit: int,
) -> Sequence[Record]:
    """Return the attachments of a policy in order of creation, up to `limit` + 1 rows."""
    query = with_names(
        select(policy_attachments),
        policy_attachments.c.tenant_id,
        policy_attachments.c.attachee_type,
        policy_attachments.c.attachee_id,
    ).where(policy_attachments.c.tenant_id == tenant_id, policy_attachments.c.policy_id == policy_id)
    if attachee is not None:
        query = query.where(
            policy_attachments.c.attachee_type == attachee[0], policy_attachments.c.attachee_id == attachee[1]
        )
    order = (policy_attachments.c.attached_at, policy_attachments.c.attachee_type, policy_attachments.c.attachee_id)
    if after is not None:
        query = query.where(after_key(order, after))
    return list(records(connection, query.order_by(*order).limit(limit + 1)))


def attached(connection: Connection, tenant_id: str, policy_id: str, kind: str, attachee_id: str) -> bool:
    return has_row(connection, policy_attachments, _attachment(tenant_id, policy_id, kind, attachee_id))


def attach(connection: Connection, values: dict[str, Any]) -> None:
    add_row(connection, policy_attachments, values)


def detach(connection: Connection, tenant_id: str, policy_id: str, kind: str, attachee_id: str) -> None:
    delete_rows(connection, policy_attachments, _attachment(tenant_id, policy_id, kind, attachee_id))


def _attachment(tenant_id: str, policy_id: str, kind: str, attachee_id: str) -> dict[str, str]:
    return {"tenant_id": tenant_id, "policy_id": policy_id, "attachee_type": kind, "attachee_id": attachee_id}


def attached_to(connection: Connection, tenant_id: str, kind: str, attachee_id: str) -> Sequence[Record]:
    """Return the policies attached directly: `id`, `name`, `document`."""
    return connection.execute(_ATTACHED_TO, {"tenant": tenant_id, "kind": kind, "attachee": attachee_id}).all()


_ATTACHED_TO = prepared(
    select(policies.c.id, policies.c.name, policies.c.document)
    .join(policy_attachments, policy_attachments.c.policy_id == policies.c.id)
    .where(
        policies.c.tenant_id == bindparam("tenant"),
        policy_attachments.c.attachee_type == bindparam("kind"),
        policy_attachments.c.attachee_id == bindparam("attachee"),
    )
    .order_by(policies.c.id)
)


def affected_principals(connection: Connection, tenant_id: str, policy_id: str) -> list[tuple[str, str]]:
    """Return the distinct keys and identities of a policy, direct or through a group, as (type, id)."""
    mine = (policy_attachments.c.tenant_id == tenant_id, policy_attachments.c.policy_id == policy_id)
    direct = select(policy_attachments.c.attachee_type, policy_attachments.c.attachee_id).where(
        *mine, policy_attachments.c.attachee_type != "group"
    )
    through = (
        select(group_members.c.member_type, group_members.c.member_id)
        .join(policy_attachments, policy_attachments.c.attachee_id == group_members.c.group_id)
        .where(*mine, policy_attachments.c.attachee_type == "group")
    )
    return sorted({(kind, identifier) for kind, identifier in connection.execute(direct.union(through))})
