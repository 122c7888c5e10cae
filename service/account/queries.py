"""SQL of a principal's person, workload identity and organizations."""

from sqlalchemy import Connection, literal, select

from service import errors
from service.db.engine import Record
from service.db.tables import memberships, organizations, tenants, users, workload_identities
from service.principal import Principal
from service.principals.enterable_tenants import may_enter


def person(connection: Connection, user_id: str | None) -> Record:
    return connection.execute(
        select(users.c.id, users.c.email, users.c.name, users.c.created_at, users.c.default_tenant_id).where(
            users.c.id == user_id
        )
    ).one()


def workload(connection: Connection, workload_id: str | None) -> Record:
    """Return a workload identity, or raise 401 if it was deleted since authentication."""
    row = connection.execute(select(workload_identities).where(workload_identities.c.id == workload_id)).one_or_none()
    if row is None:
        raise errors.authentication_required()
    return row


def organizations_of(connection: Connection, principal: Principal) -> list[Record]:
    """Return the organizations of a principal with its role, by name.

    API keys and workloads have the organization of their tenant: keys while their creator may enter it, workloads with
    the role `workload`.
    """
    if principal.kind == "workload":
        query = (
            select(
                organizations.c.id,
                organizations.c.name,
                organizations.c.slug,
                organizations.c.created_at,
                literal(principal.kind).label("role"),
            )
            .join(tenants, tenants.c.organization_id == organizations.c.id)
            .where(tenants.c.id == principal.tenant_id)
        )
        return list(connection.execute(query))
    query = (
        select(
            organizations.c.id,
            organizations.c.name,
            organizations.c.slug,
            organizations.c.created_at,
            memberships.c.role,
        )
        .join(memberships, memberships.c.organization_id == organizations.c.id)
        .where(memberships.c.user_id == principal.user_id)
    )
    if principal.tenant_id:
        query = query.join(tenants, tenants.c.organization_id == organizations.c.id).where(may_enter(principal))
    return sorted(connection.execute(query), key=lambda row: (row.name.casefold(), row.id))
