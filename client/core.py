"""The rules of a request, without any I/O: signing, refreshing, retrying, and what an answer means.

`exchange` is a generator. It yields what is to be done (`Send`, `Wait`, `Sign`, `Renew`) and is sent what came of it,
so that the blocking driver (client/oneshot.py) and the asynchronous one (client/http.py) follow one set of rules.

Source: platform facts 1.1, 1.2, 1.5, 1.7 to 1.11; checklist G43, G44, K47, N08; hostile H01, H02, H04, H09.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Mapping
from os import urandom
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlencode

from client import __version__
from client.answers import limited, redirected, refusal, retry_after, unreachable
from client.endpoint import Endpoint
from client.errors import SESSION_ENDED, Exit, FrostError, usage
from client.text import safe

USER_AGENT = f"frost/{__version__}"
REFRESH_MARGIN = 60
"""Seconds before its expiry at which an access token is renewed unasked (facts 1.5)."""

THROTTLE_RETRIES = 5
BACKOFF = (0.1, 0.3, 1.0, 2.0)
"""Seconds to wait before each further try after a broken connection, 502, 503 or 504; longer if `Retry-After` asks."""
RETRY_SECONDS = 10.0
"""No such retry begins later than this after the first try: what is unreachable is told soon (checklist G43)."""


# Patterns are compiled on first use: a command that goes well needs none of them.
_FORMS = r"\b(fmk_[A-Za-z0-9]{0,4}|eyJ)[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*"
_LABELLED = (
    r"(?i)\b((?:bearer|basic) +|(?:x-api-key|authorization|(?:access|refresh|id)_?token|device_?code|code_?verifier"
    r"|secret|password|api_?key)[\"']?\s*[:=]\s*[\"']?(?:bearer +|basic +)?)([^\s\"',;&]{1,4})[^\s\"',;&]*"
)


class Credential(Protocol):
    """What signs a request; `secret` is the API key or the access token, `expires_at` unix seconds (0: unknown)."""

    @property
    def kind(self) -> str: ...

    @property
    def secret(self) -> str: ...

    @property
    def expires_at(self) -> float: ...


class Link(Protocol):
    """What a driver needs to know of the context it works for (client/connection.py has the real one).

    All methods may block; the asynchronous driver calls them in a thread.
    """

    @property
    def endpoint(self) -> Endpoint: ...

    @property
    def environ(self) -> Mapping[str, str]: ...

    def credential(self) -> Credential:
        """The credential of this context, looked up on first use. Raises FrostError (exit 3) when there is none."""

    def refresh(self, used: Credential) -> Credential:
        """A session credential newer than `used`; raises FrostError, with code SESSION_ENDED when there is none."""

    def start(self) -> bool:
        """Called when nobody listens at a unix socket: starts the local platform when the socket is its own.

        True when connections are accepted now, False when this endpoint is nothing that can be started.
        """


class Request(NamedTuple):
    """One request of the API, before signing. `path` begins with `/v1/`, made by `path`; `body` is JSON or bytes."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: Any = None
    headers: Mapping[str, str] = MappingProxyType({})
    authenticated: bool = True
    idempotency_key: str | None = None


class Call(NamedTuple):
    """A request and what its answer is.

    `member` is the member of the answer that holds the records (None: the answer itself is the record), `model` the
    record's model as `module.Class` below client.models (empty: no content), `needs` the members without which an
    answer is not believed (hostile H09), `nullable` those of them that may be null, `status` the only status that is
    believed (0: any success). `reads` is for a request that changes nothing although its method is not GET.
    """

    request: Request
    member: str | None = None
    model: str = ""
    needs: tuple[str, ...] = ()
    status: int = 0
    reads: bool = False
    nullable: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether the request may change something on the platform."""
        return self.request.method not in ("GET", "HEAD") and not self.reads


class Reply(NamedTuple):
    """An answer; header names are lower case, `seconds` is how long it took."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float = 0.0

    @property
    def request_id(self) -> str:
        return safe(self.headers.get("x-request-id", ""), 64)

    @property
    def changed(self) -> bool:
        """Whether a write found anything to change; an answer that does not say so has."""
        return self.headers.get("x-frost-changed", "").lower() != "false"

    @property
    def version(self) -> int | None:
        """The version of what was answered, for `If-Match` of a write made from it; None where none was told."""
        tag = self.headers.get("etag", "").strip()
        number = tag[1:-1] if len(tag) > 2 and tag[0] == tag[-1] == '"' else ""
        return int(number) if number.isascii() and number.isdigit() and len(number) < 16 else None


