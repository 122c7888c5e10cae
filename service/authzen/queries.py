"""Queries of decisions: subjects with their grants, and the revisions of a tenant with resources of one snapshot."""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, cast

from sqlalchemy import BindParameter, CompoundSelect, Connection, Select, String, bindparam, null, or_, select

from service.db.engine import Record
from service.db.prepared import prepared
from service.db.revisions import memory_of
from service.db.tables import (
    api_keys,
    memberships,
    read_json,
    resources,
    revisions,
    tenants,
    users,
    workload_identities,
)
from service.principals.grants import (
    PrincipalGrants,
    PrincipalType,
    entitled_membership,
    organization_id_of,
    role_in,
    roles_in,
)
from service.principals.live_credentials import LIVE_KEY

_SIZES = (1, 4, 16, 64, 256)
"""Numbers of parameters: a few texts of the statement serve all numbers of resources."""

ResourceName = tuple[str, str]
"""Kind and id of a resource."""
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


class StoredResource(NamedTuple):
    id: str
    region: str
    tags: Mapping[str, str]


class StoredState(NamedTuple):
    """Revisions in the order of their domains, 0 without a change, and the resources that exist."""

    revisions: tuple[int, ...]
    resources: Mapping[ResourceName, StoredResource]


def read_state(
    connection: Connection, domains: Sequence[str], tenant_id: str, names: Collection[ResourceName]
) -> StoredState:
    """Return revisions and resources of a tenant.

    Values that are not in the memory of the connection are read in one statement.
    """
    memory = memory_of(connection)
    if memory is None:
        return _read_stored(connection, domains, tenant_id, names)
    keys = {name: (tenant_id, *name) for name in names}
    missing = {name for name, key in keys.items() if key not in memory}
    if missing or any(domain not in memory for domain in domains):
        stored = _read_stored(connection, domains, tenant_id, missing)
        memory.update(zip(domains, stored.revisions, strict=True))
        memory.update((keys[name], stored.resources.get(name)) for name in missing)
    resources = {name: row for name, key in keys.items() if (row := memory[key]) is not None}
    return StoredState(tuple(memory[domain] for domain in domains), resources)


def read_kept(
    connection: Connection, domains: Sequence[str], tenant_id: str, names: Collection[ResourceName]
) -> Mapping[Hashable, Any]:
    """Return revisions and resources in one statement, by their keys in the memory of a connection."""
    stored = _read_stored(connection, domains, tenant_id, names)
    values: dict[Hashable, Any] = dict(zip(domains, stored.revisions, strict=True))
    return values | {(tenant_id, *name): stored.resources.get(name) for name in names}


def _read_stored(
    connection: Connection, domains: Sequence[str], tenant_id: str, names: Collection[ResourceName]
) -> StoredState:
    kinds = _pad({kind for kind, _ in names})
    ids = _pad({id for _, id in names})
    parameters = {
        "tenant": tenant_id,
        **_number_parameters("domain", domains),
        **_number_parameters("kind", kinds),
        **_number_parameters("id", ids),
    }
    stored: dict[str, int] = {}
    rows: dict[ResourceName, StoredResource] = {}
    for id, revision, kind, region, tags in connection.execute(
        _statement(len(domains), len(kinds), len(ids)), parameters
    ):
        if kind is None:
            stored[id] = revision
        else:
            rows[kind, id] = StoredResource(id, region, read_json(tags) if isinstance(tags, str) else tags)
    return StoredState(tuple(stored.get(domain, 0) for domain in domains), rows)


def _pad(values: Collection[str]) -> list[str]:
    """Return values in order and repetitions of the last, up to one of `_SIZES`."""
    if not values:
        return []
    padded = sorted(values)
    size = next(size for size in _SIZES if size >= len(padded))
    return padded + padded[-1:] * (size - len(padded))


@lru_cache
def _statement(domains: int, kinds: int, ids: int) -> Select[Any] | CompoundSelect[Any]:
    query = select(revisions.c.domain, revisions.c.revision, null(), null(), null())
    query = query.where(revisions.c.domain.in_(_parameters("domain", domains)))
    if not ids:
        return prepared(query)
    rows = select(resources.c.id, null(), resources.c.kind, resources.c.region, resources.c.tags).where(
        resources.c.tenant_id == bindparam("tenant", type_=String),
        resources.c.kind.in_(_parameters("kind", kinds)),
        resources.c.id.in_(_parameters("id", ids)),
    )
    return prepared(query.union_all(rows))


def _parameters(prefix: str, count: int) -> list[BindParameter[str]]:
    return [bindparam(f"{prefix}_{number}", type_=String) for number in range(count)]


def _number_parameters(prefix: str, values: Sequence[str]) -> dict[str, str]:
    return {f"{prefix}_{number}": value for number, value in enumerate(values)}


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
