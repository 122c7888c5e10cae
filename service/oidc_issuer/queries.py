"""Generation, digests and SQL of device codes, authorization codes and refresh tokens.

A conditional UPDATE consumes a code or token, so that only the first of concurrent requests succeeds. The database has
only their HMAC-SHA256, keyed with the platform's secret and including their kind, so that kinds are not confused.
"""

import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal

from sqlalchemy import Connection, Row, insert, select, update

from service.db.tables import authorization_codes, device_codes, refresh_tokens, sessions, users


@dataclass(frozen=True, slots=True)
class Person:
    id: str
    email: str
    name: str


def get_person(connection: Connection, user_id: str | None) -> Person | None:
    return _select_person(connection, users.c.id == user_id) if user_id else None


def get_person_by_email(connection: Connection, email: str) -> Person | None:
    return _select_person(connection, users.c.email == email.strip().lower()) if email.isprintable() else None


def _select_person(connection: Connection, condition: Any) -> Person | None:
    row = connection.execute(
        select(users.c.id, users.c.email, users.c.name).where(condition, users.c.deleted_at.is_(None))
    ).one_or_none()
    return Person(row.id, row.email, row.name) if row else None


# Device codes


def add_device_code(connection: Connection, **values: Any) -> None:
    connection.execute(insert(device_codes).values(status="pending", **values))


def get_device_code(connection: Connection, device_code_hash: str) -> Row[Any] | None:
    return connection.execute(
        select(device_codes).where(device_codes.c.device_code_hash == device_code_hash)
    ).one_or_none()


def get_device_code_by_user_code(connection: Connection, user_code_hash: str) -> Row[Any] | None:
    return connection.execute(select(device_codes).where(device_codes.c.user_code == user_code_hash)).one_or_none()


def decide_device_code(connection: Connection, device_code_hash: str, *, user_id: str | None) -> bool:
    """Approve a code for a user, or deny it for None; return False if it is not pending."""
    status = "approved" if user_id else "denied"
    return _updates_one_row(
        connection,
        update(device_codes)
        .where(device_codes.c.device_code_hash == device_code_hash, device_codes.c.status == "pending")
        .values(status=status, user_id=user_id),
    )


def consume_device_code(connection: Connection, device_code_hash: str) -> bool:
    return _updates_one_row(
        connection,
        update(device_codes)
        .where(device_codes.c.device_code_hash == device_code_hash, device_codes.c.status == "approved")
        .values(status="used"),
    )


def record_poll(connection: Connection, device_code_hash: str, *, at: datetime, interval: int) -> None:
    connection.execute(
        update(device_codes)
        .where(device_codes.c.device_code_hash == device_code_hash)
        .values(last_polled_at=at, interval=interval)
    )


# Authorization codes


def add_authorization_code(connection: Connection, **values: Any) -> None:
    connection.execute(insert(authorization_codes).values(**values))


def get_authorization_code(connection: Connection, code_hash: str) -> Row[Any] | None:
    return connection.execute(
        select(authorization_codes).where(authorization_codes.c.code_hash == code_hash)
    ).one_or_none()


def consume_authorization_code(connection: Connection, code_hash: str, *, session_id: str, at: datetime) -> bool:
    """Consume a code for a session; return False if it is consumed or expired."""
    return _updates_one_row(
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


def get_refresh_token(connection: Connection, token_hash: str) -> Row[Any] | None:
    """Return the columns of `refresh_tokens`, and user_id, ended_at and session_expires_at of the session."""
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


def consume_refresh_token(connection: Connection, token_hash: str, *, at: datetime) -> bool:
    return _updates_one_row(
        connection,
        update(refresh_tokens)
        .where(refresh_tokens.c.token_hash == token_hash, refresh_tokens.c.used_at.is_(None))
        .values(used_at=at),
    )


def _updates_one_row(connection: Connection, statement: Any) -> bool:
    return connection.execute(statement).rowcount == 1


CodeKind = Literal["device", "user", "code", "refresh"]

# RFC 8628 6.1: without vowels, to avoid words.
USER_CODE_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
USER_CODE_HALF = 4


def mint() -> str:
    """Generate a secret of 43 URL-safe characters (256 bits)."""
    return secrets.token_urlsafe(32)


def mint_user_code() -> str:
    """Generate a code such as `BCDF-GHJK` (34 bits)."""
    halves = ("".join(secrets.choice(USER_CODE_LETTERS) for _ in range(USER_CODE_HALF)) for _ in range(2))
    return "-".join(halves)


def normalize_user_code(typed: str) -> str:
    """Normalize a typed user code: ignore case and other characters (RFC 8628 6.1)."""
    letters = "".join(letter for letter in typed.upper() if letter in USER_CODE_LETTERS)
    return f"{letters[:USER_CODE_HALF]}-{letters[USER_CODE_HALF:]}"


def digest(secret: bytes, kind: CodeKind, code: str) -> str:
    return hmac.new(secret, f"{kind}:{code}".encode(), sha256).hexdigest()


def user_code_digest(secret: bytes, user_code: str) -> str:
    """Return the stored digest of a user code, 16 hex digits."""
    return digest(secret, "user", user_code)[:16]
