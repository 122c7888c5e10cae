"""Deleting an account, and bringing it back within 30 days. contract: account delete; checklist A03 to A07

The person's row stays, marked; everything that works in their name is ended in the same transaction and stays ended
when they are restored. Memberships are left alone: who comes back has the roles that are still there (hostile A16).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, func, select, update

from service.access import sessions
from service.db.engine import Record
from service.db.tables import api_keys, memberships, organizations, users

REVERSIBLE = timedelta(days=30)
OWNER = "owner"


def restorable_until(deleted_at: datetime) -> datetime:
    """The last instant at which the deletion can be reversed."""
    return deleted_at + REVERSIBLE


def owned_alone(connection: Connection, user_id: str) -> Sequence[Record]:
    """The organizations with other members whose only owner is this person: `id`, `name`."""
    others = (
        select(
            memberships.c.organization_id,
            func.count().label("members"),
            func.count().filter(memberships.c.role == OWNER).label("owners"),
        )
        .join(users, users.c.id == memberships.c.user_id)
        .where(users.c.deleted_at.is_(None), users.c.id != user_id)
        .group_by(memberships.c.organization_id)
        .subquery()
    )
    return connection.execute(
        select(organizations.c.id, organizations.c.name)
        .join(memberships, memberships.c.organization_id == organizations.c.id)
        .join(others, others.c.organization_id == organizations.c.id)
        .where(memberships.c.user_id == user_id, memberships.c.role == OWNER, others.c.owners == 0)
        .order_by(organizations.c.name)
    ).all()


def delete(connection: Connection, user_id: str, at: datetime) -> dict[str, int]:
    """Mark a person as deleted, and end their sessions and keys; how many those were."""
    connection.execute(update(users).where(users.c.id == user_id).values(deleted_at=at))
    ended = sessions.end_all(connection, user_id, reason="account_deleted", at=at)
    revoked = connection.execute(
        update(api_keys).where(api_keys.c.user_id == user_id, api_keys.c.revoked_at.is_(None)).values(revoked_at=at)
    )
    return {"sessions": ended, "apiKeys": revoked.rowcount}


def deleted_person(connection: Connection, email: str) -> Record | None:
    """A person by address, deleted or not: `id`, `email`, `name`, `deleted_at`."""
    return connection.execute(
        select(users.c.id, users.c.email, users.c.name, users.c.deleted_at)
        .where(users.c.email == email.strip().lower())
        .with_for_update()
    ).one_or_none()


def restore(connection: Connection, user_id: str) -> None:
    connection.execute(update(users).where(users.c.id == user_id).values(deleted_at=None))
