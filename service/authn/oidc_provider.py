"""An external OpenID Connect provider (`--issuer URL`), and the cache of its signing keys.

A token causes a fetch if the keys are older than ten minutes or lack its `kid`: at most every 30 seconds for the first
reason and every 5 for the second. If the provider is unavailable, cached keys remain valid for an hour.

A fetch is protected against server-side request forgery (SSRF). A name is resolved once and the connection goes to a
checked address, so DNS rebinding has no effect. Only the host that the operator configured may have private addresses.
Redirects are not followed.
"""

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from service.authn.unknown_keys import UnknownKeyLog
from service.errors import ApiError
from service.settings import AUDIENCE, CLIENT_ID

if TYPE_CHECKING:
    from ssl import SSLContext

    from joserfc.jwk import Key

logger = logging.getLogger(__name__)

STEP_TIMEOUT_SECONDS = 5.0
FETCH_TIMEOUT_SECONDS = 10.0
MAX_RESPONSE_BYTES = 256 * 1024

KEYS_MAX_AGE_SECONDS = 600
# Limits the use of a key that an unavailable provider has revoked.
MAX_STALE_SECONDS = 3600
MIN_FETCH_INTERVAL_SECONDS = 30
# Limits fetches for tokens with invented key ids. They also delay a new key of the provider by no more than this.
UNKNOWN_KEY_INTERVAL_SECONDS = 5
NEVER = float("-inf")
# Requests waiting for a fetch. Each occupies a thread, and anyone can invent a key id.
MAX_WAITING = 16


def fetch(url: str, *, trusted_host: str, timeout_seconds: float = FETCH_TIMEOUT_SECONDS) -> dict[str, Any]:
    """Fetch a JSON object.

    Args:
        trusted_host: the configured host, which may have private addresses.
        timeout_seconds: for the resolution of the host, the connection and the response together.

    Raises:
        OSError: the host cannot be reached in time.
        ValueError: the response is not a JSON object, or the URL or its address is not allowed.
    """
    require_safe_url(url)
    parts = urlsplit(url)
    host = str(parts.hostname)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    deadline = Deadline(timeout_seconds)
    addresses = resolve_allowed(host, port, trusted=host == trusted_host, deadline=deadline)
    connection = _PinnedConnection(host, port, addresses, deadline, secure=secure)
    timer = threading.Timer(deadline.remaining(), connection.abort)
    timer.daemon = True
    timer.start()
    try:
        connection.request("GET", parts.path or "/", headers={"Accept": "application/json"})
        response = connection.getresponse()
        body = response.read(MAX_RESPONSE_BYTES + 1)
    except HTTPException as error:
        raise ValueError(f"{url} did not send a valid HTTP response in time") from error
    finally:
        timer.cancel()
        connection.close()
    if response.status != 200 or len(body) > MAX_RESPONSE_BYTES:
        raise ValueError(f"{url} returned status {response.status} and {len(body)} bytes")
    document = json.loads(body)
    if not isinstance(document, dict):
        raise ValueError(f"{url} is not a JSON object")  # noqa: TRY004 - the same error for every invalid response
    return document


class Deadline:
    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    def remaining(self) -> float:
        """Return the remaining seconds. Raises TimeoutError."""
        remaining = self._at - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("the fetch did not end in time")
        return remaining

    def step_timeout(self) -> float:
        return min(STEP_TIMEOUT_SECONDS, self.remaining())


def resolve(host: str, port: int, deadline: Deadline) -> list[str]:
    """Return the addresses of a name. `getaddrinfo` has no timeout, so it runs in a thread."""
    addresses: list[str] = []
    failures: list[OSError] = []

    def look_up() -> None:
        try:
            addresses.extend(str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as error:
            failures.append(error)

    resolver = threading.Thread(target=look_up, name="resolver", daemon=True)
    resolver.start()
    resolver.join(deadline.remaining())
    if failures:
        raise failures[0]
    if resolver.is_alive() or not addresses:
        raise TimeoutError(f"{host} could not be resolved in time")
    return addresses


def resolve_allowed(host: str, port: int, *, trusted: bool, deadline: Deadline | None = None) -> list[str]:
    """Return the addresses of a host.

    Raises:
        OSError: the host has no address, or was not resolved in time.
        ValueError: an address is not allowed.
    """
    addresses = resolve(host, port, deadline or Deadline(FETCH_TIMEOUT_SECONDS))
    for text in addresses:
        if not _is_allowed(ip_address(text.partition("%")[0]), trusted):
            raise ValueError(f"{host} has the address {text}, which is not allowed")
    return addresses


def _is_allowed(address: IPv4Address | IPv6Address, trusted: bool) -> bool:
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        return False  # link-local includes the metadata services of clouds
    return trusted or address.is_global


class _PinnedConnection(HTTPConnection):
    """A connection to a checked address, with the host's name for TLS and the Host header."""

    def __init__(self, host: str, port: int, addresses: list[str], deadline: Deadline, *, secure: bool) -> None:
        self.default_port = 443 if secure else 80
        super().__init__(host, port, timeout=STEP_TIMEOUT_SECONDS)
        self._addresses = addresses
        self._deadline = deadline
        self._secure = secure

    def connect(self) -> None:
        self.sock = self._open_socket()
        if self._secure:
            tls = _tls_context().wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
            self.sock = tls
            tls.settimeout(self._deadline.step_timeout())
            tls.do_handshake()
        # The deadline may have passed between two steps, without a socket to shut down.
        self.sock.settimeout(self._deadline.step_timeout())

    def _open_socket(self) -> socket.socket:
        for address in self._addresses[:-1]:
            with suppress(OSError):
                return socket.create_connection((address, self.port), self._deadline.step_timeout())
        return socket.create_connection((self._addresses[-1], self.port), self._deadline.step_timeout())

    def abort(self) -> None:
        if self.sock is not None:
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)


