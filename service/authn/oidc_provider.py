"""An external OpenID Connect provider (`--issuer URL`) and the cache of its signing keys.

A token causes a fetch if the keys are older than ten minutes or lack its `kid`, at most every 30 seconds for each
reason. If the provider is unavailable, cached keys remain valid for an hour.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from service.authn.http_fetch import require_safe_url
from service.errors import ApiError
from service.settings import AUDIENCE, CLIENT_ID

if TYPE_CHECKING:
    from joserfc.jwk import Key

logger = logging.getLogger(__name__)

KEYS_MAX_AGE_SECONDS = 600
# Limits the use of a key that an unavailable provider has revoked.
MAX_STALE_SECONDS = 3600
# Limits fetches for tokens with invented key ids.
MIN_FETCH_INTERVAL_SECONDS = 30
NEVER = float("-inf")
# Requests waiting for a fetch. Each occupies a thread, and anyone can invent a key id.
MAX_WAITING = 16


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
        return kid not in self._keys and now - self._unknown_key_at > MIN_FETCH_INTERVAL_SECONDS

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

        from service.authn.http_fetch import fetch

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
