"""Who a token of an outside issuer stands for, and which of its sign-ins start a session here. hostile C13, H06

**The person.** People are not made here: an account is there before its person first signs in. The first sign-in finds
it by an e-mail address that the issuer has verified, and pins the issuer's subject to it (`identities`); from then on
the subject alone counts, whatever address it comes with. So an address that the issuer gives to somebody else one day
leads nowhere, and an account with a subject is not taken over by another one.

**The session.** It is one sign-in: the issuer's `sid` and `auth_time`, without `sid` the subject and `auth_time` (a
provider keeps its own session, and its `sid`, when somebody signs out here and in again). `auth_time` is required: a
token that does not say when its person signed in could have been refreshed from a sign-in before `revoke-all` that
was never seen here, and nothing in it would tell (RFC 9068, 2.2.1 has the claim).
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, select

from service.audit import entries
from service.audit.events import AuditEvent
from service.authn import sessions
from service.authn.sessions import Session
from service.db.dialect import upsert_insert
from service.db.tables import identities, users
from service.errors import reauthentication_required
from service.principal import Principal

logger = logging.getLogger(__name__)

# What the columns hold; a subject has at most 255 characters (OpenID Connect Core 2).
LONGEST_SUBJECT = 255
LONGEST_NAME = 200


def sign_in_key(claims: Mapping[str, Any]) -> str | None:
    """The name of the sign-in behind a token; None when it names none."""
    auth_time, subject, sid = claims.get("auth_time"), claims["sub"], claims.get("sid")
    if not isinstance(auth_time, int) or isinstance(auth_time, bool) or not 0 < auth_time < 1 << 40:
        logger.info("a token is refused: it has no auth_time, so nobody knows which sign-in it belongs to")
        return None
    name = f"sid {sid} {auth_time}" if isinstance(sid, str) and sid else f"sub {subject} {auth_time}"
    if len(subject) > LONGEST_SUBJECT or not name.isprintable():
        return None
    return (
        name
        if len(name) <= LONGEST_NAME and name.isprintable()
        else sha256(name.encode("utf-8", "replace")).hexdigest()
    )


def account_of(connection: Connection, *, issuer: str, subject: str) -> str | None:
    """The account a subject is pinned to."""
    query = select(identities.c.user_id).where(identities.c.issuer == issuer, identities.c.subject == subject)
    found: str | None = connection.scalar(query)
    return found


def start_session_for_new_sign_in(
    connection: Connection,
    *,
    issuer: str,
    name: str,
    claims: Mapping[str, Any],
    signed_in: float,
    caller: Principal,
    place: str,
    at: datetime,
) -> Session | None:
    """Start the session of a sign-in not seen before, and pin its subject when that is new; None for a stranger.

    Args:
        name: What `name_of` says of the claims.
        claims: Of a token that is signed, for us and in time.
        signed_in: When that was by our clock, at the latest; seconds since 1970.
        caller: Whoever asks, nobody so far: only its request id counts.

    Raises:
        Refusal: 401 REAUTHENTICATION_REQUIRED for a sign-in from before the person ended all their sessions.
    """
    user_id = _linked_account(connection, issuer, claims, caller, at)
    if user_id is None:
        return None
    person = connection.execute(
        select(users.c.email, users.c.sessions_revoked_at)
        .where(users.c.id == user_id, users.c.deleted_at.is_(None))
        # So that `end_all` is either over, or finds this session.
        .with_for_update(read=True)
    ).one_or_none()
    if person is None:
        return None
    if person.sessions_revoked_at is not None and signed_in <= person.sessions_revoked_at.timestamp():
        raise reauthentication_required(int((at - person.sessions_revoked_at).total_seconds()))
    started = sessions.start_once(connection, issuer=issuer, subject=name, user_id=user_id, place=place, at=at)
    if started:
        known = replace(caller, kind="session", user_id=user_id, email=person.email, session_id=started)
        entries.record(connection, known, event=AuditEvent.SESSION_START, target=f"session:{started}", at=at)
    session = sessions.find(connection, issuer=issuer, subject=name)
    # The name may be taken: an issuer that gives one `sid` to two people gives neither the other's session.
    return session if session and session.user_id == user_id else None


def _linked_account(
    connection: Connection, issuer: str, claims: Mapping[str, Any], caller: Principal, at: datetime
) -> str | None:
    """The account of a token's subject, pinned now where the subject is new and its verified address is known."""
    subject = claims["sub"]
    if (account := account_of(connection, issuer=issuer, subject=subject)) is not None:
        return account
    email = verified_email(claims)
    if email is None:
        logger.info("subject %r of %s is refused: it is new, and comes without a verified address", subject, issuer)
        return None
    person = connection.scalar(select(users.c.id).where(users.c.email == email, users.c.deleted_at.is_(None)))
    if person is None:
        logger.info("subject %r of %s is refused: nobody here has its address", subject, issuer)
        return None
    row = {"issuer": issuer, "subject": subject, "user_id": person, "linked_at": at}
    once = upsert_insert(connection, identities).values(row).on_conflict_do_nothing()
    if connection.scalar(once.returning(identities.c.user_id)):
        known = replace(caller, kind="session", user_id=person, email=email)
        details = {"issuer": issuer, "subject": subject}
        entries.record(
            connection, known, event=AuditEvent.IDENTITY_LINK, target=f"user:{person}", details=details, at=at
        )
        return str(person)
    # Either another request of the same subject was first, or the account is another subject's: that one stays.
    account = account_of(connection, issuer=issuer, subject=subject)
    if account is None:
        logger.warning("subject %r of %s is refused: its address belongs to another subject", subject, issuer)
    return account


def verified_email(claims: Mapping[str, Any]) -> str | None:
    """The address of a token, when the issuer says, as `true` and nothing like it, that it has verified it."""
    email = claims.get("email")
    if claims.get("email_verified") is not True or not isinstance(email, str):
        return None
    return email.strip().lower()
