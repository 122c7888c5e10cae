"""API keys: the shape of a secret, what is stored of it, and who holds one. checklist K, C01 to C03

A secret is `fmk_`, 30 random base62 characters and 6 that are the base62 CRC32 of the 30. The checksum refuses typos and
guesses before the database is asked. Stored are the first 12 characters (unique, to look it up) and an HMAC-SHA256
keyed with the platform's own secret, so that a stolen database proves nothing.
"""

import hmac
import re
import secrets
from binascii import crc32
from hashlib import sha256

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
MARK = "fmk_"
RANDOM_LENGTH = 30
CHECKSUM_LENGTH = 6
PREFIX_LENGTH = 12
_SHAPE = re.compile(rf"{MARK}[0-9A-Za-z]{{{RANDOM_LENGTH + CHECKSUM_LENGTH}}}")


def mint() -> str:
    """A new secret; 178 random bits."""
    body = "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_LENGTH))
    return MARK + body + checksum(body)


def checksum(body: str) -> str:
    """CRC32 of the random part, six base62 digits, most significant first."""
    value = crc32(body.encode("ascii"))
    digits = []
    for _ in range(CHECKSUM_LENGTH):
        value, digit = divmod(value, len(ALPHABET))
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))


def well_formed(secret: str) -> bool:
    """Whether the text can be a key at all: shape and checksum, exactly, nothing before or after."""
    if not _SHAPE.fullmatch(secret):
        return False
    return checksum(secret[len(MARK) : -CHECKSUM_LENGTH]) == secret[-CHECKSUM_LENGTH:]


def prefix(secret: str) -> str:
    """The part that is stored and shown: the first 12 characters."""
    return secret[:PREFIX_LENGTH]


def digest(secret_key: bytes, secret: str) -> str:
    """What is stored of a secret: HMAC-SHA256 under the platform's key, 64 hex digits."""
    return hmac.new(secret_key, secret.encode("ascii"), sha256).hexdigest()
