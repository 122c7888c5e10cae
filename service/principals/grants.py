"""What a principal stands on, read from the database in one transaction: role, scopes, and the policies that count.

A standing names everything its decisions depend on (policies by version, authors by their role now), so it is at the
same time the stamp a compiled engine is kept under: nothing else has to be invalidated. policy language: Meaning
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import BindParameter, ColumnElement, Connection, Select, String, and_, bindparam, or_, select

from service.db.statements import chunks
from service.db.tables import (
    group_members,
    membership_tenants,
    memberships,
    policies,
    policy_attachments,
    tenants,
    users,
)

PrincipalType = Literal["api_key", "workload_identity", "user"]


@dataclass(frozen=True, slots=True)
class AppliedPolicy:
    """A policy that counts for a principal, in its present version, and the role its author has in the tenant now."""

    policy_id: str
    version: int
    author_role: str | None


@dataclass(frozen=True, slots=True)
class PrincipalGrants:
    """What decisions about one principal rest on.

    `role` is the person's, or that of a key's creator; None is no right at all. `scopes` None: none are asked for (a
    person, a workload identity without scopes).
    """

    kind: PrincipalType
    id: str
    tenant_id: str
    organization_id: str
    role: str | None
    scopes: tuple[str, ...] | None
    policies: tuple[AppliedPolicy, ...] = ()


def membership_covers_tenant() -> ColumnElement[bool]:
    """Whether the membership beside a tenant reaches it: a limited one counts only for its named tenants."""
    named = (
        select(membership_tenants.c.tenant_id)
        .where(membership_tenants.c.user_id == memberships.c.user_id, membership_tenants.c.tenant_id == tenants.c.id)
        .exists()
    )
    return or_(memberships.c.limited.is_(False), named)


def entitled_membership() -> ColumnElement[bool]:
    """A membership that counts in the tenant of the row, of a person who is still there.

    To be used over `tenants`, `users` and `memberships`.
    """
    return and_(
        memberships.c.user_id == users.c.id,
        memberships.c.organization_id == tenants.c.organization_id,
        users.c.deleted_at.is_(None),
        membership_covers_tenant(),
    )


def roles_in(connection: Connection, tenant_id: str) -> dict[str, str]:
    """The role of everybody who may enter a tenant, by user id."""
    rows = connection.execute(_ROLES.where(tenants.c.id == tenant_id))
    return {row.user_id: row.role for row in rows}


def role_in(connection: Connection, tenant_id: str, user_id: str | None) -> str | None:
    """The role one person has in a tenant now; None when they may not enter it."""
    return connection.scalar(_ROLE, {"tenant": tenant_id, "user": user_id})


def organization_id_of(connection: Connection, tenant_id: str) -> str:
    """The organization that owns a tenant."""
    return str(connection.scalar(_ORGANIZATION, {"tenant": tenant_id}))


def policies_for_principal(
    connection: Connection, tenant_id: str, kind: str, principal_id: str
) -> tuple[AppliedPolicy, ...]:
    """The policies attached to a principal, directly or through a group, each once."""
    rows = connection.execute(_HELD_BY, {"tenant": tenant_id, "kind": kind, "principal": principal_id})
    return tuple(AppliedPolicy(row.id, row.version, row.role) for row in rows)


def policies_for_all(connection: Connection, tenant_id: str) -> Mapping[tuple[str, str], tuple[AppliedPolicy, ...]]:
    """The same for every key and identity of a tenant that has any, in three statements."""
    held = {
        row.id: AppliedPolicy(row.id, row.version, row.role)
        for row in connection.execute(_HELD.where(policies.c.tenant_id == tenant_id))
    }
    found: dict[tuple[str, str], set[str]] = {}
    for row in connection.execute(
        select(
            policy_attachments.c.policy_id, policy_attachments.c.attachee_type, policy_attachments.c.attachee_id
        ).where(policy_attachments.c.tenant_id == tenant_id, policy_attachments.c.attachee_type != "group")
    ):
        found.setdefault((row.attachee_type, row.attachee_id), set()).add(row.policy_id)
    for row in connection.execute(_MEMBERS, {"tenant": tenant_id}):
        found.setdefault((row.member_type, row.member_id), set()).add(row.policy_id)
    return {principal: tuple(held[policy] for policy in sorted(names)) for principal, names in found.items()}


def policies_for(
    connection: Connection, tenant_id: str, kind: str, ids: Sequence[str]
) -> Mapping[str, tuple[AppliedPolicy, ...]]:
    """The same for some principals of a kind, by id: those that have any."""
    found: dict[str, set[str]] = {}
    for some in chunks(ids):
        direct = _attached(kind).add_columns(policy_attachments.c.attachee_id.label("principal_id"))
        through = _THROUGH_GROUPS.add_columns(group_members.c.member_id.label("principal_id"))
        for query in (
            direct.where(policy_attachments.c.attachee_id.in_(some)),
            through.where(group_members.c.member_type == kind, group_members.c.member_id.in_(some)),
        ):
            for row in connection.execute(query, {"tenant": tenant_id}):
                found.setdefault(row.principal_id, set()).add(row.policy_id)
    named = sorted(set().union(*found.values()))
    held = {
        row.id: AppliedPolicy(row.id, row.version, row.role)
        for some in chunks(named)
        for row in connection.execute(_HELD.where(policies.c.tenant_id == tenant_id, policies.c.id.in_(some)))
    }
    return {one: tuple(held[policy] for policy in sorted(names)) for one, names in found.items()}


def policy_documents(connection: Connection, tenant_id: str, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Name and canonical text of some policies, by id."""
    query = select(policies.c.id, policies.c.name, policies.c.document).where(policies.c.tenant_id == tenant_id)
    return {
        row.id: (row.name, row.document)
        for some in chunks(ids)
        for row in connection.execute(query.where(policies.c.id.in_(some)))
    }


