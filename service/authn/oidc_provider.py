"""An outside identity provider whose tokens are trusted (`--issuer URL`): where its keys come from.

Its discovery document and keys are fetched when the first token arrives and again every ten minutes, and at once when
a token names a key that is not among them, but not for every made-up name. While the provider does not answer, the
keys that are known go on for an hour. How they are fetched: `outgoing`.
"""

import logging
import threading
import time
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from service.authn.http_fetch import require_safe
from service.errors import ApiError
from service.settings import AUDIENCE, CLIENT_ID

if TYPE_CHECKING:
    from joserfc.jwk import Key

logger = logging.getLogger(__name__)

KEPT_SECONDS = 600
# How long keys go on that could not be read again: an outage of the provider is none of ours, but what it has
# withdrawn meanwhile must not be believed for ever.
STALE_SECONDS = 3600
# The least time between two fetches for the same reason, whatever kids strangers send.
PAUSE_SECONDS = 30
NEVER = float("-inf")
# Requests with a key that is not known, while the provider is asked: each holds a thread, and strangers make such keys.
MAX_WAITING = 16


class ExternalIssuer:
    """A trusted issuer at a URL.

    Args:
        url: The issuer, exactly as its discovery document and its tokens name it.
        client_id: The public client people sign in as there.
        audience: What its access tokens must name in `aud`.
        assumed: What whoever runs the platform answers for where its tokens do not say it. `email_verified`: its
            addresses are verified, unless a token says they are not. `auth_time`: this claim is the sign-in's time in
            every token, also in refreshed ones. RFC 9068 (2.2.1) promises that; other JWTs promise nothing, and some
            providers put the time of the token there (canaille), with which a refresh passes for a sign-in.

    Raises:
        ValueError: the URL is neither https nor http to a loopback address, or has more than host, port and path.
    """

    algorithms: Sequence[str] = ("ES256", "ES384", "RS256", "PS256")
    token_type: str | None = None
    starts_sessions = True

    def __init__(
        self, url: str, *, client_id: str = CLIENT_ID, audience: str = AUDIENCE, assumed: Set[str] = frozenset()
    ) -> None:
        require_safe(url)
        self.issuer = url
        self._host = str(urlsplit(url).hostname)
        self.client_id = client_id
        self.audience = audience
        self.assumed = assumed
        self._lock = threading.Lock()
        self._line = threading.Semaphore(MAX_WAITING)
        self._keys: Mapping[str, Key] = {}
        self._read = self._tried = self._missed = NEVER

    def key(self, kid: str) -> "Key | None":
        """The key of that id; None when the provider has none.

        Raises:
            Refusal: 503 when the provider's keys are needed and cannot be read.
        """
        if self._due(kid) and self._has_turn(kid):
            try:
                if self._due(kid):
                    self._refresh(kid)
            finally:
                self._lock.release()
        keys = self._keys
        if not keys:
            raise _unavailable()
        return keys.get(kid)

    def _has_turn(self, kid: str) -> bool:
        """Whether the lock is had: one request fetches, and who comes meanwhile goes on with the key that is known, and
        waits only where none is, in a line that ends somewhere."""
        if kid in self._keys:
            return self._lock.acquire(blocking=False)
        if not self._line.acquire(blocking=False):
            raise _unavailable()
        try:
            return self._lock.acquire()
        finally:
            self._line.release()

    def _due(self, kid: str) -> bool:
        now = time.monotonic()
        if not self._keys or now - self._read > KEPT_SECONDS:
            # Also a fetch that fails starts the pause: a provider that is down is not hammered.
            return now - self._tried > PAUSE_SECONDS
        return kid not in self._keys and now - self._missed > PAUSE_SECONDS

    def _refresh(self, kid: str) -> None:
        missed = bool(self._keys) and kid not in self._keys
        try:
            self._keys = self._fetch()
            self._read = time.monotonic()
        except (OSError, ValueError) as error:
            logger.warning("the keys of %s cannot be read: %s", self.issuer, error)
            if time.monotonic() - self._read > STALE_SECONDS:
                self._keys = {}
        # Only now the pause begins: who came meanwhile without a key is still waiting for this one.
        self._tried = time.monotonic()
        if missed:
            self._missed = self._tried

    def _fetch(self) -> "dict[str, Key]":
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        from service.authn.http_fetch import fetch

        document = fetch(f"{self.issuer.rstrip('/')}/.well-known/openid-configuration", named=self._host)
        if document.get("issuer") != self.issuer:
            raise ValueError("its discovery document names another issuer")
        try:
            published = fetch(str(document["jwks_uri"]), named=self._host)["keys"]
            keys = KeySet.import_key_set({"keys": [key for key in published if key.get("use", "sig") == "sig"]})
        except (JoseError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"its keys are not a key set ({error})") from error
        found = {key.kid: key for key in keys if key.kid}
        if not found:
            raise ValueError("it publishes no key with an id")
        return found


def _unavailable() -> ApiError:
    return ApiError(503, "SERVICE_UNAVAILABLE", "the identity provider's keys cannot be read at the moment")
