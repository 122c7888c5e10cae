"""Principals of a tenant: queries for keys, workload identities and people, with names and grants."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Column, Connection, Select, delete, insert, select, update

from service import errors, validation
from service.db.engine import Record
from service.db.statements import MAX_PARAMETERS, KeysetKey, after_key, delete_rows, records
from service.db.tables import (
    api_keys,
    group_members,
    groups,
    memberships,
    policies,
    policy_attachments,
    resources,
    tenants,
    users,
    workload_identities,
    workload_tokens,
)
from service.principals.grants import (
    PrincipalGrants,
    PrincipalType,
    entitled_membership,
    organization_id_of,
    policies_for_all,
    role_in,
)
from service.principals.live_credentials import LIVE_KEY

CLUSTER = "kubernetes_cluster"


def key(connection: Connection, tenant_id: str, key_id: str) -> Record | None:
    """Return a key of the tenant: `id`, `name`, `user_id`, `scopes`, `expires_at`, `revoked_at`."""
    return connection.execute(_KEY.where(api_keys.c.tenant_id == tenant_id, api_keys.c.id == key_id)).one_or_none()


def keys_among(connection: Connection, tenant_id: str, ids: Sequence[str]) -> list[Record]:
    return _among(connection, _KEY.where(api_keys.c.tenant_id == tenant_id), api_keys.c.id, ids)


def identities_among(connection: Connection, tenant_id: str, ids: Sequence[str]) -> list[Record]:
    mine = select(workload_identities).where(workload_identities.c.tenant_id == tenant_id)
    return _among(connection, mine, workload_identities.c.id, ids)


def _among(connection: Connection, query: Select[Any], column: Column[str], ids: Sequence[str]) -> list[Record]:
    """Return the rows with these ids; filter the whole result if the ids are too many for parameters."""
    if not ids:
        return []
    if len(ids) <= MAX_PARAMETERS:
        return list(connection.execute(query.where(column.in_(ids))))
    id_set = set(ids)
    return [row for row in connection.execute(query) if row.id in id_set]


def keys(connection: Connection, tenant_id: str, at: datetime) -> Sequence[Record]:
    """Return the live keys of a tenant."""
    return connection.execute(
        _KEY.join(users, users.c.id == api_keys.c.user_id)
        .where(api_keys.c.tenant_id == tenant_id, LIVE_KEY)
        .order_by(api_keys.c.name, api_keys.c.id),
        {"now": at},
    ).all()


_KEY = select(
    api_keys.c.id,
    api_keys.c.name,
    api_keys.c.user_id,
    api_keys.c.scopes,
    api_keys.c.expires_at,
    api_keys.c.revoked_at,
)


def identity(connection: Connection, tenant_id: str, binding_id: str) -> Record | None:
    return connection.execute(
        select(workload_identities).where(
            workload_identities.c.tenant_id == tenant_id, workload_identities.c.id == binding_id
        )
    ).one_or_none()


def identities(connection: Connection, tenant_id: str) -> Sequence[Record]:
    return connection.execute(
        select(workload_identities)
        .where(workload_identities.c.tenant_id == tenant_id)
        .order_by(workload_identities.c.namespace, workload_identities.c.service_account, workload_identities.c.id)
    ).all()


def identity_page(connection: Connection, tenant_id: str, after: KeysetKey | None, limit: int) -> Sequence[Record]:
    """Return workload identities in the order of creation, up to `limit` + 1 rows."""
    query = select(workload_identities).where(workload_identities.c.tenant_id == tenant_id)
    order = (workload_identities.c.created_at, workload_identities.c.id)
    if after is not None:
        query = query.where(after_key(order, after))
    return list(records(connection, query.order_by(*order).limit(limit + 1)))


def bound(connection: Connection, tenant_id: str, subject: dict[str, str]) -> str | None:
    """Return the id of a service account's binding."""
    conditions = [workload_identities.c[name] == value for name, value in subject.items()]
    return connection.scalar(
        select(workload_identities.c.id).where(workload_identities.c.tenant_id == tenant_id, *conditions)
    )


def add_identity(connection: Connection, values: dict[str, Any]) -> None:
    connection.execute(insert(workload_identities).values(**values))


def change_scopes(connection: Connection, tenant_id: str, binding_id: str, scopes: list[str], at: datetime) -> None:
    connection.execute(
        update(workload_identities)
        .where(workload_identities.c.tenant_id == tenant_id, workload_identities.c.id == binding_id)
        .values(scopes=scopes, updated_at=at)
    )


def remove_identity(connection: Connection, tenant_id: str, binding_id: str) -> None:
    """Remove a workload identity, its tokens, memberships and attachments."""
    forget(connection, tenant_id, "workload_identity", binding_id)
    connection.execute(delete(workload_tokens).where(workload_tokens.c.identity_id == binding_id))
    connection.execute(
        delete(workload_identities).where(
            workload_identities.c.tenant_id == tenant_id, workload_identities.c.id == binding_id
        )
    )


