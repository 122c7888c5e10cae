"""What the issuer keeps: device codes, authorization codes, refresh tokens. SQL only.

Every code is used up by one UPDATE that names the state it must be in, and the row count says who was first. That
holds on both databases, whatever else runs at the same time.

The secrets the issuer hands out, and what is stored of them.

Device codes, authorization codes and refresh tokens are 256 random bits. At rest there is only an HMAC-SHA256 under the
platform's own secret, with the kind of the code in front, so that a digest of one kind never stands for another.
"""

import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Literal

from sqlalchemy import Connection, Row, delete, insert, select, update

from service.db.tables import authorization_codes, device_codes, refresh_tokens, sessions, users

# How long the rows of dead codes are kept: long enough for a replay to be seen and answered for what it is.
KEPT_AFTER_EXPIRY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who can sign in."""

    id: str
    email: str
    name: str


def person(connection: Connection, user_id: str | None) -> Person | None:
    """The person of that id; None when deleted."""
    return _person(connection, users.c.id == user_id) if user_id else None


def person_by_email(connection: Connection, email: str) -> Person | None:
    """The person of that address; None when unknown or deleted."""
    return _person(connection, users.c.email == email.strip().lower()) if email.isprintable() else None


def _person(connection: Connection, condition: Any) -> Person | None:
    row = connection.execute(
        select(users.c.id, users.c.email, users.c.name).where(condition, users.c.deleted_at.is_(None))
    ).one_or_none()
    return Person(row.id, row.email, row.name) if row else None


# Device codes


def add_device_code(connection: Connection, **values: Any) -> None:
    connection.execute(insert(device_codes).values(status="pending", **values))


def device_code(connection: Connection, device_code_hash: str) -> Row[Any] | None:
    return connection.execute(
        select(device_codes).where(device_codes.c.device_code_hash == device_code_hash)
    ).one_or_none()


def device_code_of(connection: Connection, user_code_hash: str) -> Row[Any] | None:
    """The row a person's code belongs to. The column `user_code` holds its digest, like every code here."""
    return connection.execute(select(device_codes).where(device_codes.c.user_code == user_code_hash)).one_or_none()


def answer_device_code(connection: Connection, device_code_hash: str, *, user_id: str | None) -> bool:
    """Approve for a person, or deny with None; False when it was answered before."""
    status = "approved" if user_id else "denied"
    return _changed_one(
        connection,
        update(device_codes)
        .where(device_codes.c.device_code_hash == device_code_hash, device_codes.c.status == "pending")
        .values(status=status, user_id=user_id),
    )


def take_device_code(connection: Connection, device_code_hash: str) -> bool:
    """Use an approved device code up; False when somebody was faster."""
    return _changed_one(
        connection,
        update(device_codes)
        .where(device_codes.c.device_code_hash == device_code_hash, device_codes.c.status == "approved")
        .values(status="used"),
    )


def note_poll(connection: Connection, device_code_hash: str, *, at: datetime, interval: int) -> None:
    connection.execute(
        update(device_codes)
        .where(device_codes.c.device_code_hash == device_code_hash)
        .values(last_polled_at=at, interval=interval)
    )


# Authorization codes


def add_authorization_code(connection: Connection, **values: Any) -> None:
    connection.execute(insert(authorization_codes).values(**values))


def authorization_code(connection: Connection, code_hash: str) -> Row[Any] | None:
    return connection.execute(
        select(authorization_codes).where(authorization_codes.c.code_hash == code_hash)
    ).one_or_none()


def take_authorization_code(connection: Connection, code_hash: str, *, session_id: str, at: datetime) -> bool:
    """Use a code up for a session; False when somebody was faster, or ended all sessions."""
    return _changed_one(
        connection,
        update(authorization_codes)
        .where(
            authorization_codes.c.code_hash == code_hash,
            authorization_codes.c.used_at.is_(None),
            authorization_codes.c.expires_at > at,
        )
        .values(used_at=at, session_id=session_id),
    )


# Refresh tokens


def add_refresh_token(connection: Connection, **values: Any) -> None:
    connection.execute(insert(refresh_tokens).values(**values))


def refresh_token(connection: Connection, token_hash: str) -> Row[Any] | None:
    """The token with its session: columns of `refresh_tokens`, and user_id, ended_at and session_expires_at."""
    return connection.execute(
        select(
            refresh_tokens,
            sessions.c.user_id,
            sessions.c.ended_at,
            sessions.c.expires_at.label("session_expires_at"),
        )
        .join(sessions, sessions.c.id == refresh_tokens.c.session_id)
        .where(refresh_tokens.c.token_hash == token_hash)
    ).one_or_none()


def take_refresh_token(connection: Connection, token_hash: str, *, at: datetime) -> bool:
    """Use a refresh token up; False when it was used before, or somebody was faster."""
    return _changed_one(
        connection,
        update(refresh_tokens)
        .where(refresh_tokens.c.token_hash == token_hash, refresh_tokens.c.used_at.is_(None))
        .values(used_at=at),
    )


def forget_expired(connection: Connection, *, at: datetime) -> None:
    """Remove the rows of codes and tokens that expired long ago; called when somebody signs in."""
    limit = at - KEPT_AFTER_EXPIRY
    for table in (device_codes, authorization_codes, refresh_tokens):
        connection.execute(delete(table).where(table.c.expires_at < limit))


def _changed_one(connection: Connection, statement: Any) -> bool:
    return connection.execute(statement).rowcount == 1


CodeKind = Literal["device", "user", "code", "refresh"]

# No vowels (no words by accident), no letters that look like another.
USER_CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
USER_CODE_HALF = 4


def mint() -> str:
    """A new secret, 43 characters that need no escaping."""
    return secrets.token_urlsafe(32)


def mint_user_code() -> str:
    """A code a person can read out and type, such as `BCDF-GHJK`; 34 random bits, good for minutes only."""
    halves = ("".join(secrets.choice(USER_CODE_LETTERS) for _ in range(USER_CODE_HALF)) for _ in range(2))
    return "-".join(halves)


def normal_user_code(typed: str) -> str:
    """A typed user code as it was given out: case, spaces and the dash do not matter. RFC 8628 section 6.1"""
    letters = "".join(letter for letter in typed.upper() if letter in USER_CODE_LETTERS)
    return f"{letters[:USER_CODE_HALF]}-{letters[USER_CODE_HALF:]}"


def digest(secret: bytes, kind: CodeKind, code: str) -> str:
    """What is stored of a code, 64 hex digits."""
    return hmac.new(secret, f"{kind}:{code}".encode(), sha256).hexdigest()


def user_code_digest(secret: bytes, user_code: str) -> str:
    """What is stored of a user code: 16 hex digits, which is more than the code itself holds."""
    return digest(secret, "user", user_code)[:16]
