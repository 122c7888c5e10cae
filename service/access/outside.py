"""An outside identity provider whose tokens are trusted (`--issuer URL`): where its keys come from.

Its discovery document and keys are fetched when the first token arrives, kept for ten minutes, and asked for again
early when a token names a key that is not among them, but not for every made-up name. Redirects are not followed,
answers are bounded in size and time, and only https is spoken, except to a loopback address.
"""

import json
import logging
import threading
import time
from collections.abc import Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from service.errors import Refusal
from service.issuer.local import AUDIENCE, CLIENT_ID

if TYPE_CHECKING:
    from joserfc.jwk import Key

logger = logging.getLogger(__name__)

KEPT_SECONDS = 600
# The least time between two fetches, whatever kids strangers send.
PAUSE_SECONDS = 30
TIMEOUT_SECONDS = 5
LARGEST = 256 * 1024


class OutsideIssuer:
    """A trusted issuer at a URL.

    Raises:
        ValueError: the URL is neither https nor http to a loopback address, or has more than host, port and path.
    """

    client_id = CLIENT_ID
    audience = AUDIENCE
    algorithms: Sequence[str] = ("ES256", "ES384", "RS256", "PS256")
    token_type: str | None = None
    starts_sessions = True

    def __init__(self, url: str) -> None:
        require_safe(url)
        self.issuer = url
        self._lock = threading.Lock()
        self._keys: dict[str, Key] = {}
        self._fetched: float | None = None

    def key(self, kid: str) -> "Key | None":
        """The key of that id; None when the provider has none.

        Raises:
            Refusal: 503 when the provider's keys are needed and cannot be read.
        """
        with self._lock:
            age = None if self._fetched is None else time.monotonic() - self._fetched
            if age is None or age > KEPT_SECONDS or (kid not in self._keys and age > PAUSE_SECONDS):
                # Also a fetch that fails starts the pause: a provider that is down is not hammered.
                self._fetched = time.monotonic()
                try:
                    self._keys = self._fetch()
                except (OSError, ValueError) as error:
                    self._keys = {}
                    logger.warning("the keys of %s cannot be read: %s", self.issuer, error)
            if not self._keys:
                raise Refusal(503, "SERVICE_UNAVAILABLE", "the identity provider's keys cannot be read at the moment")
            return self._keys.get(kid)

    def _fetch(self) -> "dict[str, Key]":
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        document = fetch(f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
        if document.get("issuer") != self.issuer:
            raise ValueError("its discovery document names another issuer")
        try:
            keys = KeySet.import_key_set({"keys": fetch(str(document["jwks_uri"]))["keys"]})
        except (JoseError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"its keys are not a key set ({error})") from error
        return {key.kid: key for key in keys if key.kid}


def fetch(url: str) -> dict[str, Any]:
    """A JSON object from a URL.

    Raises:
        OSError: the other end cannot be reached in time.
        ValueError: it answers something else, or the URL is not a safe one.
    """
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    require_safe(url)
    parts = urlsplit(url)
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connect(str(parts.hostname), parts.port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", parts.path or "/", headers={"Accept": "application/json"})
        response = connection.getresponse()
        body = response.read(LARGEST + 1)
    except HTTPException as error:
        raise ValueError(f"{url} does not speak HTTP") from error
    finally:
        connection.close()
    if response.status != 200 or len(body) > LARGEST:
        raise ValueError(f"{url} answers {response.status} with {len(body)} bytes")
    document = json.loads(body)
    if not isinstance(document, dict):
        raise ValueError(f"{url} is not a JSON object")  # noqa: TRY004 - one kind of error for every wrong answer
    return document


def require_safe(url: str) -> None:
    """Raise ValueError unless the URL is https, or http to a loopback address, and plain."""
    parts = urlsplit(url)
    if not parts.hostname or parts.username is not None or parts.query or parts.fragment:
        raise ValueError(f"{url!r} must be a URL of scheme, host and path")
    if parts.scheme == "http" and _loopback(parts.hostname):
        return
    if parts.scheme != "https":
        raise ValueError(f"{url!r} must be https")


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