def _tls_context() -> "SSLContext":
    import ssl

    return ssl.create_default_context()


def require_safe_url(url: str) -> None:
    """Raise ValueError unless a URL is https, or http to a loopback address, without user, query and fragment."""
    parts = urlsplit(url)
    if not parts.hostname or parts.username is not None or parts.query or parts.fragment:
        raise ValueError(f"{url!r} must be a URL of scheme, host and path")
    if parts.scheme == "http" and _is_loopback(parts.hostname):
        return
    if parts.scheme != "https":
        raise ValueError(f"{url!r} must be https")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class ExternalIssuer:
    """A trusted issuer at a URL.

    Args:
        url: exactly as in the discovery document and tokens.
        client_id: the public client that users sign in with.
        audience: the required `aud` of access tokens.
        assumed_claims: claims that the operator vouches for. `email_verified`: addresses are verified unless a token
            denies it. `auth_time`: the claim is the time of the sign-in, as RFC 9068 (2.2.1) guarantees. Some providers
            of other JWTs (canaille) use the issue time, so a refresh would look like a sign-in.

    Raises:
        ValueError: the URL is neither https nor http to a loopback address, or has more than host, port and path.
    """

    algorithms: Sequence[str] = ("ES256", "ES384", "RS256", "PS256")
    token_type: str | None = None
    starts_sessions = True

    def __init__(
        self,
        url: str,
        *,
        client_id: str = CLIENT_ID,
        audience: str = AUDIENCE,
        assumed_claims: Set[str] = frozenset(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        require_safe_url(url)
        self.issuer = url
        self._host = str(urlsplit(url).hostname)
        self.client_id = client_id
        self.audience = audience
        self.assumed_claims = assumed_claims
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting = threading.Semaphore(MAX_WAITING)
        self._keys: Mapping[str, Key] = {}
        self._fetched_at = self._attempted_at = self._unknown_key_at = NEVER
        self._unknown_keys = UnknownKeyLog(url, clock)

    def key(self, kid: str) -> "Key | None":
        """Return the key with an id, if the provider has it.

        Raises:
            ApiError: 503 if no keys are cached and they cannot be fetched.
        """
        if self._refresh_due(kid) and self._acquire_refresh_lock(kid):
            try:
                if self._refresh_due(kid):
                    self._refresh(kid)
            finally:
                self._lock.release()
        keys = self._keys
        if not keys:
            raise _unavailable()
        if kid not in keys:
            self._unknown_keys.record(kid)
        return keys.get(kid)

    def cached_key(self, kid: str) -> "Key | None":
        return None if self._refresh_due(kid) else self._keys.get(kid)

    def _acquire_refresh_lock(self, kid: str) -> bool:
        """Take the refresh lock, without waiting if the key is cached; return whether it was taken.

        Raises:
            ApiError: 503 if MAX_WAITING requests wait already.
        """
        if kid in self._keys:
            return self._lock.acquire(blocking=False)
        if not self._waiting.acquire(blocking=False):
            raise _unavailable()
        try:
            return self._lock.acquire()
        finally:
            self._waiting.release()

    def _refresh_due(self, kid: str) -> bool:
        now = self._clock()
        if not self._keys or now - self._fetched_at > KEYS_MAX_AGE_SECONDS:
            # Failed fetches are limited too.
            return now - self._attempted_at > MIN_FETCH_INTERVAL_SECONDS
        return kid not in self._keys and now - self._unknown_key_at > UNKNOWN_KEY_INTERVAL_SECONDS

    def _refresh(self, kid: str) -> None:
        is_unknown_key = bool(self._keys) and kid not in self._keys
        try:
            self._keys = self._fetch()
            self._fetched_at = self._clock()
        except (OSError, ValueError) as error:
            logger.warning("the keys of %s cannot be fetched: %s", self.issuer, error)
            if self._clock() - self._fetched_at > MAX_STALE_SECONDS:
                self._keys = {}
        # After the fetch: requests that arrived during it wait for its result.
        self._attempted_at = self._clock()
        if is_unknown_key:
            self._unknown_key_at = self._attempted_at

    def _fetch(self) -> "dict[str, Key]":
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        document = fetch(f"{self.issuer.rstrip('/')}/.well-known/openid-configuration", trusted_host=self._host)
        if document.get("issuer") != self.issuer:
            raise ValueError("its discovery document has another issuer")
        try:
            entries = fetch(str(document["jwks_uri"]), trusted_host=self._host)["keys"]
            keys = KeySet.import_key_set({"keys": [key for key in entries if key.get("use", "sig") == "sig"]})
        except (JoseError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"its keys are not a key set ({error})") from error
        keys_by_id = {key.kid: key for key in keys if key.kid}
        if not keys_by_id:
            raise ValueError("its key set has no key with an id")
        return keys_by_id


def _unavailable() -> ApiError:
    return ApiError(503, "SERVICE_UNAVAILABLE", "the identity provider's keys cannot be read now")
