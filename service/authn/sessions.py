"""Sessions of users, and the accounts of subjects of an external issuer.

The local issuer identifies a session by the `sid` claim, an external issuer by the sign-in. Every request compares a
revision, so ending a session takes effect immediately. It expires 30 days after the sign-in.

The first sign-in at an external issuer finds the account by its verified e-mail address and links the subject
(`identities`). Later sign-ins use only the subject, so an address that the issuer reassigns gives no access. An account
has a single subject per issuer.

A sign-in is identified by `auth_time` and `sid`, or `sub`: a provider may keep its `sid` after a sign-out here.
`auth_time` (RFC 9068 2.2.1) is required, because a refreshed token without it could predate `revoke-all`.
"""

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, insert, select, update

from service.audit import entries
from service.audit.entries import AuditEvent
from service.db.dialect import upsert_insert
from service.db.engine import Record
from service.db.revisions import lock_domains
from service.db.tables import authorization_codes, device_codes, identities, sessions, users
from service.errors import reauthentication_required
from service.principal import Principal
from service.principals.live_credentials import LIVE_SESSION, OPEN_SESSION

logger = logging.getLogger(__name__)

LIFETIME = timedelta(days=30)

# Column lengths. A subject has at most 255 characters (OpenID Connect Core 2).
MAX_SUBJECT_LENGTH = 255
MAX_KEY_LENGTH = 200


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


def sign_in_key(claims: Mapping[str, Any]) -> str | None:
    """Return the key of a token's sign-in; None if the claims do not identify it."""
    auth_time, subject, sid = claims.get("auth_time"), claims["sub"], claims.get("sid")
    if not isinstance(auth_time, int) or isinstance(auth_time, bool) or not 0 < auth_time < 1 << 40:
        logger.info("a token is refused: it has no auth_time, so its sign-in is unknown")
        return None
    key = f"sid {sid} {auth_time}" if isinstance(sid, str) and sid else f"sub {subject} {auth_time}"
    if len(subject) > MAX_SUBJECT_LENGTH or not key.isprintable():
        return None
    return key if len(key) <= MAX_KEY_LENGTH else sha256(key.encode("utf-8", "replace")).hexdigest()


def get_linked_account(connection: Connection, *, issuer: str, subject: str) -> str | None:
    query = select(identities.c.user_id).where(identities.c.issuer == issuer, identities.c.subject == subject)
    user_id: str | None = connection.scalar(query)
    return user_id


def start_session_for_new_sign_in(
    connection: Connection,
    *,
    issuer: str,
    sign_in_key: str,
    claims: Mapping[str, Any],
    signed_in_at: float,
    principal: Principal,
    location: str,
    at: datetime,
) -> Session | None:
    """Create the session of a new sign-in and link its subject; return None if no account matches.

    Args:
        claims: of a verified token.
        signed_in_at: the latest possible time of the sign-in, in seconds since 1970.
        principal: the anonymous principal of the request.

    Raises:
        ApiError: 401 REAUTHENTICATION_REQUIRED for a sign-in before the user ended all sessions.
    """
    user_id = _link_account(connection, issuer, claims, principal, at)
    if user_id is None:
        return None
    user = connection.execute(
        select(users.c.email, users.c.sessions_revoked_at)
        .where(users.c.id == user_id, users.c.deleted_at.is_(None))
        # Serializes with `sessions.end_all`.
        .with_for_update(read=True)
    ).one_or_none()
    if user is None:
        return None
    if user.sessions_revoked_at is not None and signed_in_at <= user.sessions_revoked_at.timestamp():
        raise reauthentication_required(int((at - user.sessions_revoked_at).total_seconds()))
    session_id = start_once(connection, issuer=issuer, subject=sign_in_key, user_id=user_id, location=location, at=at)
    if session_id:
        actor = replace(principal, kind="session", user_id=user_id, email=user.email, session_id=session_id)
        entries.record(connection, actor, event=AuditEvent.SESSION_START, target=f"session:{session_id}", at=at)
    session = find(connection, issuer=issuer, subject=sign_in_key)
    # An issuer may use the same `sid` for two users.
    return session if session and session.user_id == user_id else None


def _link_account(
    connection: Connection, issuer: str, claims: Mapping[str, Any], principal: Principal, at: datetime
) -> str | None:
    """Return the account of a subject; link a new subject by its verified address."""
    subject = claims["sub"]
    if (account := get_linked_account(connection, issuer=issuer, subject=subject)) is not None:
        return account
    email = verified_email(claims)
    if email is None:
        logger.info(
            "subject %r of %s is refused: it is new and its token has no verified e-mail address", subject, issuer
        )
        return None
    user_id = connection.scalar(select(users.c.id).where(users.c.email == email, users.c.deleted_at.is_(None)))
    if user_id is None:
        logger.info("subject %r of %s is refused: no account has its e-mail address", subject, issuer)
        return None
    row = {"issuer": issuer, "subject": subject, "user_id": user_id, "linked_at": at}
    statement = upsert_insert(connection, identities).values(row).on_conflict_do_nothing()
    if connection.scalar(statement.returning(identities.c.user_id)):
        actor = replace(principal, kind="session", user_id=user_id, email=email)
        details = {"issuer": issuer, "subject": subject}
        entries.record(
            connection, actor, event=AuditEvent.IDENTITY_LINK, target=f"user:{user_id}", details=details, at=at
        )
        return str(user_id)
    # A concurrent request linked the subject, or the account has another.
    account = get_linked_account(connection, issuer=issuer, subject=subject)
    if account is None:
        logger.warning(
            "subject %r of %s is refused: its e-mail address is linked to another subject",
            subject,
            issuer,
        )
    return account


def verified_email(claims: Mapping[str, Any]) -> str | None:
    """Return the e-mail address if `email_verified` is exactly `true`."""
    email = claims.get("email")
    if claims.get("email_verified") is not True or not isinstance(email, str):
        return None
    return email.strip().lower()
