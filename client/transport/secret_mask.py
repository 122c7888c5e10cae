"""Mask the credential of a request where its response repeats it.

Text of a platform is printed and kept: in errors, tables, documents and logs of pipelines. A platform, or a proxy in
front of it, may repeat the credential in any of them. Only the whole credential is masked: the first characters of an
API key identify it in lists. Events of a stream are not masked: they only name what to read again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MIN_SECRET_LENGTH = 8
"""A shorter secret is not masked: it could be a part of ordinary words."""
MASK = "(credential)"
# Escapes in JSON strings (RFC 8259, 7) and in URLs (RFC 3986, 2.1).
_ESCAPE = rb'\\u00([0-9A-Fa-f]{2})|%([0-9A-Fa-f]{2})|\\(["\\/])'


def mask_body(body: bytes, secrets: Iterable[str]) -> bytes:
    """Replace each secret in a body by `MASK`, also where its characters are escaped as in JSON or in a URL."""
    for secret in secrets:
        plain = secret.encode()
        if len(plain) < MIN_SECRET_LENGTH:
            continue
        body = body.replace(plain, MASK.encode())
        # The pattern of all forms is slow to compile, so it is used only on a body that needs it.
        if (b"\\" in body or b"%" in body) and plain in re.sub(_ESCAPE, _unescape, body):
            body = re.sub(b"".join(map(_forms, plain)), MASK.encode(), body)
    return body


def mask_headers(headers: Mapping[str, str], secrets: Iterable[str]) -> dict[str, str]:
    """Replace each secret in the values of headers, as `mask_body` does."""
    known = tuple(secrets)
    return {
        name: mask_body(value.encode("utf-8", "surrogateescape"), known).decode("utf-8", "surrogateescape")
        for name, value in headers.items()
    }


def _unescape(match: re.Match[bytes]) -> bytes:
    digits = match[1] or match[2]
    return bytes.fromhex(digits.decode()) if digits else match[3]


def _forms(byte: int) -> bytes:
    """Return a pattern of a character: itself, and its escapes."""
    plain, digits = re.escape(bytes((byte,))), b"%02x" % byte
    return rb"(?:%b|(?i:\\u00%b|%%%b)|\\%b)" % (plain, digits, digits, plain)
