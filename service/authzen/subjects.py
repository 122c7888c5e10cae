"""Principals and resources of a tenant as the decision point looks for them: one, some, or the next of them by id.

A subject as a principal of the tenant: all that its decisions rest on is read here, nothing comes from a caller.

One who is not there stands on nothing, and is looked up with the same statements as one who is.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, cast

from sqlalchemy import Connection, Select, or_, select

from service.db.engine import Record
from service.db.statements import chunks
from service.db.tables import api_keys, memberships, resources, tenants, users, workload_identities
from service.principals.conditions import LIVE_KEY, entitled_membership
from service.principals.grants import (
    PrincipalGrants,
    PrincipalType,
    organization_id_of,
    role_in,
    roles_in,
)

# Columns are told by name: a principal has none of the columns of another kind.
_PEOPLE = (
    select(users.c.id, users.c.email, memberships.c.role)
    .select_from(users)
    .join(memberships, memberships.c.user_id == users.c.id)
    .join(tenants, entitled_membership())
)
_KEYS = select(api_keys.c.id, api_keys.c.user_id, api_keys.c.scopes, api_keys.c.expires_at, api_keys.c.revoked_at).join(
    users, users.c.id == api_keys.c.user_id
)


def person(connection: Connection, tenant_id: str, name: str) -> Record | None:
    """Somebody who may enter the tenant, by id or e-mail: `id`, `role`."""
    named = or_(users.c.id == name, users.c.email == name.strip().lower())
    return connection.execute(_PEOPLE.where(tenants.c.id == tenant_id, named)).first()


def key(connection: Connection, tenant_id: str, key_id: str, at: datetime) -> Record | None:
    """A key of the tenant that works at an instant: `user_id`, `scopes`."""
    return connection.execute(_live_keys(tenant_id).where(api_keys.c.id == key_id), {"now": at}).one_or_none()


def identity(connection: Connection, tenant_id: str, identity_id: str) -> Record | None:
    """A workload identity of the tenant: `scopes`."""
    return connection.execute(_identities(tenant_id).where(workload_identities.c.id == identity_id)).one_or_none()


def next_people(connection: Connection, tenant_id: str, after: str, most: int) -> Sequence[Record]:
    """Those who may enter the tenant."""
    query = _PEOPLE.where(tenants.c.id == tenant_id, users.c.id > after)
    return connection.execute(query.order_by(users.c.id).limit(most)).all()


def next_keys(connection: Connection, tenant_id: str, after: str, most: int, at: datetime) -> Sequence[Record]:
    """The keys of the tenant that work at an instant."""
    query = _live_keys(tenant_id).where(api_keys.c.id > after)
    return connection.execute(query.order_by(api_keys.c.id).limit(most), {"now": at}).all()


def next_identities(connection: Connection, tenant_id: str, after: str, most: int) -> Sequence[Record]:
    """The workload identities of the tenant."""
    query = _identities(tenant_id).where(workload_identities.c.id > after)
    return connection.execute(query.order_by(workload_identities.c.id).limit(most)).all()


def next_resources(connection: Connection, tenant_id: str, kind: str, after: str, most: int) -> Sequence[Record]:
    """The resources of a kind: `id`, `region`, `tags`."""
    query = _RESOURCES.where(resources.c.tenant_id == tenant_id, resources.c.kind == kind, resources.c.id > after)
    return connection.execute(query.order_by(resources.c.id).limit(most)).all()


def resources_among(connection: Connection, tenant_id: str, kind: str, ids: Sequence[str]) -> dict[str, Record]:
    """The resources of a kind with one of these ids, by id."""
    mine = _RESOURCES.where(resources.c.tenant_id == tenant_id, resources.c.kind == kind)
    return {row.id: row for some in chunks(ids) for row in connection.execute(mine.where(resources.c.id.in_(some)))}


def rate_limit(connection: Connection, key_id: str) -> int:
    """How many requests a minute a key may make."""
    return int(connection.scalars(select(api_keys.c.rate_limit).where(api_keys.c.id == key_id)).one())


_RESOURCES = select(resources.c.id, resources.c.region, resources.c.tags)


def _live_keys(tenant_id: str) -> Select[Any]:
    return _KEYS.where(api_keys.c.tenant_id == tenant_id, LIVE_KEY)


def _identities(tenant_id: str) -> Select[Any]:
    mine = workload_identities.c.tenant_id == tenant_id
    return select(workload_identities.c.id, workload_identities.c.scopes).where(mine)


KINDS: tuple[PrincipalType, ...] = ("user", "api_key", "workload_identity")


def is_kind(text: str) -> bool:
    return text in KINDS


def grants_of(connection: Connection, tenant_id: str, kind: str, identifier: str, at: datetime) -> PrincipalGrants:
    """Return the grants of a subject; a missing one takes the same statements and has nothing."""
    organization_id = organization_id_of(connection, tenant_id)
    principal_type, role, row = cast(PrincipalType, kind), None, None
    if kind == "user":
        row = person(connection, tenant_id, identifier)
        role = row.role if row else None
    elif kind == "api_key":
        row = key(connection, tenant_id, identifier, at)
        role = role_in(connection, tenant_id, row.user_id if row else identifier)
    else:
        row = identity(connection, tenant_id, identifier)
    name = row.id if row else identifier
    scopes = row.scopes if row and kind != "user" else ()
    grants = PrincipalGrants.load(connection, principal_type, name, tenant_id, organization_id, role, scopes)
    return grants if row else PrincipalGrants.nothing(principal_type, identifier, tenant_id, organization_id)


def next_grants(
    connection: Connection, tenant_id: str, kind: str, after: str, most: int, at: datetime
) -> Iterator[PrincipalGrants]:
    """Yield the grants of the subjects of a type whose ids come after `after`."""
    organization_id = organization_id_of(connection, tenant_id)
    principals: list[tuple[str, str | None, Sequence[str]]]
    if kind == "user":
        principals = [(row.id, row.role, ()) for row in next_people(connection, tenant_id, after, most)]
    elif kind == "api_key":
        rows, roles = next_keys(connection, tenant_id, after, most, at), roles_in(connection, tenant_id)
        principals = [(row.id, roles.get(row.user_id), row.scopes) for row in rows]
    else:
        principals = [(row.id, None, row.scopes) for row in next_identities(connection, tenant_id, after, most)]
    return PrincipalGrants.load_many(connection, cast(PrincipalType, kind), tenant_id, organization_id, principals)
