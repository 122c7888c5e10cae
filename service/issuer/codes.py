"""The secrets the issuer hands out, and what is stored of them.

Device codes, authorization codes and refresh tokens are 256 random bits. At rest there is only an HMAC-SHA256 under the
platform's own secret, with the kind of the code in front, so that a digest of one kind never stands for another.
"""

import hmac
import secrets
from hashlib import sha256
from typing import Literal

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
