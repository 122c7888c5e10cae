"""API keys: the shape of a secret, what is stored of it, and who holds one. checklist K, C01 to C03

A secret is `fmk_`, 30 random base62 characters and 6 that are the base62 CRC32 of the 30. The checksum refuses typos
and guesses before the database is asked. Stored are the first 12 characters (unique, to look it up) and an HMAC-SHA256
keyed with the platform's own secret, so that a stolen database proves nothing.
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
from service.authn.sessions import SEEN_STEP
from service.db.engine import Database, Record, ignore_if_read_only
from service.db.tables import api_keys, users
from service.principal import Principal
from service.principals.conditions import LIVE_KEY

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
MARK = "fmk_"
RANDOM_LENGTH = 30
CHECKSUM_LENGTH = 6
PREFIX_LENGTH = 12
# A key or token however damaged; and whatever is longer than the words and ids of any path: what an issuer hands out.
_SECRETS = re.compile(r"(fm[kw]_[0-9A-Za-z]{8})[0-9A-Za-z]+|([\w.~-]{12})[\w.~-]{28,}", re.ASCII)
_BODY = re.compile(rf"[0-9A-Za-z]{{{RANDOM_LENGTH + CHECKSUM_LENGTH}}}")


def mint(mark: str = MARK) -> str:
    """A new secret; 178 random bits."""
    body = "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_LENGTH))
    return mark + body + checksum(body)


def checksum(body: str) -> str:
    """CRC32 of the random part, six base62 digits, most significant first."""
    value = crc32(body.encode("ascii"))
    digits = []
    for _ in range(CHECKSUM_LENGTH):
        value, digit = divmod(value, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))


def well_formed(secret: str, mark: str = MARK) -> bool:
    """Whether the text can be a key at all: shape and checksum, exactly, nothing before or after."""
    if not secret.startswith(mark) or not _BODY.fullmatch(secret[len(mark) :]):
        return False
    return checksum(secret[len(mark) : -CHECKSUM_LENGTH]) == secret[-CHECKSUM_LENGTH:]


def prefix(secret: str) -> str:
    """The part that is stored and shown: the first 12 characters."""
    return secret[:PREFIX_LENGTH]


def digest(secret_key: bytes, secret: str) -> str:
    """What is stored of a secret: HMAC-SHA256 under the platform's key, 64 hex digits."""
    return hmac.new(secret_key, secret.encode("ascii"), sha256).hexdigest()


def masked(path: str) -> str:
    """A path without the secrets that somebody put into it by mistake. hostile C15"""
    return _SECRETS.sub(r"\1\2…", path)


def authenticate(
    database: Database, secret_key: bytes, secret: str, *, at: datetime, request_id: str, peer_uid: int | None
) -> Principal:
    """Return the caller of a well-formed secret, and count the request.

    Raises:
        Refusal: 401, in the same words for an unknown, wrong, expired or revoked key and for one whose creator is gone.
    """
    stored = digest(secret_key, secret)
    # Whatever is wrong with a key, the answer is no row: none takes longer to refuse than another (hostile C02).
    asked = {"prefix": prefix(secret), "hash": stored, "now": at}
    with database.read_newest() as connection:
        row = connection.execute(_KEY, asked).one_or_none()
        if row is None or not hmac.compare_digest(stored, row.key_hash):
            raise errors.authentication_required()
        wait = _counted(database, connection, row, at)
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


def confirm(connection: Connection, caller: Principal, at: datetime) -> Principal | None:
    """Check on the connection of a change that a caller's key is still good; the caller with the key's scopes now.

    The row stays as it is until the change is committed.
    """
    scopes = connection.scalar(_SCOPES, {"id": caller.key_id, "now": at})
    return None if scopes is None else replace(caller, scopes=tuple(scopes))


def _counted(database: Database, found_on: Connection, row: Record, now: datetime) -> int | None:
    """Count a request of a good key, and note its use once a minute; how many seconds too early it came."""
    wait: int | None = None
    with (
        ignore_if_read_only("a request of an API key could not be counted"),
        database.write_after(found_on) as connection,
    ):
        wait = rate_limit.consume(connection, row.id, row.rate_limit)
        if wait is None and (row.last_used_at is None or now - row.last_used_at >= SEEN_STEP):
            connection.execute(update(api_keys).where(api_keys.c.id == row.id).values(last_used_at=now))
    return wait


# Made once: making a statement costs as much as running it.
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
