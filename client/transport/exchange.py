"""The rules of requests, without I/O: signing, refresh, retries and responses.

`exchange` is a generator. It yields effects (`Send`, `Wait`, `NeedCredential`, `NeedRefresh`) and receives their
results, so that the blocking driver (blocking_client.py) and the asynchronous one (async_client.py) share the rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from client import __version__, times
from client.errors import SESSION_ENDED, Exit, FrostError, usage
from client.text import safe
from client.transport.call import ConnectionProtocol, Credential, NoResponse, Reply, Request, redact
from client.transport.endpoint import TOTAL_SECONDS, Endpoint
from client.transport.pages import PageLimits
from client.transport.responses import connection_error, redirect_error, refusal, retry_after, retry_delay
from client.transport.secret_mask import mask_body, mask_headers

USER_AGENT = f"frost/{__version__}"
REFRESH_MARGIN = 60
"""Seconds before its expiry at which an access token is refreshed."""

THROTTLE_RETRIES = 5
BACKOFF = (0.1, 0.3, 1.0, 2.0)
"""Seconds before each retry after a broken connection, 502, 503 or 504; longer if `Retry-After` requires it."""
RETRY_SECONDS = 10.0
"""Such retries begin within this time after the first attempt, so that the user soon sees the error."""


SILENCE_SECONDS = 45.0
"""A stream without data for three keepalive intervals is dead."""


_SIGNATURES = ("X-API-Key", "Authorization")
"""The headers with a credential."""


class Timing(NamedTuple):
    """Times of a client, in seconds, and its numbers of pages."""

    total: float = TOTAL_SECONDS
    """Longest time of a request, except a stream."""
    silence: float = SILENCE_SECONDS
    """Longest time of a stream without data."""
    backoff: tuple[float, ...] = BACKOFF
    pages: PageLimits = PageLimits()


class Send(NamedTuple):
    """Send a request. The result is a Reply or NoResponse. `target` is the path with base and query."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    attempt: int = 1

    def reply(self, status: int, headers: Mapping[str, str], body: bytes, seconds: float) -> Reply:
        """Return the response to this request, without its credential. Names of `headers` are lower case."""
        secrets = [self.headers[name].removeprefix("Bearer ") for name in _SIGNATURES if name in self.headers]
        return Reply(status, mask_headers(headers, secrets), mask_body(body, secrets), seconds)


class Wait(NamedTuple):
    """Wait some seconds. The result is None."""

    seconds: float
    reason: str


class NeedCredential(NamedTuple):
    """Load the credential of the context. The result is the credential."""


class NeedRefresh(NamedTuple):
    """Refresh the credential. The result is a newer one; on failure a FrostError is thrown."""

    used: Credential


