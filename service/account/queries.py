"""What the database knows of a caller's person and organizations."""

from sqlalchemy import Connection, literal, select

from service import errors
from service.authz.entitlement import may_enter
from service.db.engine import Record
from service.db.tables import memberships, organizations, tenants, users, workload_identities
from service.principal import Principal


def person(connection: Connection, user_id: str | None) -> Record:
    """The person behind a caller: `id`, `email`, `name`, `created_at`, `default_tenant_id`."""
    return connection.execute(
        select(users.c.id, users.c.email, users.c.name, users.c.created_at, users.c.default_tenant_id).where(
            users.c.id == user_id
        )
    ).one()


def workload(connection: Connection, workload_id: str | None) -> Record:
    """The identity behind a workload's token.

    Raises:
        ApiError: 401, for one that was removed since its token was looked up.
    """
    row = connection.execute(select(workload_identities).where(workload_identities.c.id == workload_id)).one_or_none()
    if row is None:
        raise errors.authentication_required()
    return row


def organizations_of(connection: Connection, caller: Principal) -> list[Record]:
    """The caller's organizations with their role, by name. A key sees the one of its tenant, while its creator may.

    A workload sees that of its tenant, in no role of a person.
    """
    if caller.kind == "workload":
        theirs = (
            select(
                organizations.c.id,
                organizations.c.name,
                organizations.c.slug,
                organizations.c.created_at,
                literal(caller.kind).label("role"),
            )
            .join(tenants, tenants.c.organization_id == organizations.c.id)
            .where(tenants.c.id == caller.tenant_id)
        )
        return list(connection.execute(theirs))
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
        query = query.join(tenants, tenants.c.organization_id == organizations.c.id).where(may_enter(caller))
    return sorted(connection.execute(query), key=lambda row: (row.name.casefold(), row.id))
