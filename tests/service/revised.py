"""Revisions of a database, and rows in all tables that increase them."""

from sqlalchemy import Table, select

from service.db import tables
from service.db.engine import Database
from tests.service import factories
from tests.service.queries import fetch


def all_revisions(database: Database) -> dict[str, int]:
    return {row.domain: row.revision for row in fetch(database, select(tables.revisions))}


def fill(database: Database) -> None:
    """Add rows to the tables that the demo world leaves empty."""
    times = {"issued_at": factories.AT, "expires_at": factories.AT}
    with database.write() as connection:
        user = connection.scalar(select(tables.memberships.c.user_id).limit(1))
        identity = connection.scalar(select(tables.workload_identities.c.id).limit(1))
        tenant = connection.scalar(
            select(tables.tenants.c.id)
            .join(tables.memberships, tables.memberships.c.organization_id == tables.tenants.c.organization_id)
            .where(tables.memberships.c.user_id == user)
        )
        rows: dict[Table, factories.Row | list[factories.Row]] = {
            tables.sessions: factories.session(user_id=user),
            tables.identities: {"issuer": "i", "subject": "s", "user_id": user, "linked_at": factories.AT},
            tables.workload_tokens: {"token_hash": "h", "identity_id": identity} | times,
            tables.membership_tenants: {"user_id": user, "tenant_id": tenant},
        }
        factories.add(connection, rows)