class RequestLogEntry(NamedTuple):
    """An exchange or a wait, for `-d` and the screens. Contains no header, body or credential.

    `status` is 0 for a broken connection and for a wait; `note` is the reason of a retry or a wait.
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
        """Return a log line: `GET /api/v1/tenants 200 12 ms request 6f…`."""
        parts = [self.method, redact(safe(self.path, 300)), str(self.status or "-"), f"{self.seconds * 1000:.0f} ms"]
        if self.request_id:
            parts.append(f"request {self.request_id}")
        if self.attempt > 1:
            parts.append(f"try {self.attempt}")
        if self.note:
            parts.append(f"({self.note})")
        return " ".join(parts)


Effect = Send | Wait | NeedCredential | NeedRefresh
Steps = Generator[Effect, Any, Reply]
OnReply = Callable[[RequestLogEntry], None]


class Driver:
    """The state of both drivers.

    Args:
        connection: The context (client/connection.py).
        on_reply: Called after each exchange and wait (`-d`), by the asynchronous driver on the event loop.
        timing: Times of requests, streams and retries.
    """

    def __init__(
        self, connection: ConnectionProtocol, *, on_reply: OnReply | None = None, timing: Timing = Timing()
    ) -> None:
        self._connection = connection
        self._on_reply = on_reply
        self._timing = timing

    def _steps(self, request: Request) -> Steps:
        endpoint, backoff = self._connection.endpoint, self._timing.backoff
        return exchange(request, endpoint, lambda: times.now().timestamp(), backoff=backoff)

    def _log(self, entry: RequestLogEntry) -> None:
        if self._on_reply is not None:
            self._on_reply(entry)


def log_entry(wire: Send, answer: Reply | NoResponse) -> RequestLogEntry:
    """Describe an exchange, without secrets."""
    route = wire.target.partition("?")[0]
    if isinstance(answer, NoResponse):
        return RequestLogEntry(wire.method, route, 0, answer.seconds, attempt=wire.attempt, note=redact(answer.reason))
    version = safe(answer.headers.get("x-frost-version", ""), 40)
    return RequestLogEntry(
        wire.method, route, answer.status, answer.seconds, redact(answer.request_id), wire.attempt, version
    )


def exchange(
    request: Request, endpoint: Endpoint, now: Callable[[], float], *, backoff: Sequence[float] = BACKOFF
) -> Steps:
    """Send a request, with signing, refresh and retries.

    Args:
        request: The request.
        endpoint: The endpoint; only its kind, host and base are used.
        now: Returns the Unix time in seconds.
        backoff: Seconds before each retry after a broken connection.

    Returns:
        The response, with a status from 200 to 299.

    Raises:
        FrostError: Any other result.
    """
    credential: Credential | None = None
    renewable = False
    if request.authenticated:
        if not endpoint.trusted:
            raise usage(
                f"no credential is sent to {endpoint.origin}: plain http to another machine",
                hint="use an https endpoint: frost config set api_endpoint https://…",
                code="ENDPOINT_REFUSED",
            )
        credential = yield NeedCredential()
        renewable = credential.kind == "session"
        due = credential.expires_at and now() + REFRESH_MARGIN >= credential.expires_at
        if renewable and (due or not credential.secret):
            renewable = False
            credential = (yield from _refresh(credential)) or credential
    repeatable = request.method in ("GET", "HEAD") or request.idempotency_key is not None
    attempt = throttled = broken = 0
    spent = 0.0
    while True:
        attempt += 1
        answer: Reply | NoResponse = yield _sign(request, endpoint, credential, attempt)
        spent += answer.seconds
        pause = backoff[min(broken, len(backoff) - 1)]
        if isinstance(answer, Reply) and answer.status in (502, 503, 504):
            pause = max(pause, retry_after(answer))
        retry = repeatable and broken < len(backoff) and spent + pause <= RETRY_SECONDS
        if isinstance(answer, NoResponse):
            if not (retry and answer.retryable):
                raise connection_error(endpoint, answer)
            broken += 1
            spent += pause
            yield Wait(pause, answer.reason)
        elif answer.status in (502, 503, 504) and retry:
            broken += 1
            spent += pause
            yield Wait(pause, f"HTTP {answer.status}")
        elif (
            answer.status == 429
            and throttled < THROTTLE_RETRIES
            and (hold := retry_delay(answer, throttled)) is not None
        ):
            throttled += 1
            yield Wait(hold, "rate limit")
        elif answer.status == 401 and renewable and credential is not None:
            renewable = False
            fresh = yield from _refresh(credential)
            if fresh is None:
                raise refusal(answer, request.path)
            credential = fresh
        elif 200 <= answer.status < 300:
            return answer
        elif 300 <= answer.status < 400:
            raise redirect_error(answer)
        else:
            raise refusal(answer, request.path)


def _refresh(used: Credential) -> Generator[Effect, Any, Credential | None]:
    """Return a newer credential; None if the refresh failed but the session has not ended."""
    try:
        fresh: Credential = yield NeedRefresh(used)
    except FrostError as error:
        if error.code == SESSION_ENDED:
            raise
        return None
    return fresh


def _sign(request: Request, endpoint: Endpoint, credential: Credential | None, attempt: int) -> Send:
    headers = {
        "User-Agent": USER_AGENT,
        "Accept": "application/json",
        "Accept-Encoding": "identity",
    }
    body = b""
    if request.body is not None:
        headers["Content-Type"] = "application/json"
        body = request.body if isinstance(request.body, bytes) else _encode(request.body)
    headers.update(request.headers)
    if request.idempotency_key is not None:
        headers["Idempotency-Key"] = request.idempotency_key
    if credential is not None and credential.kind != "none":
        secret = credential.secret
        if not secret or not secret.isascii() or not secret.isprintable() or " " in secret:
            raise FrostError(
                "the stored credential is damaged: it contains invalid characters",
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


def _encode(body: Any) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (UnicodeEncodeError, ValueError) as error:
        raise usage(f"the request cannot be written as JSON: {safe(error, 120)}") from error
