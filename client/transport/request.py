"""Requests, responses and credentials as data; escaping of paths and redaction of secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import urandom
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

from client.errors import usage
from client.text import safe
from client.transport.endpoint import Endpoint

# Patterns are compiled on first use: most commands do not need them.
_FORMS = r"\b(fmk_[A-Za-z0-9]{0,4}|eyJ)[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*"
_LABELLED = (
    r"(?i)\b((?:bearer|basic) +|(?:x-api-key|authorization|(?:access|refresh|id)_?token|device_?code|code_?verifier"
    r"|secret|password|api_?key)[\"']?\s*[:=]\s*[\"']?(?:bearer +|basic +)?)([^\s\"',;&]{1,4})[^\s\"',;&]*"
)


class Credential(Protocol):
    """A credential for requests; `secret` is the API key or access token, `expires_at` Unix seconds (0: unknown)."""

    @property
    def kind(self) -> str: ...

    @property
    def secret(self) -> str: ...

    @property
    def expires_at(self) -> float: ...


class ConnectionProtocol(Protocol):
    """The context of a driver, implemented in client/connection.py.

    All methods may block; the asynchronous driver calls them in a thread.
    """

    @property
    def endpoint(self) -> Endpoint: ...

    @property
    def environ(self) -> Mapping[str, str]: ...

    def credential(self) -> Credential:
        """Return the credential. Raises FrostError if there is none (exit 3)."""

    def refresh(self, used: Credential) -> Credential:
        """Return a session newer than `used`. Raises FrostError, with code SESSION_ENDED if the session has ended."""

    def start(self) -> bool:
        """Start the local platform if this is its socket. Called when a unix socket does not accept connections.

        Return True if it accepts connections now, False if this connection must not start it.
        """


class Request(NamedTuple):
    """An unsigned API request. `path` begins with `/v1/` and is built by `path`; `body` is JSON or bytes."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    headers: Mapping[str, str] = MappingProxyType({})
    authenticated: bool = True
    idempotency_key: str | None = None


class Reply(NamedTuple):
    """A response. Header names are lower case; `seconds` is the duration of the exchange."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float = 0.0

    @property
    def request_id(self) -> str:
        return safe(self.headers.get("x-request-id", ""), 64)

    @property
    def changed(self) -> bool:
        """Return whether a write changed the resource; true unless the response denies it."""
        return self.headers.get("x-frost-changed", "").lower() != "false"

    @property
    def version(self) -> int | None:
        """Return the version for `If-Match` of a later write; None if the response has none."""
        tag = self.headers.get("etag", "").strip()
        number = tag[1:-1] if len(tag) > 2 and tag[0] == tag[-1] == '"' else ""
        return int(number) if number.isascii() and number.isdigit() and len(number) < 16 else None


NOT_LISTENING = "NOT_LISTENING"
"""Code of a NoResponse if a unix socket does not accept connections. The local platform can then be started."""


class NoResponse(NamedTuple):
    """A failed exchange, returned instead of a Reply. `retryable`: whether a retry may help."""

    reason: str
    seconds: float
    retryable: bool = True
    code: str = "UNREACHABLE"


def path(template: str, *segments: str) -> str:
    """Replace each `{}` of `template` by a percent-encoded segment.

    Raises:
        FrostError: A segment is not an id: empty, `.`, `..`, over 200 characters, or with a slash, a backslash, a
            percent sign or a non-printable character (exit 2).
    """
    return template.format(*(_segment(segment) for segment in segments))


def _segment(text: str) -> str:
    if not text:
        raise usage("an empty id was given")
    if text in (".", "..") or any(mark in text for mark in "/\\%") or not text.isprintable() or len(text) > 200:
        raise usage(f"{safe(text, 80)!r} is not an id: it holds path characters or is too long")
    return quote(text, safe="")


def new_idempotency_key() -> str:
    """Return a key with which a create can be repeated safely."""
    return urandom(16).hex()


def if_match(version: int | None) -> dict[str, str]:
    """Return the header that refuses a write based on an older version."""
    return {} if version is None else {"If-Match": f'"{version}"'}


def redact(text: str) -> str:
    """Truncate each key, token and labelled secret in `text` to its first characters and `…`."""
    return re.sub(_LABELLED, r"\1\2…", re.sub(_FORMS, r"\1…", text))