_ROLES = (
    select(memberships.c.user_id, memberships.c.role)
    .select_from(users)
    .join(memberships, memberships.c.user_id == users.c.id)
    .join(tenants, entitled_membership())
)

# A policy with the role its author has in the policy's tenant now: none for somebody who left or may not enter it.
_HELD = (
    select(policies.c.id, policies.c.version, memberships.c.role)
    .select_from(policies)
    .join(tenants, tenants.c.id == policies.c.tenant_id)
    .join(users, users.c.id == policies.c.authored_by)
    .outerjoin(memberships, entitled_membership())
)


def _attached(kind: str | BindParameter[str]) -> Select[Any]:
    return select(policy_attachments.c.policy_id).where(
        policy_attachments.c.tenant_id == _TENANT, policy_attachments.c.attachee_type == kind
    )


# Asked at every request, so made once: making a statement costs as much as running it.
_TENANT = bindparam("tenant", type_=String)
_KIND = bindparam("kind", type_=String)
_PRINCIPAL = bindparam("principal", type_=String)
_ROLE = _ROLES.where(
    tenants.c.id == _TENANT, memberships.c.user_id == bindparam("user", type_=String)
).with_only_columns(memberships.c.role)
_ORGANIZATION = select(tenants.c.organization_id).where(tenants.c.id == _TENANT)
_THROUGH_GROUPS = _attached("group").join(
    group_members,
    and_(
        group_members.c.group_id == policy_attachments.c.attachee_id,
        group_members.c.tenant_id == policy_attachments.c.tenant_id,
    ),
)
_MEMBERS = _THROUGH_GROUPS.add_columns(group_members.c.member_type, group_members.c.member_id)
_HELD_BY = _HELD.where(
    policies.c.tenant_id == _TENANT,
    or_(
        policies.c.id.in_(_attached(_KIND).where(policy_attachments.c.attachee_id == _PRINCIPAL)),
        policies.c.id.in_(
            _THROUGH_GROUPS.where(group_members.c.member_type == _KIND, group_members.c.member_id == _PRINCIPAL)
        ),
    ),
).order_by(policies.c.id)