def forget(connection: Connection, tenant_id: str, kind: str, principal_id: str) -> None:
    """Remove a deleted principal from all groups and policies."""
    member = {"tenant_id": tenant_id, "member_type": kind, "member_id": principal_id}
    delete_rows(connection, group_members, member)
    attachee = {"tenant_id": tenant_id, "attachee_type": kind, "attachee_id": principal_id}
    delete_rows(connection, policy_attachments, attachee)


def cluster_exists(connection: Connection, tenant_id: str, cluster_id: str) -> bool:
    query = select(resources.c.id).where(
        resources.c.tenant_id == tenant_id, resources.c.id == cluster_id, resources.c.kind == CLUSTER
    )
    return connection.scalar(query) is not None


def people(connection: Connection, tenant_id: str) -> Sequence[Record]:
    """Return all people with access to a tenant: `id`, `name`, `email`, `role`."""
    return connection.execute(
        select(users.c.id, users.c.name, users.c.email, memberships.c.role)
        .select_from(users)
        .join(memberships, memberships.c.user_id == users.c.id)
        .join(tenants, entitled_membership())
        .where(tenants.c.id == tenant_id)
        .order_by(users.c.email)
    ).all()


def granted_policies(connection: Connection, tenant_id: str, binding_ids: Sequence[str]) -> set[str]:
    """Return the identities that have a policy, directly or through a group."""
    direct = select(policy_attachments.c.attachee_id.label("id")).where(
        policy_attachments.c.tenant_id == tenant_id, policy_attachments.c.attachee_type == "workload_identity"
    )
    attached = select(policy_attachments.c.attachee_id).where(
        policy_attachments.c.tenant_id == tenant_id, policy_attachments.c.attachee_type == "group"
    )
    through = select(group_members.c.member_id.label("id")).where(
        group_members.c.tenant_id == tenant_id,
        group_members.c.member_type == "workload_identity",
        group_members.c.group_id.in_(attached),
    )
    identity_ids: set[str] = set()
    for query, column in ((direct, policy_attachments.c.attachee_id), (through, group_members.c.member_id)):
        identity_ids.update(row.id for row in _among(connection, query, column, binding_ids))
    return identity_ids


def policies_by_identity(
    connection: Connection, tenant_id: str, binding_ids: Sequence[str]
) -> dict[str, frozenset[str]]:
    """Return the policies of identities, direct or through groups, by identity id."""
    if not binding_ids:
        return {}
    attached = select(policy_attachments.c.attachee_id.label("id"), policy_attachments.c.policy_id).where(
        policy_attachments.c.tenant_id == tenant_id
    )
    direct = attached.where(policy_attachments.c.attachee_type == "workload_identity")
    ways: dict[str, list[tuple[str, str]]] = {}
    for row in _among(connection, direct, policy_attachments.c.attachee_id, binding_ids):
        ways.setdefault(row.id, []).append(("policy", row.policy_id))
    # Two queries: a join would return a row for each pair of member and policy.
    through = select(group_members.c.member_id.label("id"), group_members.c.group_id).where(
        group_members.c.tenant_id == tenant_id, group_members.c.member_type == "workload_identity"
    )
    for row in _among(connection, through, group_members.c.member_id, binding_ids):
        ways.setdefault(row.id, []).append(("group", row.group_id))
    of_groups: dict[str, set[str]] = {}
    for row in connection.execute(attached.where(policy_attachments.c.attachee_type == "group")):
        of_groups.setdefault(row.id, set()).add(row.policy_id)
    # Identities in the same groups share a set.
    sets: dict[tuple[tuple[str, str], ...], frozenset[str]] = {}
    by_identity = {}
    for identity_id, named in ways.items():
        way = tuple(sorted(named))
        if way not in sets:
            sets[way] = frozenset().union(*({one} if kind == "policy" else of_groups.get(one, ()) for kind, one in way))
        by_identity[identity_id] = sets[way]
    return by_identity


def paths(connection: Connection, tenant_id: str, kind: str, principal_id: str) -> dict[str, list[Record | None]]:
    """Return how policies reach a principal, by policy id: None for direct, otherwise the group (`id`, `name`)."""
    by_policy: dict[str, list[Record | None]] = {}
    direct = select(policy_attachments.c.policy_id).where(
        policy_attachments.c.tenant_id == tenant_id,
        policy_attachments.c.attachee_type == kind,
        policy_attachments.c.attachee_id == principal_id,
    )
    for policy_id in connection.scalars(direct):
        by_policy.setdefault(policy_id, []).append(None)
    through = (
        select(policy_attachments.c.policy_id, groups.c.id, groups.c.name)
        .join(groups, groups.c.id == policy_attachments.c.attachee_id)
        .join(group_members, group_members.c.group_id == groups.c.id)
        .join(policies, policies.c.id == policy_attachments.c.policy_id)
        .where(
            groups.c.tenant_id == tenant_id,
            policy_attachments.c.attachee_type == "group",
            group_members.c.member_type == kind,
            group_members.c.member_id == principal_id,
        )
        .order_by(groups.c.name)
    )
    for row in connection.execute(through):
        by_policy.setdefault(row.policy_id, []).append(row)
    return by_policy


