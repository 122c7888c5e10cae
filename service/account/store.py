"""What the database knows of a caller's person and organizations."""

from sqlalchemy import Connection, select

from service.access.authority import entitled
from service.access.caller import Caller
from service.db.engine import Record
from service.db.tables import memberships, organizations, tenants, users


def person(connection: Connection, user_id: str | None) -> Record:
    """The person behind a caller: `id`, `email`, `name`, `created_at`, `default_tenant_id`."""
    return connection.execute(
        select(users.c.id, users.c.email, users.c.name, users.c.created_at, users.c.default_tenant_id).where(
            users.c.id == user_id
        )
    ).one()


def default_tenant_id(connection: Connection, caller: Caller) -> str:
    """The tenant used when none is named: a key's only one, a person's home; empty when there is none."""
    if caller.tenant_id:
        return caller.tenant_id
    return connection.scalar(select(users.c.default_tenant_id).where(users.c.id == caller.user_id)) or ""


def organizations_of(connection: Connection, caller: Caller) -> list[Record]:
    """The caller's organizations with their role, by name. A key sees the one of its tenant, while its creator may."""
    query = (
        select(
            organizations.c.id,
            organizations.c.name,
            organizations.c.slug,
            organizations.c.created_at,
            memberships.c.role,
        )
        .join(memberships, memberships.c.organization_id == organizations.c.id)
        .where(memberships.c.user_id == caller.user_id)
    )
    if caller.tenant_id:
        query = query.join(tenants, tenants.c.organization_id == organizations.c.id).where(entitled(caller))
    return sorted(connection.execute(query), key=lambda row: (row.name.casefold(), row.id))
