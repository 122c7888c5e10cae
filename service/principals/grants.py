"""The grants of principals: the tenants that they may enter, role, scopes and policies.

Grants identify policies by the digest of their text and authors by current role, so the cache of compiled policies
needs no invalidation.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from sqlalchemy import BindParameter, ColumnElement, Connection, Select, String, and_, bindparam, or_, select

from service.db.digests import DigestOf
from service.db.prepared import prepared
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
from service.principal import Principal

PrincipalType = Literal["api_key", "workload_identity", "user"]


def membership_covers_tenant() -> ColumnElement[bool]:
    """Return the condition that a membership covers a tenant: it is unlimited or names the tenant."""
    named = (
        select(membership_tenants.c.tenant_id)
        .where(membership_tenants.c.user_id == memberships.c.user_id, membership_tenants.c.tenant_id == tenants.c.id)
        .exists()
    )
    return or_(memberships.c.limited.is_(False), named)


def entitled_membership() -> ColumnElement[bool]:
    """Return the condition for a membership that entitles an existing person to a tenant."""
    return and_(
        memberships.c.user_id == users.c.id,
        memberships.c.organization_id == tenants.c.organization_id,
        users.c.deleted_at.is_(None),
        membership_covers_tenant(),
    )


def may_enter(principal: Principal) -> ColumnElement[bool]:
    """Return the condition for tenants that a person or key may enter, over `tenants` joined with `memberships`.

    A key may enter its own tenant while its creator may.
    """
    condition = and_(memberships.c.user_id == principal.user_id, membership_covers_tenant())
    return and_(condition, tenants.c.id == principal.tenant_id) if principal.tenant_id else condition


def still_entitled(
    connection: Connection, user_ids: Collection[str], tenant_ids: Collection[str]
) -> frozenset[tuple[str, str]]:
    """Return the pairs (person, tenant) of current entitlements."""
    rows = connection.execute(
        select(memberships.c.user_id, tenants.c.id)
        .join(memberships, memberships.c.organization_id == tenants.c.organization_id)
        .where(memberships.c.user_id.in_(user_ids), tenants.c.id.in_(tenant_ids), membership_covers_tenant())
    )
    return frozenset((user_id, tenant_id) for user_id, tenant_id in rows)


def enterable_tenant_ids(principal: Principal) -> Select[Any]:
    if principal.kind == "workload":
        return select(tenants.c.id).where(tenants.c.id == principal.tenant_id)
    return (
        select(tenants.c.id)
        .join(memberships, memberships.c.organization_id == tenants.c.organization_id)
        .where(may_enter(principal))
    )


@dataclass(frozen=True, slots=True)
class AppliedPolicy:
    """The current text of a principal's policy, by its digest, with its author's current role in the tenant."""

    policy_id: str
    name: str
    digest: str
    author_role: str | None


@dataclass(frozen=True, slots=True)
class PrincipalGrants:
    """The grants that decide about a principal.

    `role` is that of the person or the key's creator; without a role, only a workload identity has rights. `scopes` is
    None for a person and for a workload identity without scopes.
    """

    kind: PrincipalType
    id: str
    tenant_id: str
    organization_id: str
    role: str | None
    scopes: tuple[str, ...] | None
    policies: tuple[AppliedPolicy, ...] = ()

    @classmethod
    def of(
        cls,
        kind: PrincipalType,
        id: str,
        tenant_id: str,
        organization_id: str,
        role: str | None,
        scopes: Iterable[str],
        policies: tuple[AppliedPolicy, ...] = (),
    ) -> Self:
        """Return the grants that apply to a type of principal.

        Scopes and policies do not limit a person. A workload identity has no role.
        """
        if kind == "user":
            return cls(kind, id, tenant_id, organization_id, role, None)
        if kind == "api_key":
            return cls(kind, id, tenant_id, organization_id, role, tuple(scopes), policies)
        return cls(kind, id, tenant_id, organization_id, None, tuple(scopes) or None, policies)

    @classmethod
    def empty(cls, kind: PrincipalType, id: str, tenant_id: str, organization_id: str) -> Self:
        """Return the grants of a principal without a live credential."""
        return cls(kind, id, tenant_id, organization_id, None, ())

    @classmethod
    def load(
        cls,
        connection: Connection,
        kind: PrincipalType,
        id: str,
        tenant_id: str,
        organization_id: str,
        role: str | None,
        scopes: Iterable[str],
    ) -> Self:
        policies = () if kind == "user" else policies_for_principal(connection, tenant_id, kind, id)
        return cls.of(kind, id, tenant_id, organization_id, role, scopes, policies)

    @classmethod
    def load_many(
        cls,
        connection: Connection,
        kind: PrincipalType,
        tenant_id: str,
        organization_id: str,
        principals: Sequence[tuple[str, str | None, Iterable[str]]],
    ) -> Iterator[Self]:
        """Yield the grants of principals of a type, from id, role and scopes of each."""
        ids = [id for id, _, _ in principals]
        policies = {} if kind == "user" else policies_for(connection, tenant_id, kind, ids)
        for id, role, scopes in principals:
            yield cls.of(kind, id, tenant_id, organization_id, role, scopes, policies.get(id, ()))


@dataclass(frozen=True, slots=True)
class Membership:
    """A membership that entitles a person to a tenant."""

    organization_id: str
    role: str


def roles_in(connection: Connection, tenant_id: str) -> dict[str, str]:
    """Return the roles of all people entitled to a tenant, by user id."""
    rows = connection.execute(_ROLES.where(tenants.c.id == tenant_id))
    return {row.user_id: row.role for row in rows}


def membership_in(connection: Connection, tenant_id: str, user_id: str | None) -> Membership | None:
    row = connection.execute(_MEMBERSHIP, {"tenant": tenant_id, "user": user_id}).one_or_none()
    return None if row is None else Membership(row.organization_id, row.role)


def role_in(connection: Connection, tenant_id: str, user_id: str | None) -> str | None:
    """Return a person's current role in a tenant; None without entitlement."""
    membership = membership_in(connection, tenant_id, user_id)
    return None if membership is None else membership.role