def ways_of(connection: Connection, tenant_id: str, policy_id: str) -> dict[tuple[str, str], list[Record | None]]:
    """Return how a policy reaches keys and identities: None for direct, otherwise the group (`id`, `name`)."""
    conditions = (policy_attachments.c.tenant_id == tenant_id, policy_attachments.c.policy_id == policy_id)
    by_principal: dict[tuple[str, str], list[Record | None]] = {}
    direct = select(policy_attachments.c.attachee_type, policy_attachments.c.attachee_id).where(
        *conditions, policy_attachments.c.attachee_type != "group"
    )
    for kind, identifier in connection.execute(direct):
        by_principal[kind, identifier] = [None]
    through = (
        select(groups.c.id, groups.c.name, group_members.c.member_type, group_members.c.member_id)
        .join(policy_attachments, policy_attachments.c.attachee_id == groups.c.id)
        .join(group_members, group_members.c.group_id == groups.c.id)
        .where(*conditions, groups.c.tenant_id == tenant_id, policy_attachments.c.attachee_type == "group")
        .order_by(groups.c.name)
    )
    for row in connection.execute(through):
        by_principal.setdefault((row.member_type, row.member_id), []).append(row)
    return by_principal


@dataclass(frozen=True, slots=True)
class TenantPrincipal:
    """A principal of a tenant; `works` is false for a revoked or expired key."""

    grants: PrincipalGrants
    name: str
    works: bool = True

    @property
    def kind(self) -> PrincipalType:
        return self.grants.kind

    @property
    def id(self) -> str:
        return self.grants.id

    def wire(self) -> dict[str, object]:
        return {"type": self.kind, "id": self.id, "name": self.name}


def get_principal(connection: Connection, tenant_id: str, kind: str, identifier: str, at: datetime) -> TenantPrincipal:
    """Return a principal of the tenant.

    Raises:
        ApiError: flat 404 for an unknown id.
    """
    organization_id = organization_id_of(connection, tenant_id)
    row = _row(connection, tenant_id, kind, identifier)
    if row is None:
        raise errors.not_found()
    principal_type = cast(PrincipalType, kind)
    if kind == "user":
        role, scopes = row.role, ()
    else:
        role, scopes = role_in(connection, tenant_id, row.user_id) if kind == "api_key" else None, row.scopes
    grants = PrincipalGrants.load(connection, principal_type, row.id, tenant_id, organization_id, role, scopes)
    return _tenant_principal(row, grants, at)


def _row(connection: Connection, tenant_id: str, kind: str, identifier: str) -> Record | None:
    if kind == "user":
        return next((row for row in people(connection, tenant_id) if row.id == identifier), None)
    lookup = key if kind == "api_key" else identity
    return lookup(connection, tenant_id, identifier) if validation.is_id(identifier) else None


def list_principals(connection: Connection, tenant_id: str, at: datetime) -> Iterator[TenantPrincipal]:
    """Yield every person, live key and identity of a tenant."""
    organization_id = organization_id_of(connection, tenant_id)
    members = people(connection, tenant_id)
    roles = {row.id: row.role for row in members}
    policies = policies_for_all(connection, tenant_id)
    for row in members:
        yield _tenant_principal(row, PrincipalGrants.of("user", row.id, tenant_id, organization_id, row.role, ()), at)
    for row in keys(connection, tenant_id, at):
        role, applied = roles.get(row.user_id), policies.get(("api_key", row.id), ())
        grants = PrincipalGrants.of("api_key", row.id, tenant_id, organization_id, role, row.scopes, applied)
        yield _tenant_principal(row, grants, at)
    for row in identities(connection, tenant_id):
        applied = policies.get(("workload_identity", row.id), ())
        grants = PrincipalGrants.of("workload_identity", row.id, tenant_id, organization_id, None, row.scopes, applied)
        yield _tenant_principal(row, grants, at)


def _tenant_principal(row: Record, grants: PrincipalGrants, at: datetime) -> TenantPrincipal:
    if grants.kind == "user":
        return TenantPrincipal(grants, f"{row.name} <{row.email}>")
    if grants.kind == "api_key":
        return TenantPrincipal(grants, row.name, works=row.revoked_at is None and at < row.expires_at)
    return TenantPrincipal(grants, f"{row.namespace}/{row.service_account}")
