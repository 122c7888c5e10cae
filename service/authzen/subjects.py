"""Queries for the subjects and resources of AuthZEN requests, and the grants of subjects.

An unknown subject has no grants, and is looked up with the same statements as a known one.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Connection, Select, or_, select

from service.db.engine import Record, chunks
from service.db.tables import api_keys, memberships, resources, tenants, users, workload_identities
from service.principals import grants as principal_grants
from service.principals.grants import PrincipalGrants, PrincipalType, entitled_membership

SUBJECT_TYPES: tuple[PrincipalType, ...] = ("user", "api_key", "workload_identity")

# Columns are accessed by name: each type of subject has its own.
_PEOPLE = (
    select(users.c.id, users.c.email, memberships.c.role)
    .select_from(users)
    .join(memberships, memberships.c.user_id == users.c.id)
    .join(tenants, entitled_membership())
)
_KEYS = select(api_keys.c.id, api_keys.c.user_id, api_keys.c.scopes, api_keys.c.expires_at, api_keys.c.revoked_at).join(
    users, users.c.id == api_keys.c.user_id
)
_RESOURCES = select(resources.c.id, resources.c.region, resources.c.tags)


def find_user(connection: Connection, tenant_id: str, name: str) -> Record | None:
    """Return a member of the tenant by id or e-mail: `id`, `role`."""
    named = or_(users.c.id == name, users.c.email == name.strip().lower())
    return connection.execute(_PEOPLE.where(tenants.c.id == tenant_id, named)).first()


def find_api_key(connection: Connection, tenant_id: str, key_id: str, at: datetime) -> Record | None:
    """Return an active key of the tenant: `user_id`, `scopes`."""
    return connection.execute(_active_keys(tenant_id, at).where(api_keys.c.id == key_id)).one_or_none()


def find_workload_identity(connection: Connection, tenant_id: str, identity_id: str) -> Record | None:
    """Return a workload identity of the tenant: `scopes`."""
    return connection.execute(_identities(tenant_id).where(workload_identities.c.id == identity_id)).one_or_none()


def next_users(connection: Connection, tenant_id: str, after: str, limit: int) -> Sequence[Record]:
    """Return the next members of the tenant."""
    query = _PEOPLE.where(tenants.c.id == tenant_id, users.c.id > after)
    return connection.execute(query.order_by(users.c.id).limit(limit)).all()


def next_api_keys(connection: Connection, tenant_id: str, after: str, limit: int, at: datetime) -> Sequence[Record]:
    """Return the next active keys of the tenant."""
    query = _active_keys(tenant_id, at).where(api_keys.c.id > after)
    return connection.execute(query.order_by(api_keys.c.id).limit(limit)).all()


def next_workload_identities(connection: Connection, tenant_id: str, after: str, limit: int) -> Sequence[Record]:
    """Return the next workload identities of the tenant."""
    query = _identities(tenant_id).where(workload_identities.c.id > after)
    return connection.execute(query.order_by(workload_identities.c.id).limit(limit)).all()


def next_resources(connection: Connection, tenant_id: str, kind: str, after: str, limit: int) -> Sequence[Record]:
    """Return the next resources of a kind: `id`, `region`, `tags`."""
    query = _RESOURCES.where(resources.c.tenant_id == tenant_id, resources.c.kind == kind, resources.c.id > after)
    return connection.execute(query.order_by(resources.c.id).limit(limit)).all()


def find_resources(connection: Connection, tenant_id: str, kind: str, ids: Sequence[str]) -> dict[str, Record]:
    """Return the resources of a kind with one of these ids, by id."""
    query = _RESOURCES.where(resources.c.tenant_id == tenant_id, resources.c.kind == kind)
    return {row.id: row for batch in chunks(ids) for row in connection.execute(query.where(resources.c.id.in_(batch)))}


def rate_limit_of_key(connection: Connection, key_id: str) -> int:
    """Return how many requests a minute a key may make."""
    return int(connection.scalars(select(api_keys.c.rate_limit).where(api_keys.c.id == key_id)).one())


def _active_keys(tenant_id: str, at: datetime) -> Select[Any]:
    return _KEYS.where(
        api_keys.c.tenant_id == tenant_id,
        api_keys.c.revoked_at.is_(None),
        api_keys.c.expires_at > at,
        users.c.deleted_at.is_(None),
    )


def _identities(tenant_id: str) -> Select[Any]:
    mine = workload_identities.c.tenant_id == tenant_id
    return select(workload_identities.c.id, workload_identities.c.scopes).where(mine)


def is_subject_type(text: str) -> bool:
    return text in SUBJECT_TYPES


def load_grants(connection: Connection, tenant_id: str, kind: str, identifier: str, at: datetime) -> PrincipalGrants:
    """Return the current grants of a subject."""
    organization_id = principal_grants.organization_id_of(connection, tenant_id)
    no_grants = PrincipalGrants(cast(PrincipalType, kind), identifier, tenant_id, organization_id, None, ())
    if kind == "user":
        user = find_user(connection, tenant_id, identifier)
        return (
            no_grants if user is None else PrincipalGrants("user", user.id, tenant_id, organization_id, user.role, None)
        )
    if kind == "api_key":
        api_key = find_api_key(connection, tenant_id, identifier, at)
        role = principal_grants.role_in(connection, tenant_id, api_key.user_id if api_key else identifier)
        policies = principal_grants.policies_for_principal(connection, tenant_id, kind, identifier)
        if api_key is None:
            return no_grants
        return PrincipalGrants("api_key", identifier, tenant_id, organization_id, role, tuple(api_key.scopes), policies)
    workload = find_workload_identity(connection, tenant_id, identifier)
    policies = principal_grants.policies_for_principal(connection, tenant_id, "workload_identity", identifier)
    if workload is None:
        return no_grants
    scopes = tuple(workload.scopes) or None
    return PrincipalGrants("workload_identity", identifier, tenant_id, organization_id, None, scopes, policies)


def next_grants(
    connection: Connection, tenant_id: str, kind: str, after: str, limit: int, at: datetime
) -> Iterator[PrincipalGrants]:
    """Yield the grants of the subjects of a type with ids after `after`."""
    organization_id = principal_grants.organization_id_of(connection, tenant_id)
    if kind == "user":
        for row in next_users(connection, tenant_id, after, limit):
            yield PrincipalGrants("user", row.id, tenant_id, organization_id, row.role, None)
        return
    if kind == "api_key":
        rows = next_api_keys(connection, tenant_id, after, limit, at)
        roles = principal_grants.roles_in(connection, tenant_id)
        policies_by_id = principal_grants.policies_for(connection, tenant_id, kind, [row.id for row in rows])
        for row in rows:
            role, policies = roles.get(row.user_id), policies_by_id.get(row.id, ())
            yield PrincipalGrants("api_key", row.id, tenant_id, organization_id, role, tuple(row.scopes), policies)
        return
    rows = next_workload_identities(connection, tenant_id, after, limit)
    policies_by_id = principal_grants.policies_for(connection, tenant_id, kind, [row.id for row in rows])
    for row in rows:
        scopes = tuple(row.scopes) or None
        yield PrincipalGrants(
            "workload_identity", row.id, tenant_id, organization_id, None, scopes, policies_by_id.get(row.id, ())
        )