def organization_id_of(connection: Connection, tenant_id: str) -> str:
    return str(connection.scalar(_ORGANIZATION, {"tenant": tenant_id}))


def policies_for_principal(
    connection: Connection, tenant_id: str, kind: str, principal_id: str
) -> tuple[AppliedPolicy, ...]:
    """Return the distinct policies attached directly or through a group."""
    rows = connection.execute(_POLICIES_OF_PRINCIPAL, {"tenant": tenant_id, "kind": kind, "principal": principal_id})
    return tuple(AppliedPolicy(row.id, row.name, row.digest, row.role) for row in rows)


def policies_for_all(connection: Connection, tenant_id: str) -> Mapping[tuple[str, str], tuple[AppliedPolicy, ...]]:
    """Return the policies of all keys and identities of a tenant, in three statements."""
    applied = {
        row.id: AppliedPolicy(row.id, row.name, row.digest, row.role)
        for row in connection.execute(_APPLIED.where(policies.c.tenant_id == tenant_id))
    }
    policy_ids: dict[tuple[str, str], set[str]] = {}
    for row in connection.execute(
        select(
            policy_attachments.c.policy_id, policy_attachments.c.attachee_type, policy_attachments.c.attachee_id
        ).where(policy_attachments.c.tenant_id == tenant_id, policy_attachments.c.attachee_type != "group")
    ):
        policy_ids.setdefault((row.attachee_type, row.attachee_id), set()).add(row.policy_id)
    for row in connection.execute(_MEMBERS, {"tenant": tenant_id}):
        policy_ids.setdefault((row.member_type, row.member_id), set()).add(row.policy_id)
    return {principal: tuple(applied[policy] for policy in sorted(ids)) for principal, ids in policy_ids.items()}


