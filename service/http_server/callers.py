"""Who sends a request, as far as its head shows before authentication."""

from collections.abc import Iterable
from hashlib import sha256

from service.lru_cache import LruCache
from service.principal import Principal

CREDENTIAL_HEADERS = (b"x-api-key", b"authorization")
MAX_ACCEPTED = 10_000


def credential_digest(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """Return the SHA-256 of the credential in the headers, its key in the caches of the process; None without one.

    Several credentials, which are not valid, have a key too.
    """
    credential: bytes | None = None
    for name, value in headers:
        if name in CREDENTIAL_HEADERS:
            # After the scheme, if there is one.
            credential = (credential or b"") + value.rpartition(b" ")[2]
    return None if credential is None else sha256(credential).digest()


class AcceptedCredentials:
    """The principals of recently accepted credentials, by digest.

    A refused credential leaves, so a revoked one has one more request among the accepted ones.
    """

    def __init__(self) -> None:
        self._principals: LruCache[bytes, Principal] = LruCache(MAX_ACCEPTED)

    def get(self, digest: bytes) -> Principal | None:
        return self._principals.get(digest)

    def add(self, digest: bytes, principal: Principal) -> None:
        self._principals[digest] = principal

    def discard(self, digest: bytes) -> Principal | None:
        """Forget a credential; return its principal if it was accepted recently."""
        principal = self._principals.peek(digest)
        self._principals.discard(digest)
        return principal
