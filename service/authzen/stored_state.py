"""The statement of a decision: the revisions of its tenant and the resources in question, of the same snapshot."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, CompoundSelect, Connection, Select, String, bindparam, null, select

from service.db.prepared import prepared
from service.db.revisions import memory_of
from service.db.tables import read_json, resources, revisions

_SIZES = (1, 4, 16, 64, 256)
"""Numbers of parameters: a few texts of the statement serve all numbers of resources."""

ResourceName = tuple[str, str]
"""Kind and id of a resource."""


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
    revisions = dict(zip(domains, stored.revisions, strict=True))
    return {**revisions, **{(tenant_id, *name): stored.resources.get(name) for name in names}}


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
