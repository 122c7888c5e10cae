"""Sessions of people: started by a sign-in, looked up on every request, ended once. contract: Session; checklist E

A session is the local issuer's `sid` claim, or what an outside issuer's token says of its sign-in
(`service/authn/account_linking.py`); the row is the only thing that says whether it is still alive, so ending it acts
on the next request, whoever the issuer is. Its end (30 days after the sign-in) is fixed at the start and never moves.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, insert, select, update

from service.audit import entries
from service.db.engine import Record, upsert_insert
from service.db.tables import authorization_codes, device_codes, sessions, users
from service.principal import Principal
from service.principals.conditions import LIVE_SESSION, OPEN_SESSION

LIFETIME = timedelta(days=30)
# `last_seen_at` is for people to read; a write for each request would cost more than it tells.
SEEN_STEP = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Session:
    """A session and the person it belongs to; `alive_at` says whether it still counts."""

    id: str
    user_id: str
    email: str
    last_seen_at: datetime
    expires_at: datetime
    ended_at: datetime | None
    user_deleted_at: datetime | None

    def alive_at(self, instant: datetime) -> bool:
        return self.ended_at is None and self.user_deleted_at is None and instant < self.expires_at


def start(
    connection: Connection,
    *,
    issuer: str,
    user_id: str,
    device: str,
    place: str,
    at: datetime,
    session_id: str,
    subject: str | None = None,
) -> None:
    """Write a new session; `subject` is the issuer's name for it, by default our own id."""
    connection.execute(insert(sessions).values(_row(issuer, user_id, device, place, at, session_id, subject)))


def start_once(
    connection: Connection, *, issuer: str, subject: str, user_id: str, place: str, at: datetime
) -> str | None:
    """Write the session of an outside issuer's sign-in; its id, None when another request just did."""
    row = _row(issuer, user_id, "", place, at, str(uuid.uuid4()), subject)
    # Told by the row that comes back: psycopg gives no row count for an insert.
    once = upsert_insert(connection, sessions).values(row).on_conflict_do_nothing()
    started: str | None = connection.scalar(once.returning(sessions.c.id))
    return started


def _row(
    issuer: str, user_id: str, device: str, place: str, at: datetime, session_id: str, subject: str | None
) -> dict[str, Any]:
    return {
        "id": session_id,
        "issuer": issuer,
        "subject": subject or session_id,
        "user_id": user_id,
        "device": device,
        "place": place,
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
    """The session an issuer's token belongs to, alive or not."""
    row = connection.execute(_SESSION.where(sessions.c.issuer == issuer, sessions.c.subject == subject)).one_or_none()
    return Session(*row) if row else None


def get(connection: Connection, session_id: str) -> Session | None:
    """The session of that id, alive or not."""
    row = connection.execute(_SESSION.where(sessions.c.id == session_id)).one_or_none()
    return Session(*row) if row else None


def confirm(connection: Connection, caller: Principal, at: datetime) -> Principal | None:
    """Check on the connection of a change that the session of a caller, and their token, are still good.

    The row stays as it is until the change is committed.
    """
    if caller.token_ends_at is not None and at.timestamp() >= caller.token_ends_at:
        return None
    live = (
        select(sessions.c.id)
        .join(users, users.c.id == sessions.c.user_id)
        .where(sessions.c.id == caller.session_id, LIVE_SESSION)
        .with_for_update(read=True, of=sessions)
    )
    return None if connection.scalar(live, {"now": at}) is None else caller


def seen(connection: Connection, session: Session, *, at: datetime) -> None:
    """Move `last_seen_at`, unless another request just did."""
    connection.execute(
        update(sessions)
        .where(sessions.c.id == session.id, sessions.c.last_seen_at <= at - SEEN_STEP)
        .values(last_seen_at=at)
    )


def end(connection: Connection, session_id: str, *, reason: str, at: datetime) -> bool:
    """End a session; False when it had ended before. Its access and refresh tokens die with it."""
    ended = connection.execute(
        update(sessions)
        .where(sessions.c.id == session_id, sessions.c.ended_at.is_(None))
        .values(ended_at=at, end_reason=reason)
    )
    return ended.rowcount == 1


def end_all(connection: Connection, user_id: str, *, reason: str, at: datetime) -> int:
    """End every session of a person, and what could still become one; how many sessions those were. checklist E02

    A sign-in that was approved and not yet collected is one in the making; and of an outside issuer, tokens of
    sign-ins this platform has not seen yet are not taken for new ones any more (`newcomers.first_sight`).

    The sessions come last: on PostgreSQL, what these rows are waited for may have been another session's start.
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


def active(connection: Connection, user_id: str, at: datetime) -> Sequence[Record]:
    """The sessions of a person that count at an instant, last seen first."""
    return connection.execute(
        select(sessions)
        .where(sessions.c.user_id == user_id, OPEN_SESSION)
        .order_by(sessions.c.last_seen_at.desc(), sessions.c.id),
        {"now": at},
    ).all()


def sign_out(connection: Connection, caller: Principal, session_id: str, *, at: datetime) -> None:
    """End a session because its person asked, with its audit entry."""
    if end(connection, session_id, reason="signed_out", at=at):
        entries.record(connection, caller, operation="session.end", target=f"session:{session_id}", at=at)