class Change(NamedTuple):
    """What came of a write: its record (None without one), and whether there was anything to change."""

    record: Any
    changed: bool


class Versioned(NamedTuple):
    """A record, and the version that a write must be made from; None where the platform keeps none."""

    record: Any
    version: int | None


NOT_LISTENING = "NOT_LISTENING"
"""The code of a Broken when nobody listens at a unix socket, which the local platform can be started for."""


class Broken(NamedTuple):
    """What a driver sends instead of a Reply when there was no answer. `again`: whether trying again may help."""

    reason: str
    seconds: float
    again: bool = True
    code: str = "UNREACHABLE"


class Send(NamedTuple):
    """Send this; answer with a Reply or Broken. `target` is the path with base and query."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    attempt: int = 1


class Wait(NamedTuple):
    """Wait this many seconds; answer with None."""

    seconds: float
    reason: str


class Sign(NamedTuple):
    """Answer with the credential of the context."""


class Renew(NamedTuple):
    """Answer with a newer credential, or throw the FrostError."""

    used: Credential


class Exchanged(NamedTuple):
    """One thing that happened on the way, for `-d` and the screens. Holds no header, no body and no credential.

    `status` is 0 for a broken connection and for a wait; `note` says why it was retried or waited for.
    """

    method: str
    path: str
    status: int
    seconds: float
    request_id: str = ""
    attempt: int = 1
    platform_version: str = ""
    note: str = ""

    def line(self) -> str:
        """`GET /api/v1/tenants 200 12 ms request 6f…` (checklist G06)."""
        words = [self.method, redact(safe(self.path, 300)), str(self.status or "-"), f"{self.seconds * 1000:.0f} ms"]
        if self.request_id:
            words.append(f"request {self.request_id}")
        if self.attempt > 1:
            words.append(f"try {self.attempt}")
        if self.note:
            words.append(f"({self.note})")
        return " ".join(words)


Effect = Send | Wait | Sign | Renew
Steps = Generator[Effect, Any, Reply]
OnReply = Callable[[Exchanged], None]


def path(template: str, *segments: str) -> str:
    """`template` with each `{}` replaced by one segment, percent-escaped.

    Raises:
        FrostError: A segment that could address another resource: empty, `.`, `..`, with a slash, a backslash, a
            percent sign or a character that is not printed (exit 2; facts 1.1, checklist K47).
    """
    return template.format(*(_segment(segment) for segment in segments))


def _segment(text: str) -> str:
    if not text:
        raise usage("an empty id was given")
    if text in (".", "..") or any(mark in text for mark in "/\\%") or not text.isprintable() or len(text) > 200:
        raise usage(f"{safe(text, 80)!r} is not an id: it holds path characters or is too long")
    return quote(text, safe="")


def new_idempotency_key() -> str:
    """A key that lets a create be sent again without being done twice."""
    return urandom(16).hex()


def made_from(version: int | None) -> dict[str, str]:
    """The header that has a write refused when it was made from an older version."""
    return {} if version is None else {"If-Match": f'"{version}"'}


def redact(text: str) -> str:
    """`text` with every key, token and labelled secret cut to its first characters and `…` (checklist G07)."""
    return re.sub(_LABELLED, r"\1\2…", re.sub(_FORMS, r"\1…", text))


def told(wire: Send, answer: Reply | Broken) -> Exchanged:
    """What is told of one exchange."""
    route = wire.target.partition("?")[0]
    if isinstance(answer, Broken):
        return Exchanged(wire.method, route, 0, answer.seconds, attempt=wire.attempt, note=redact(answer.reason))
    version = safe(answer.headers.get("x-frost-version", ""), 40)
    return Exchanged(
        wire.method, route, answer.status, answer.seconds, redact(answer.request_id), wire.attempt, version
    )


def exchange(request: Request, endpoint: Endpoint, now: Callable[[], float]) -> Steps:
    """The whole life of one request, up to its answer.

    Args:
        request: What to ask.
        endpoint: Where; only its kind, host and base are read.
        now: The present in unix seconds.

    Returns:
        The answer, with a status from 200 to 299.

    Raises:
        FrostError: Every other end.
    """
    credential: Credential | None = None
    renewable = False
    if request.authenticated:
        if not endpoint.trusted:
            raise usage(
                f"no credential is sent to {endpoint.origin}: it is plain http to another machine",
                hint="use an https endpoint: frost config set api_endpoint https://…",
                code="ENDPOINT_REFUSED",
            )
        credential = yield Sign()
        renewable = credential.kind == "session"
        due = credential.expires_at and now() + REFRESH_MARGIN >= credential.expires_at
        if renewable and (due or not credential.secret):
            renewable = False
            credential = (yield from _renewed(credential)) or credential
    again = request.method in ("GET", "HEAD") or request.idempotency_key is not None
    attempt = throttled = broken = 0
    spent = 0.0
    while True:
        attempt += 1
        answer: Reply | Broken = yield _signed(request, endpoint, credential, attempt)
        spent += answer.seconds
        pause = BACKOFF[min(broken, len(BACKOFF) - 1)]
        if isinstance(answer, Reply) and answer.status in (502, 503, 504):
            pause = max(pause, retry_after(answer))
        retry = again and broken < len(BACKOFF) and spent + pause <= RETRY_SECONDS
        if isinstance(answer, Broken):
            if not (retry and answer.again):
                raise unreachable(endpoint, answer)
            broken += 1
            spent += pause
            yield Wait(pause, answer.reason)
        elif answer.status in (502, 503, 504) and retry:
            broken += 1
            spent += pause
            yield Wait(pause, f"HTTP {answer.status}")
        elif answer.status == 429 and throttled < THROTTLE_RETRIES and (hold := limited(answer, throttled)) is not None:
            throttled += 1
            yield Wait(hold, "rate limit")
        elif answer.status == 401 and renewable and credential is not None:
            renewable = False
            fresh = yield from _renewed(credential)
            if fresh is None:
                raise refusal(answer, request.path)
            credential = fresh
        elif 200 <= answer.status < 300:
            return answer
        elif 300 <= answer.status < 400:
            raise redirected(answer)
        else:
            raise refusal(answer, request.path)


def _renewed(used: Credential) -> Generator[Effect, Any, Credential | None]:
    """A newer credential; None when refreshing failed in a way that does not end the session."""
    try:
        fresh: Credential = yield Renew(used)
    except FrostError as error:
        if error.code == SESSION_ENDED:
            raise
        return None
    return fresh


def _signed(request: Request, endpoint: Endpoint, credential: Credential | None, attempt: int) -> Send:
    headers = {
        "User-Agent": USER_AGENT,
        "Accept": "application/json",
        "Accept-Encoding": "identity",
    }
    body = b""
    if request.body is not None:
        headers["Content-Type"] = "application/json"
        body = request.body if isinstance(request.body, bytes) else _encoded(request.body)
    headers.update(request.headers)
    if request.idempotency_key is not None:
        headers["Idempotency-Key"] = request.idempotency_key
    if credential is not None and credential.kind != "none":
        secret = credential.secret
        if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
            raise FrostError(
                "the stored credential is damaged: it holds characters that no key or token has",
                code="CREDENTIAL_DAMAGED",
                hint="sign in again: frost login",
                exit_code=Exit.NOT_SIGNED_IN,
            )
        if credential.kind == "api_key":
            headers["X-API-Key"] = secret
        else:
            headers["Authorization"] = f"Bearer {secret}"
    target = endpoint.base + request.path
    if request.query:
        target = f"{target}?{urlencode(request.query)}"
    return Send(request.method, target, headers, body, attempt)


def _encoded(body: Any) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (UnicodeEncodeError, ValueError) as error:
        raise usage(f"the request cannot be written as JSON: {safe(error, 120)}") from error
