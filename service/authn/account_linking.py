"""Links subjects of an external issuer to accounts, and starts the sessions of their sign-ins.

The first sign-in finds the account by its verified e-mail address and links the subject (`identities`). Later
sign-ins use only the subject, so an address that the issuer reassigns gives no access. An account has a single subject
per issuer.

A sign-in is identified by `auth_time` and `sid`, or `sub`: a provider may keep its `sid` after a sign-out here.
`auth_time` (RFC 9068 2.2.1) is required, because a refreshed token without it could predate `revoke-all`.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, select

from service.audit import entries
from service.audit.entries import AuditEvent
from service.authn import sessions
from service.authn.sessions import Session
from service.db.dialect import upsert_insert
from service.db.tables import identities, users
from service.errors import reauthentication_required
from service.principal import Principal

logger = logging.getLogger(__name__)

# Column lengths. A subject has at most 255 characters (OpenID Connect Core 2).
MAX_SUBJECT_LENGTH = 255
MAX_KEY_LENGTH = 200


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
    session_id = sessions.start_once(
        connection, issuer=issuer, subject=sign_in_key, user_id=user_id, location=location, at=at
    )
    if session_id:
        actor = replace(principal, kind="session", user_id=user_id, email=user.email, session_id=session_id)
        entries.record(connection, actor, event=AuditEvent.SESSION_START, target=f"session:{session_id}", at=at)
    session = sessions.find(connection, issuer=issuer, subject=sign_in_key)
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
