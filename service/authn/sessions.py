"""Sessions of users.

The local issuer identifies a session by the `sid` claim, an external issuer by the sign-in (`account_linking`). Every
request compares a revision, so ending it takes effect immediately. It expires 30 days after the sign-in.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, insert, select, update

from service.audit import entries
from service.audit.entries import AuditEvent
from service.db.dialect import upsert_insert
from service.db.engine import Record
from service.db.revisions import lock_domains
from service.db.tables import authorization_codes, device_codes, sessions, users
from service.principal import Principal
from service.principals.live_credentials import LIVE_SESSION, OPEN_SESSION

LIFETIME = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Session:
    id: str
    user_id: str
    email: str
    last_seen_at: datetime
    expires_at: datetime
    ended_at: datetime | None
    user_deleted_at: datetime | None

    def is_active_at(self, instant: datetime) -> bool:
        return self.ended_at is None and self.user_deleted_at is None and instant < self.expires_at


def start(
    connection: Connection,
    *,
    issuer: str,
    user_id: str,
    device: str,
    location: str,
    at: datetime,
    session_id: str,
    subject: str | None = None,
) -> None:
    """Insert a session; `subject` is its id at the issuer, by default `session_id`."""
    connection.execute(insert(sessions).values(_row(issuer, user_id, device, location, at, session_id, subject)))


def start_once(
    connection: Connection, *, issuer: str, subject: str, user_id: str, location: str, at: datetime
) -> str | None:
    """Insert the session of an external sign-in; return its id, None if it exists."""
    row = _row(issuer, user_id, "", location, at, str(uuid.uuid4()), subject)
    # RETURNING, because psycopg has no row count for an insert.
    statement = upsert_insert(connection, sessions).values(row).on_conflict_do_nothing()
    session_id: str | None = connection.scalar(statement.returning(sessions.c.id))
    return session_id


def _row(
    issuer: str, user_id: str, device: str, location: str, at: datetime, session_id: str, subject: str | None
) -> dict[str, Any]:
    return {
        "id": session_id,
        "issuer": issuer,
        "subject": subject or session_id,
        "user_id": user_id,
        "device": device,
        "place": location,
        "started_at": at,
        "last_seen_at": at,
        "expires_at": at + LIFETIME,
    }


_SESSION = select(
    sessions.c.id,
    sessions.c.user_id,
    users.c.email,
    sessions.c.last_seen_at,
    sessions.c.expires_at,
    sessions.c.ended_at,
    users.c.deleted_at.label("user_deleted_at"),
).join(users, users.c.id == sessions.c.user_id)


def find(connection: Connection, *, issuer: str, subject: str) -> Session | None:
    row = connection.execute(_SESSION.where(sessions.c.issuer == issuer, sessions.c.subject == subject)).one_or_none()
    return Session(*row) if row else None


def get(connection: Connection, session_id: str) -> Session | None:
    row = connection.execute(_SESSION.where(sessions.c.id == session_id)).one_or_none()
    return Session(*row) if row else None


def confirm(connection: Connection, principal: Principal, at: datetime) -> Principal | None:
    """Return None unless session and token are valid."""
    if principal.token_ends_at is not None and at.timestamp() >= principal.token_ends_at:
        return None
    active = (
        select(sessions.c.id)
        .join(users, users.c.id == sessions.c.user_id)
        .where(sessions.c.id == principal.session_id, LIVE_SESSION)
    )
    return None if connection.scalar(active, {"now": at}) is None else principal


def end(connection: Connection, user_id: str, session_id: str, *, reason: str, at: datetime) -> bool:
    """End a session with its access and refresh tokens; return False if it had already ended."""
    lock_domains(connection, [user_id])
    ended = connection.execute(
        update(sessions)
        .where(sessions.c.id == session_id, sessions.c.ended_at.is_(None))
        .values(ended_at=at, end_reason=reason)
    )
    return ended.rowcount == 1


def end_all(connection: Connection, user_id: str, *, reason: str, at: datetime) -> int:
    """End every session and pending sign-in of a user; return the number of sessions.

    Unused approved codes are invalidated, and `sessions_revoked_at` rejects earlier sign-ins at an external issuer. The
    sessions are updated last, because another may start while the other updates wait for locks (PostgreSQL).
    """
    connection.execute(update(users).where(users.c.id == user_id).values(sessions_revoked_at=at))
    connection.execute(
        update(device_codes)
        .where(device_codes.c.user_id == user_id, device_codes.c.status == "approved")
        .values(status="denied")
    )
    connection.execute(
        update(authorization_codes)
        .where(authorization_codes.c.user_id == user_id, authorization_codes.c.used_at.is_(None))
        .values(expires_at=at)
    )
    ended = connection.execute(
        update(sessions).where(sessions.c.user_id == user_id, OPEN_SESSION).values(ended_at=at, end_reason=reason),
        {"now": at},
    )
    return ended.rowcount


def list_active(connection: Connection, user_id: str, at: datetime) -> Sequence[Record]:
    return connection.execute(
        select(sessions)
        .where(sessions.c.user_id == user_id, OPEN_SESSION)
        .order_by(sessions.c.last_seen_at.desc(), sessions.c.id),
        {"now": at},
    ).all()


def sign_out(connection: Connection, principal: Principal, session_id: str, *, at: datetime) -> None:
    if end(connection, str(principal.user_id), session_id, reason="signed_out", at=at):
        entries.record(connection, principal, event=AuditEvent.SESSION_END, target=f"session:{session_id}", at=at)
