"""What a principal stands on, read from the database in one transaction: role, scopes, and the policies that count.

A standing names everything its decisions depend on (policies by version, authors by their role now), so it is at the
same time the stamp a compiled engine is kept under: nothing else has to be invalidated. policy language: Meaning
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Select, and_, or_, select

from service.db.engine import portions
from service.db.tables import (
    group_members,
    membership_tenants,
    memberships,
    policies,
    policy_attachments,
    tenants,
    users,
)

PrincipalKind = Literal["api_key", "workload_identity", "user"]


@dataclass(frozen=True, slots=True)
class Held:
    """A policy that counts for a principal, in its present version, and the role its author has in the tenant now."""

    policy_id: str
    version: int
    author_role: str | None


@dataclass(frozen=True, slots=True)
class Standing:
    """What decisions about one principal rest on.

    `role` is the person's, or that of a key's creator; None is no right at all. `scopes` None: none are asked for (a
    person, a workload identity without scopes).
    """

    kind: PrincipalKind
    id: str
    tenant_id: str
    organization_id: str
    role: str | None
    scopes: tuple[str, ...] | None
    policies: tuple[Held, ...] = ()


def reaching() -> ColumnElement[bool]:
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
        reaching(),
    )


def roles_in(connection: Connection, tenant_id: str) -> dict[str, str]:
    """The role of everybody who may enter a tenant, by user id."""
    rows = connection.execute(_ROLES.where(tenants.c.id == tenant_id))
    return {row.user_id: row.role for row in rows}


def role_in(connection: Connection, tenant_id: str, user_id: str | None) -> str | None:
    """The role one person has in a tenant now; None when they may not enter it."""
    return connection.scalar(
        _ROLES.where(tenants.c.id == tenant_id, memberships.c.user_id == user_id).with_only_columns(memberships.c.role)
    )


def organization_of(connection: Connection, tenant_id: str) -> str:
    """The organization that owns a tenant."""
    return str(connection.scalar(select(tenants.c.organization_id).where(tenants.c.id == tenant_id)))


def policies_of(connection: Connection, tenant_id: str, kind: str, principal_id: str) -> tuple[Held, ...]:
    """The policies attached to a principal, directly or through a group, each once."""
    rows = connection.execute(
        _HELD.where(
            policies.c.tenant_id == tenant_id,
            or_(
                policies.c.id.in_(_attached(tenant_id, kind).where(policy_attachments.c.attachee_id == principal_id)),
                policies.c.id.in_(
                    _through_groups(tenant_id).where(
                        group_members.c.member_type == kind, group_members.c.member_id == principal_id
                    )
                ),
            ),
        ).order_by(policies.c.id)
    )
    return tuple(Held(row.id, row.version, row.role) for row in rows)


def held_by_all(connection: Connection, tenant_id: str) -> Mapping[tuple[str, str], tuple[Held, ...]]:
    """The same for every key and identity of a tenant that has any, in three statements."""
    held = {
        row.id: Held(row.id, row.version, row.role)
        for row in connection.execute(_HELD.where(policies.c.tenant_id == tenant_id))
    }
    found: dict[tuple[str, str], set[str]] = {}
    for row in connection.execute(
        select(
            policy_attachments.c.policy_id, policy_attachments.c.attachee_type, policy_attachments.c.attachee_id
        ).where(policy_attachments.c.tenant_id == tenant_id, policy_attachments.c.attachee_type != "group")
    ):
        found.setdefault((row.attachee_type, row.attachee_id), set()).add(row.policy_id)
    members = _through_groups(tenant_id).add_columns(group_members.c.member_type, group_members.c.member_id)
    for row in connection.execute(members):
        found.setdefault((row.member_type, row.member_id), set()).add(row.policy_id)
    return {principal: tuple(held[policy] for policy in sorted(names)) for principal, names in found.items()}


def documents(connection: Connection, tenant_id: str, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Name and canonical text of some policies, by id."""
    query = select(policies.c.id, policies.c.name, policies.c.document).where(policies.c.tenant_id == tenant_id)
    return {
        row.id: (row.name, row.document)
        for some in portions(ids)
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


def _attached(tenant_id: str, kind: str) -> Select[Any]:
    return select(policy_attachments.c.policy_id).where(
        policy_attachments.c.tenant_id == tenant_id, policy_attachments.c.attachee_type == kind
    )


def _through_groups(tenant_id: str) -> Select[Any]:
    return _attached(tenant_id, "group").join(
        group_members,
        and_(
            group_members.c.group_id == policy_attachments.c.attachee_id,
            group_members.c.tenant_id == policy_attachments.c.tenant_id,
        ),
    )