def policies_for(
    connection: Connection, tenant_id: str, kind: str, ids: Sequence[str]
) -> Mapping[str, tuple[AppliedPolicy, ...]]:
    """Return the policies of principals of a type by id, without principals that have none."""
    policy_ids: dict[str, set[str]] = {}
    for batch in chunks(ids):
        direct = _attachments(kind).add_columns(policy_attachments.c.attachee_id.label("principal_id"))
        through = _THROUGH_GROUPS.add_columns(group_members.c.member_id.label("principal_id"))
        for query in (
            direct.where(policy_attachments.c.attachee_id.in_(batch)),
            through.where(group_members.c.member_type == kind, group_members.c.member_id.in_(batch)),
        ):
            for row in connection.execute(query, {"tenant": tenant_id}):
                policy_ids.setdefault(row.principal_id, set()).add(row.policy_id)
    applied = {
        row.id: AppliedPolicy(row.id, row.name, row.digest, row.role)
        for batch in chunks(sorted(set().union(*policy_ids.values())))
        for row in connection.execute(_APPLIED.where(policies.c.tenant_id == tenant_id, policies.c.id.in_(batch)))
    }
    return {
        principal_id: tuple(applied[policy] for policy in sorted(of_principal))
        for principal_id, of_principal in policy_ids.items()
    }


def policy_documents(connection: Connection, tenant_id: str, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return name and canonical text of policies by id."""
    query = select(policies.c.id, policies.c.name, policies.c.document).where(policies.c.tenant_id == tenant_id)
    return {
        row.id: (row.name, row.document)
        for batch in chunks(ids)
        for row in connection.execute(query.where(policies.c.id.in_(batch)))
    }


_ROLES = (
    select(memberships.c.user_id, memberships.c.role)
    .select_from(users)
    .join(memberships, memberships.c.user_id == users.c.id)
    .join(tenants, entitled_membership())
)


# The author's role is NULL without entitlement to the tenant.
_APPLIED = (
    select(policies.c.id, policies.c.name, DigestOf(policies.c.document).label("digest"), memberships.c.role)
    .select_from(policies)
    .join(tenants, tenants.c.id == policies.c.tenant_id)
    .join(users, users.c.id == policies.c.authored_by)
    .outerjoin(memberships, entitled_membership())
)


def _attachments(kind: str | BindParameter[str]) -> Select[Any]:
    return select(policy_attachments.c.policy_id).where(
        policy_attachments.c.tenant_id == _TENANT, policy_attachments.c.attachee_type == kind
    )


# Built once: building a statement costs as much as running it.
_TENANT = bindparam("tenant", type_=String)
_KIND = bindparam("kind", type_=String)
_PRINCIPAL = bindparam("principal", type_=String)
_MEMBERSHIP = prepared(
    _ROLES.where(tenants.c.id == _TENANT, memberships.c.user_id == bindparam("user", type_=String)).with_only_columns(
        tenants.c.organization_id, memberships.c.role
    )
)
_ORGANIZATION = prepared(select(tenants.c.organization_id).where(tenants.c.id == _TENANT))
_THROUGH_GROUPS = _attachments("group").join(
    group_members,
    and_(
        group_members.c.group_id == policy_attachments.c.attachee_id,
        group_members.c.tenant_id == policy_attachments.c.tenant_id,
    ),
)
_MEMBERS = _THROUGH_GROUPS.add_columns(group_members.c.member_type, group_members.c.member_id)
_POLICIES_OF_PRINCIPAL = prepared(
    _APPLIED.where(
        policies.c.tenant_id == _TENANT,
        or_(
            policies.c.id.in_(_attachments(_KIND).where(policy_attachments.c.attachee_id == _PRINCIPAL)),
            policies.c.id.in_(
                _THROUGH_GROUPS.where(group_members.c.member_type == _KIND, group_members.c.member_id == _PRINCIPAL)
            ),
        ),
    ).order_by(policies.c.id)
)
