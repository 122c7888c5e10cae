"""Queries for the audit log and the names of its targets, limited to a tenant or an organization."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, or_, select

from service.db.engine import Record
from service.db.statements import KeysetKey, after_key, records
from service.db.tables import (
    api_keys,
    audit_log,
    groups,
    memberships,
    organizations,
    policies,
    quota_requests,
    resources,
    tenants,
    users,
    workload_identities,
)

_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_NAMED = re.compile(rf"([a-z][a-z0-9_]*):({_ID})")
_PATH = re.compile(rf"/api/v1/(tenants|organizations)/({_ID})(/.*)?")
_RESOURCE = re.compile(rf"/resources/([a-z][a-z0-9_]*)/({_ID})(?:/.*)?")
_COLLECTIONS = {
    "/iam/policies/": "policy",
    "/iam/groups/": "group",
    "/api-keys/": "api_key",
    "/workload-identity/bindings/": "workload_identity",
    "/workload-identity/clusters/": "cluster",
}
_REFERENCES = (("memberType", "memberId"), ("attacheeType", "attacheeId"))
"""Members of the details of an entry with the kind and id of another object."""
_PATHS = {kind: path for path, kind in _COLLECTIONS.items()}


class Target(NamedTuple):
    """Kind (`policy`, `api_key`, `tenant`, `instance`, …) and id of an audited object."""

    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"


def target_of(text: str) -> Target | None:
    """Parse the `target` of an entry; None if it has no id (`platform`, an unknown path).

    It is `<kind>:<id>`, or the path of a refused request, which belongs to an object, tenant or organization.
    """
    text = text.lower()
    if named := _NAMED.fullmatch(text):
        return Target(*named.groups())
    path = _PATH.fullmatch(text)
    if path is None:
        return None
    area, identifier, rest = path.group(1), path.group(2), path.group(3) or ""
    if area == "tenants" and (target := _in_tenant(rest)):
        return target
    return Target(area.removesuffix("s"), identifier)


def _in_tenant(rest: str) -> Target | None:
    if resource := _RESOURCE.fullmatch(rest):
        return Target(*resource.groups())
    for collection, kind in _COLLECTIONS.items():
        if rest.startswith(collection):
            match = re.match(_ID, rest.removeprefix(collection))
            return Target(kind, match.group()) if match else None
    return None


def others_in(details: Mapping[str, Any]) -> list[Target]:
    """Return the objects that the details of an entry name by their kind and id, besides its target."""
    pairs = ((details.get(kind), details.get(identifier)) for kind, identifier in _REFERENCES)
    return [target for kind, identifier in pairs if (target := target_of(f"{kind}:{identifier}"))]


def spellings(target: Target, tenant_id: str | None) -> tuple[str, str]:
    """Return the two forms of a target in entries: `<kind>:<id>` and the path prefix."""
    if target.kind in ("tenant", "organization"):
        return str(target), f"/api/v1/{target.kind}s/{target.id}"
    tenant = f"/api/v1/tenants/{tenant_id}"
    return str(target), f"{tenant}{_PATHS.get(target.kind, f'/resources/{target.kind}/')}{target.id}"


_ORDER = (audit_log.c.at, audit_log.c.id)
_ENTRY = select(
    audit_log.c.id,
    audit_log.c.at,
    audit_log.c.request_id,
    audit_log.c.actor_kind,
    audit_log.c.actor_id,
    audit_log.c.credential_id,
    audit_log.c.operation,
    audit_log.c.target,
    audit_log.c.outcome,
    audit_log.c.details,
)
_ESCAPED = str.maketrans({"\\": r"\\", "%": r"\%", "_": r"\_"})


class ActivityFilter(NamedTuple):
    """Conditions on entries; None does not restrict.

    `operation` is an audit event (`policy.create`) or its prefix (`policy`). `actor` is the id of a person, API key or
    workload identity, or an e-mail address.
    """

    operation: str | None = None
    actor: str | None = None
    outcome: str | None = None
    since: datetime | None = None
    target: Target | None = None


def of_tenant(
    connection: Connection,
    tenant_id: str,
    organization_id: str,
    where: ActivityFilter,
    after: KeysetKey | None,
    limit: int,
) -> Sequence[Record]:
    """Return up to `limit` + 1 entries of a tenant, newest first."""
    conditions = (audit_log.c.tenant_id == tenant_id, *_conditions(where, organization_id, tenant_id))
    return _page(connection, conditions, after, limit)


def of_organization(
    connection: Connection, organization_id: str, where: ActivityFilter, after: KeysetKey | None, limit: int
) -> Sequence[Record]:
    """Return up to `limit` + 1 entries of an organization without those of its tenants, newest first."""
    conditions = (
        audit_log.c.organization_id == organization_id,
        audit_log.c.tenant_id.is_(None),
        *_conditions(where, organization_id, None),
    )
    return _page(connection, conditions, after, limit)


def _page(
    connection: Connection, conditions: Iterable[ColumnElement[bool]], after: KeysetKey | None, limit: int
) -> Sequence[Record]:
    query = _ENTRY.where(*conditions)
    if after is not None:
        query = query.where(after_key(_ORDER, after, newest_first=True))
    return list(records(connection, query.order_by(*(column.desc() for column in _ORDER)).limit(limit + 1)))


def _conditions(where: ActivityFilter, organization_id: str, tenant_id: str | None) -> Iterable[ColumnElement[bool]]:
    if where.since is not None:
        yield audit_log.c.at >= where.since
    if where.outcome is not None:
        yield audit_log.c.outcome == where.outcome
    if where.operation is not None:
        yield _within(audit_log.c.operation, where.operation, ".")
    if where.actor is not None:
        if "@" in where.actor:
            yield audit_log.c.actor_id.in_(
                select(users.c.id)
                .join(memberships, memberships.c.user_id == users.c.id)
                .where(memberships.c.organization_id == organization_id, users.c.email == where.actor)
            )
        else:
            yield or_(audit_log.c.actor_id == where.actor, audit_log.c.credential_id == where.actor)
    if where.target is not None:
        changed, path = spellings(where.target, tenant_id)
        yield or_(audit_log.c.target == changed, _within(audit_log.c.target, path, "/"))


def _within(column: Column[str], word: str, separator: str) -> ColumnElement[bool]:
    """Match a word, or a text that begins with the word and a separator."""
    return or_(column == word, column.like(f"{word.translate(_ESCAPED)}{separator}%", escape="\\"))


def members_among(connection: Connection, organization_id: str, ids: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return names and e-mail addresses by id, only of members: the organization must not learn others' names."""
    if not ids:
        return {}
    rows = connection.execute(
        select(users.c.id, users.c.name, users.c.email)
        .join(memberships, memberships.c.user_id == users.c.id)
        .where(memberships.c.organization_id == organization_id, users.c.id.in_(ids))
    )
    return {row.id: (row.name, row.email) for row in rows}


