"""API keys: format, digest and authentication.

A secret is `fmk_`, 30 random base62 characters and the base62 CRC32 of these in 6 characters. The checksum rejects
typing errors and guesses without a database lookup. Only the first 12 characters (unique, for the lookup) and an
HMAC-SHA256 with the secret key of the platform are stored, so a copy of the database contains no usable key.
"""

import hmac
import re
import secrets
from binascii import crc32
from dataclasses import replace
from datetime import datetime
from hashlib import sha256

from sqlalchemy import Connection, bindparam, select, update

from service import errors
from service.authn import rate_limit
from service.authn.sessions import LAST_SEEN_INTERVAL
from service.db.engine import Database, Record
from service.db.errors import ignore_if_read_only
from service.db.tables import api_keys, users
from service.principal import Principal
from service.principals.conditions import LIVE_KEY

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
TYPE_PREFIX = "fmk_"
RANDOM_LENGTH = 30
CHECKSUM_LENGTH = 6
PREFIX_LENGTH = 12
# A key or token, also a damaged one; and anything longer than the words and ids of a path, such as a JWT.
_SECRETS = re.compile(r"(fm[kw]_[0-9A-Za-z]{8})[0-9A-Za-z]+|([\w.~-]{12})[\w.~-]{28,}", re.ASCII)
_BODY = re.compile(rf"[0-9A-Za-z]{{{RANDOM_LENGTH + CHECKSUM_LENGTH}}}")


def mint(type_prefix: str = TYPE_PREFIX) -> str:
    """Generate a secret with 178 random bits."""
    body = "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_LENGTH))
    return type_prefix + body + checksum(body)


def checksum(body: str) -> str:
    """Return the CRC32 of the random part as six base62 digits, most significant first."""
    value = crc32(body.encode("ascii"))
    digits = []
    for _ in range(CHECKSUM_LENGTH):
        value, digit = divmod(value, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))


def is_well_formed(secret: str, type_prefix: str = TYPE_PREFIX) -> bool:
    """Return whether a text has the format and the checksum of a key."""
    if not secret.startswith(type_prefix) or not _BODY.fullmatch(secret[len(type_prefix) :]):
        return False
    return checksum(secret[len(type_prefix) : -CHECKSUM_LENGTH]) == secret[-CHECKSUM_LENGTH:]


def prefix(secret: str) -> str:
    """Return the first 12 characters, which are stored and displayed."""
    return secret[:PREFIX_LENGTH]


def digest(secret_key: bytes, secret: str) -> str:
    """Return the HMAC-SHA256 of a secret with the platform's key, as 64 hex digits."""
    return hmac.new(secret_key, secret.encode("ascii"), sha256).hexdigest()


def mask_secrets(path: str) -> str:
    """Shorten the secrets in a path, where a client may have put them by mistake."""
    return _SECRETS.sub(r"\1\2…", path)


def authenticate(
    database: Database, secret_key: bytes, secret: str, *, at: datetime, request_id: str, peer_uid: int | None
) -> Principal:
    """Return the principal of a well-formed secret, and count the request.

    Raises:
        ApiError: 401, the same for an unknown, wrong, expired or revoked key and for a deleted creator; 429 beyond the
            rate limit.
    """
    key_hash = digest(secret_key, secret)
    # No row for every invalid key, so that the response time does not tell the reason.
    parameters = {"prefix": prefix(secret), "hash": key_hash, "now": at}
    with database.read_committed() as connection:
        row = connection.execute(_KEY, parameters).one_or_none()
        if row is None or not hmac.compare_digest(key_hash, row.key_hash):
            raise errors.authentication_required()
        wait = _count_request(database, connection, row, at)
    if wait is not None:
        raise rate_limit.rate_limited(wait)
    return Principal(
        kind="api_key",
        request_id=request_id,
        user_id=row.user_id,
        email=row.email,
        key_id=row.id,
        tenant_id=row.tenant_id,
        scopes=tuple(row.scopes),
        peer_uid=peer_uid,
        expires_at=row.expires_at,
    )


def confirm(connection: Connection, principal: Principal, at: datetime) -> Principal | None:
    """Check in the transaction of a change that the key is still valid, and lock its row.

    Returns:
        The principal with the current scopes of the key; None if the key is no longer valid.
    """
    scopes = connection.scalar(_SCOPES, {"id": principal.key_id, "now": at})
    return None if scopes is None else replace(principal, scopes=tuple(scopes))


def _count_request(database: Database, lookup: Connection, row: Record, now: datetime) -> int | None:
    """Count a request and record the use of the key once a minute; return the seconds to wait beyond the limit."""
    wait: int | None = None
    with (
        ignore_if_read_only("a request of an API key could not be counted"),
        database.write_on(lookup) as connection,
    ):
        wait = rate_limit.consume(connection, row.id, row.rate_limit)
        if wait is None and (row.last_used_at is None or now - row.last_used_at >= LAST_SEEN_INTERVAL):
            connection.execute(update(api_keys).where(api_keys.c.id == row.id).values(last_used_at=now))
    return wait


# Module-level, because building a statement costs as much as running it.
_KEY = (
    select(
        api_keys.c.id,
        api_keys.c.user_id,
        api_keys.c.tenant_id,
        api_keys.c.key_hash,
        api_keys.c.scopes,
        api_keys.c.rate_limit,
        api_keys.c.expires_at,
        api_keys.c.last_used_at,
        users.c.email,
    )
    .join(users, users.c.id == api_keys.c.user_id)
    .where(
        api_keys.c.key_prefix == bindparam("prefix"),
        api_keys.c.key_hash == bindparam("hash"),
        LIVE_KEY,
    )
)
_SCOPES = (
    select(api_keys.c.scopes)
    .join(users, users.c.id == api_keys.c.user_id)
    .where(
        api_keys.c.id == bindparam("id"),
        LIVE_KEY,
    )
    .with_for_update(read=True, of=api_keys)
)
