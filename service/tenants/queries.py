"""Tenants in the database. Every query carries the caller or the tenant; none is repeated per row."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, and_, insert, literal, or_, select, update

from service.authz.entitlement import may_enter
from service.db.engine import Record
from service.db.tables import (
    default_tag_versions,
    memberships,
    operations,
    organizations,
    tenants,
)
from service.errors import permission_denied, tenant_access_denied
from service.jobs.queries import OPEN
from service.principal import Principal
from service.tenants import provisioning
from service.tenants.validation import PROVISIONING


def get(connection: Connection, caller: Principal, tenant_id: str) -> Record:
    """One tenant the caller may enter.

    Raises:
        ApiError: 403 when it is theirs no longer, however recently it was.
    """
    row = connection.execute(_seen(caller).where(tenants.c.id == tenant_id)).one_or_none()
    if row is None:
        raise tenant_access_denied()
    return row


def get_created(connection: Connection, caller: Principal, tenant_id: str) -> Record:
    """A tenant the caller has just made; a key is shown it though it will never enter it.

    Raises:
        ApiError: 403 when their membership ended meanwhile; what they made in this transaction is taken back with it.
    """
    row = connection.execute(
        _SEEN.where(tenants.c.id == tenant_id, memberships.c.user_id == caller.user_id)
    ).one_or_none()
    if row is None:
        raise permission_denied("organization")
    return row


def slugs_like(connection: Connection, organization_id: str, wanted: str) -> frozenset[str]:
    """The slugs an organization has taken that could stand in the way of `wanted` or a numbered form of it."""
    beginning = wanted[:40]
    return frozenset(
        connection.scalars(
            select(tenants.c.slug).where(
                tenants.c.organization_id == organization_id,
                or_(tenants.c.slug == wanted, tenants.c.slug.startswith(beginning, autoescape=True)),
            )
        )
    )


def add(
    connection: Connection, *, tenant_id: str, organization_id: str, display_name: str, slug: str, at: datetime
) -> None:
    """A new tenant that is still to be provisioned."""
    connection.execute(
        insert(tenants).values(
            id=tenant_id,
            organization_id=organization_id,
            display_name=display_name,
            slug=slug,
            status=PROVISIONING,
            default_tags={},
            created_at=at,
            updated_at=at,
        )
    )
    connection.execute(insert(default_tag_versions).values(tenant_id=tenant_id, version=1, tags={}, changed_at=at))


def rename(connection: Connection, tenant_id: str, display_name: str, at: datetime) -> None:
    """Change the display name; id and slug stay."""
    connection.execute(
        update(tenants).where(tenants.c.id == tenant_id).values(display_name=display_name, updated_at=at)
    )


# A tenant with its organization and the operation that still sets it up.
_TENANT = (
    select(
        tenants.c.id,
        tenants.c.display_name,
        tenants.c.slug,
        tenants.c.status,
        tenants.c.organization_id,
        organizations.c.name.label("organization_name"),
        tenants.c.default_tags,
        tenants.c.created_at,
        tenants.c.updated_at,
        operations.c.operation_id,
        operations.c.run_id,
    )
    .join(organizations, organizations.c.id == tenants.c.organization_id)
    .outerjoin(
        operations,
        and_(
            operations.c.tenant_id == tenants.c.id,
            operations.c.kind == provisioning.KIND,
            operations.c.status.in_(OPEN),
        ),
    )
)


# The same as people and their keys see it, with the role; and as a workload does, which has none.
_SEEN = _TENANT.join(memberships, memberships.c.organization_id == tenants.c.organization_id).add_columns(
    memberships.c.role
)


_SEEN_BY_WORKLOADS = _TENANT.add_columns(literal("workload").label("role"))


def _seen(caller: Principal) -> Select[Any]:
    """The tenants a caller may enter."""
    if caller.kind == "workload":
        return _SEEN_BY_WORKLOADS.where(tenants.c.id == caller.tenant_id)
    return _SEEN.where(may_enter(caller))


def visible(connection: Connection, caller: Principal, organization_id: str | None = None) -> list[Record]:
    """The tenants a caller may enter, of one organization or of all; by organization, name, id."""
    query = _seen(caller)
    if organization_id is not None:
        query = query.where(tenants.c.organization_id == organization_id)
    rows = connection.execute(query)
    return sorted(rows, key=lambda row: (row.organization_name.casefold(), row.display_name.casefold(), row.id))
