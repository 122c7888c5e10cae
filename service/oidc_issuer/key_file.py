"""Reads the issuer's key file, without the cryptography library, whose import would slow the start.

The file is a JSON Web Key (RFC 7517) with a private key of the curve P-256 (RFC 7518 6.2).
"""

import json
import re
from base64 import urlsafe_b64decode
from pathlib import Path
from typing import Any

from service.files import DamagedFile

CURVE = "P-256"
ALGORITHM = "ES256"
MAX_BYTES = 16 * 1024
_NUMBER = re.compile(r"[A-Za-z0-9_-]{43}")
# The curve y² = x³ - 3x + B over the integers modulo P; its generator has the order N (SP 800-186, 3.2.1.3).
P = 2**256 - 2**224 + 2**192 + 2**96 - 1
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
GENERATOR = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
Point = tuple[int, int, int]
"""Jacobian coordinates: x/z², y/z³. The point at infinity has z = 0."""


def read_key(path: Path) -> dict[str, Any] | None:
    """Return the key in a file; None without a file.

    Raises:
        DamagedFile: the file cannot be read, or has no usable key.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedFile(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        return _parse(content)
    except (ValueError, TypeError, RecursionError) as error:
        raise DamagedFile(
            f"{path} is damaged: it is not a private {CURVE} key; restore a backup (frost platform restore), or remove "
            "the file to create a new key"
        ) from error


def _parse(content: bytes) -> dict[str, Any]:
    """Raises ValueError or TypeError for content that is not a private key for signatures."""
    if len(content) > MAX_BYTES:
        raise ValueError("too large")
    key = json.loads(content)
    if not isinstance(key, dict) or (key.get("kty"), key.get("crv")) != ("EC", CURVE):
        raise ValueError("not a key of the curve")
    is_for_signatures = (
        isinstance(key.get("kid", ""), str)
        and key.get("use", "sig") == "sig"
        and "sign" in key.get("key_ops", ["sign"])
    )
    if not is_for_signatures or key.get("alg", ALGORITHM) != ALGORITHM:
        raise ValueError("not a key for signatures")
    x, y, private = (_number(key.get(name)) for name in ("x", "y", "d"))
    if public_point(private) != (x, y):
        raise ValueError("the private key is that of another public key")
    return key


def _number(text: object) -> int:
    if not isinstance(text, str) or not _NUMBER.fullmatch(text):
        raise ValueError("not a number of 32 bytes")
    return int.from_bytes(urlsafe_b64decode(text + "="), "big")


def public_point(private: int) -> tuple[int, int]:
    """Return the public key of a private key. Takes milliseconds, and is not safe against measurements of time.

    Raises:
        ValueError: the number is no private key.
    """
    if not 0 < private < N:
        raise ValueError("not in the range of private keys")
    point: Point = (*GENERATOR, 1)
    for bit in bin(private)[3:]:
        point = _double(point)
        if bit == "1":
            point = _add_generator(point)
    x, y, z = point
    inverse = pow(z, -1, P)
    return x * inverse**2 % P, y * inverse**3 % P


def _double(point: Point) -> Point:
    x, y, z = point
    square = y * y % P
    first = 4 * x * square % P
    slope = 3 * (x - z * z) * (x + z * z) % P
    new_x = (slope * slope - 2 * first) % P
    return new_x, (slope * (first - new_x) - 8 * square * square) % P, 2 * y * z % P


def _add_generator(point: Point) -> Point:
    x, y, z = point
    square = z * z % P
    x_difference, y_difference = (GENERATOR[0] * square - x) % P, (GENERATOR[1] * square * z - y) % P
    if not x_difference:
        # The sum of equal points is a double, and that of opposite points is infinite.
        return _double(point) if not y_difference else (1, 1, 0)
    x_square = x_difference * x_difference % P
    x_cube, first = x_difference * x_square % P, x * x_square % P
    new_x = (y_difference * y_difference - x_cube - 2 * first) % P
    return new_x, (y_difference * (first - new_x) - y * x_cube) % P, z * x_difference % P
