"""The format of secrets: API keys and tokens of workload identities.

A secret is a prefix (`fmk_` or `fmw_`), 30 random base62 characters and their CRC32 as 6 base62 characters. The
checksum rejects guesses without a database lookup. The database has an HMAC-SHA256 of each secret, and the first 12
characters of a key for its lookup and display.
"""

import hmac
import re
import secrets
from binascii import crc32
from hashlib import sha256

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
API_KEY_PREFIX = "fmk_"
WORKLOAD_TOKEN_PREFIX = "fmw_"  # noqa: S105 - a public prefix
RANDOM_LENGTH = 30
CHECKSUM_LENGTH = 6
_PAIRS = [high + low for high in ALPHABET for low in ALPHABET]
PREFIX_LENGTH = 12
"""Characters of an API key that are stored and displayed."""
MIN_SECRET_LENGTH = 40
"""A text of this length is treated as a secret: it may be a JWT."""
# Keys and tokens, even malformed, and long texts.
_SECRETS = re.compile(r"(fm[kw]_[0-9A-Za-z]{8})[0-9A-Za-z]+|([\w.~-]{12})[\w.~-]{28,}", re.ASCII)
_BODY = re.compile(rf"[0-9A-Za-z]{{{RANDOM_LENGTH + CHECKSUM_LENGTH}}}")


def mint(type_prefix: str = API_KEY_PREFIX) -> str:
    """Generate a secret (178 random bits)."""
    body = "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_LENGTH))
    return type_prefix + body + checksum(body)


def checksum(body: str) -> str:
    """Return the CRC32 of the random part in base62, 6 characters."""
    value, low = divmod(crc32(body.encode("ascii")), len(_PAIRS))
    high, middle = divmod(value, len(_PAIRS))
    return _PAIRS[high] + _PAIRS[middle] + _PAIRS[low]


def is_well_formed(secret: str, type_prefix: str = API_KEY_PREFIX) -> bool:
    """Return whether the format and the checksum are right."""
    if not secret.startswith(type_prefix) or not _BODY.fullmatch(secret[len(type_prefix) :]):
        return False
    return checksum(secret[len(type_prefix) : -CHECKSUM_LENGTH]) == secret[-CHECKSUM_LENGTH:]


def lookup_prefix(secret: str) -> str:
    return secret[:PREFIX_LENGTH]


def digest(secret_key: bytes, secret: str) -> str:
    """Return the HMAC-SHA256 of a secret with the platform's key, as 64 hex digits."""
    return hmac.new(secret_key, secret.encode("ascii"), sha256).hexdigest()


def cache_digest(secret: str) -> bytes:
    """Return the SHA-256 of a credential, its key in the caches of the process."""
    return sha256(secret.encode()).digest()


def mask_secrets(path: str) -> str:
    """Shorten the secrets in a path or text."""
    if "fmk_" not in path and "fmw_" not in path and max(map(len, path.split("/"))) < MIN_SECRET_LENGTH:
        return path
    return _SECRETS.sub(r"\1\2…", path)
