"""Queries for the subjects and resources of AuthZEN requests, and the grants of subjects."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Connection, Select, or_, select

from service.authzen.stored_state import StoredResource
from service.db.engine import Record
from service.db.tables import api_keys, memberships, resources, tenants, users, workload_identities
from service.principals.grants import (
    PrincipalGrants,
    PrincipalType,
    entitled_membership,
    organization_id_of,
    role_in,
    roles_in,
)
from service.principals.live_credentials import LIVE_KEY

SUBJECT_TYPES: tuple[PrincipalType, ...] = ("user", "api_key", "workload_identity")

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
    """Return an active key of the tenant: `user_id`, `scopes`, `expires_at`."""
    return connection.execute(_live_keys(tenant_id).where(api_keys.c.id == key_id), {"now": at}).one_or_none()


def find_workload_identity(connection: Connection, tenant_id: str, identity_id: str) -> Record | None:
    """Return a workload identity of the tenant: `scopes`."""
    return connection.execute(_identities(tenant_id).where(workload_identities.c.id == identity_id)).one_or_none()


def next_users(connection: Connection, tenant_id: str, after: str, limit: int) -> Sequence[Record]:
    query = _PEOPLE.where(tenants.c.id == tenant_id, users.c.id > after)
    return connection.execute(query.order_by(users.c.id).limit(limit)).all()


def next_api_keys(connection: Connection, tenant_id: str, after: str, limit: int, at: datetime) -> Sequence[Record]:
    query = _live_keys(tenant_id).where(api_keys.c.id > after)
    return connection.execute(query.order_by(api_keys.c.id).limit(limit), {"now": at}).all()


def next_workload_identities(connection: Connection, tenant_id: str, after: str, limit: int) -> Sequence[Record]:
    query = _identities(tenant_id).where(workload_identities.c.id > after)
    return connection.execute(query.order_by(workload_identities.c.id).limit(limit)).all()


def next_resources(
    connection: Connection, tenant_id: str, kind: str, after: str, limit: int
) -> Sequence[StoredResource]:
    """Return the next resources of a kind."""
    query = _RESOURCES.where(resources.c.tenant_id == tenant_id, resources.c.kind == kind, resources.c.id > after)
    return [StoredResource(*row) for row in connection.execute(query.order_by(resources.c.id).limit(limit))]


def _live_keys(tenant_id: str) -> Select[Any]:
    return _KEYS.where(api_keys.c.tenant_id == tenant_id, LIVE_KEY)


def _identities(tenant_id: str) -> Select[Any]:
    mine = workload_identities.c.tenant_id == tenant_id
    return select(workload_identities.c.id, workload_identities.c.scopes).where(mine)


def is_subject_type(text: str) -> bool:
    return text in SUBJECT_TYPES


def load_grants(
    connection: Connection, tenant_id: str, organization_id: str, kind: str, identifier: str, at: datetime
) -> tuple[PrincipalGrants, datetime | None]:
    """Return the grants of a subject, and when its key expires.

    An unknown subject takes the same statements and has no grants.
    """
    principal_type, role, row = cast(PrincipalType, kind), None, None
    if kind == "user":
        row = find_user(connection, tenant_id, identifier)
        role = row.role if row else None
    elif kind == "api_key":
        row = find_api_key(connection, tenant_id, identifier, at)
        role = role_in(connection, tenant_id, row.user_id if row else identifier)
    else:
        row = find_workload_identity(connection, tenant_id, identifier)
    name = row.id if row else identifier
    scopes = row.scopes if row and kind != "user" else ()
    grants = PrincipalGrants.load(connection, principal_type, name, tenant_id, organization_id, role, scopes)
    if row is None:
        return PrincipalGrants.empty(principal_type, identifier, tenant_id, organization_id), None
    return grants, row.expires_at if kind == "api_key" else None


def next_grants(
    connection: Connection, tenant_id: str, kind: str, after: str, limit: int, at: datetime
) -> Iterator[PrincipalGrants]:
    """Yield the grants of the subjects of a type with ids after `after`."""
    organization_id = organization_id_of(connection, tenant_id)
    principals: list[tuple[str, str | None, Sequence[str]]]
    if kind == "user":
        principals = [(row.id, row.role, ()) for row in next_users(connection, tenant_id, after, limit)]
    elif kind == "api_key":
        rows, roles = next_api_keys(connection, tenant_id, after, limit, at), roles_in(connection, tenant_id)
        principals = [(row.id, roles.get(row.user_id), row.scopes) for row in rows]
    else:
        principals = [
            (row.id, None, row.scopes) for row in next_workload_identities(connection, tenant_id, after, limit)
        ]
    return PrincipalGrants.load_many(connection, cast(PrincipalType, kind), tenant_id, organization_id, principals)
