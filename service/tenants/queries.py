"""SQL of tenants, limited to a principal, a tenant or an organization."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, and_, insert, literal, or_, select

from service.db.engine import Record
from service.db.statements import records, update_row
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
from service.principals.grants import may_enter
from service.tenants import provisioning
from service.tenants.provisioning import PROVISIONING


def get(connection: Connection, principal: Principal, tenant_id: str) -> Record:
    """Return a tenant, or raise 403 if the principal may not enter it."""
    row = connection.execute(_enterable(principal).where(tenants.c.id == tenant_id)).one_or_none()
    if row is None:
        raise tenant_access_denied()
    return row


def get_created(connection: Connection, principal: Principal, tenant_id: str) -> Record:
    """Return a tenant created in this transaction, also to an API key, which cannot enter it.

    Raises:
        ApiError: 403 without a membership of the person.
    """
    row = connection.execute(
        _TENANT_WITH_ROLE.where(tenants.c.id == tenant_id, memberships.c.user_id == principal.user_id)
    ).one_or_none()
    if row is None:
        raise permission_denied("organization")
    return row


def slugs_like(connection: Connection, organization_id: str, slug: str) -> frozenset[str]:
    """Return the slugs in an organization that `free_slug` could return."""
    prefix = slug[:40]
    return frozenset(
        connection.scalars(
            select(tenants.c.slug).where(
                tenants.c.organization_id == organization_id,
                or_(tenants.c.slug == slug, tenants.c.slug.startswith(prefix, autoescape=True)),
            )
        )
    )


def add(
    connection: Connection, *, tenant_id: str, organization_id: str, display_name: str, slug: str, at: datetime
) -> None:
    """Insert a tenant in status `provisioning`."""
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
    update_row(connection, tenants, {"id": tenant_id}, {"display_name": display_name, "updated_at": at})


# A tenant with its organization and open provisioning run.
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


_TENANT_WITH_ROLE = _TENANT.join(memberships, memberships.c.organization_id == tenants.c.organization_id).add_columns(
    memberships.c.role
)


_TENANT_OF_WORKLOAD = _TENANT.add_columns(literal("workload").label("role"))


def _enterable(principal: Principal) -> Select[Any]:
    """Select the tenants that a principal may enter, with its role (`workload` for workloads)."""
    if principal.kind == "workload":
        return _TENANT_OF_WORKLOAD.where(tenants.c.id == principal.tenant_id)
    return _TENANT_WITH_ROLE.where(may_enter(principal))


def visible(connection: Connection, principal: Principal, organization_id: str | None = None) -> list[Record]:
    """Return the tenants that a principal may enter, by organization, name and id."""
    query = _enterable(principal)
    if organization_id is not None:
        query = query.where(tenants.c.organization_id == organization_id)
    return sorted(
        records(connection, query),
        key=lambda row: (row.organization_name.casefold(), row.display_name.casefold(), row.id),
    )