def authors_among(connection: Connection, organization_id: str, ids: Collection[str]) -> dict[str, str]:
    """Return the names of authors of the organization's policies by id, including former members."""
    if not ids:
        return {}
    rows = connection.execute(
        select(users.c.id, users.c.name)
        .distinct()
        .join(policies, policies.c.authored_by == users.c.id)
        .join(tenants, tenants.c.id == policies.c.tenant_id)
        .where(tenants.c.organization_id == organization_id, users.c.id.in_(ids))
    )
    return {row.id: row.name for row in rows}


_NAMED_IN_TENANT = {
    "policy": (policies, policies.c.name),
    "group": (groups, groups.c.name),
    "api_key": (api_keys, api_keys.c.name),
    "workload_identity": (
        workload_identities,
        workload_identities.c.namespace + "/" + workload_identities.c.service_account,
    ),
}


def names(
    connection: Connection, organization_id: str, tenant_id: str | None, targets: Collection[Target]
) -> Mapping[Target, str]:
    """Return the names of existing targets, except people (`members_among`)."""
    ids_by_kind: dict[str, set[str]] = {}
    for target in targets:
        ids_by_kind.setdefault(target.kind, set()).add(target.id)
    names_by_target: dict[Target, str] = {}
    for kind, ids in ids_by_kind.items():
        query = None
        if kind == "organization":
            query = select(organizations.c.id, organizations.c.name.label("name")).where(
                organizations.c.id == organization_id, organizations.c.id.in_(ids)
            )
        elif kind == "tenant":
            query = select(tenants.c.id, tenants.c.display_name.label("name")).where(
                tenants.c.organization_id == organization_id, tenants.c.id.in_(ids)
            )
        elif kind == "quota_request":
            query = select(quota_requests.c.id, quota_requests.c.resource_type.label("name")).where(
                quota_requests.c.organization_id == organization_id, quota_requests.c.id.in_(ids)
            )
        elif kind not in ("user", "session") and tenant_id is not None:
            table, name = _NAMED_IN_TENANT.get(kind, (resources, resources.c.name))
            query = select(table.c.id, name.label("name")).where(table.c.tenant_id == tenant_id, table.c.id.in_(ids))
        if query is not None:
            names_by_target |= {Target(kind, row.id): row.name for row in connection.execute(query)}
    return names_by_target
