"""The local issuer as the rest of the platform sees it.

It answers only over the platform's own unix socket: whoever can open that socket is the person the machine belongs
to. design: The local platform
"""

from collections.abc import Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.clock import Clock
from service.db.engine import Database
from service.issuer.keys import ALGORITHM, SigningKey
from service.settings import AUDIENCE, CLIENT_ID

if TYPE_CHECKING:
    from joserfc.jwk import Key

    from service.issuer.protocol import Server

ISSUER = "http://localhost/issuer"
# RFC 9068. An id token has another type (and audience), so it never passes for an access token.
ACCESS_TOKEN_TYPE = "at+jwt"  # noqa: S105
KEY_FILE = "issuer.jwk"


class LocalIssuer:
    """Signs people of this platform in.

    Args:
        data_dir: where `issuer.jwk` is, or will be made.
        secret: the platform's own secret; keys the digests of every code and refresh token.
    """

    issuer = ISSUER
    client_id = CLIENT_ID
    audience = AUDIENCE
    algorithms: Sequence[str] = (ALGORITHM,)
    token_type: str | None = ACCESS_TOKEN_TYPE
    # Its sessions are started by a sign-in here, never by a token that was not seen before.
    starts_sessions = False
    assumed: Set[str] = frozenset()

    def __init__(self, database: Database, clock: Clock, data_dir: Path, secret: bytes) -> None:
        self.database = database
        self.clock = clock
        self.secret = secret
        self._key = SigningKey(data_dir / KEY_FILE)

    def prepare(self) -> None:
        """Make or load the signing key and the protocol, which the first sign-in would wait for otherwise."""
        _ = self.server, self._key.public

    def public_jwks(self) -> dict[str, Any]:
        return self._key.public_jwks()

    def sign(self, claims: dict[str, Any], token_type: str = ACCESS_TOKEN_TYPE) -> str:
        """A compact JWS (ES256) over the claims."""
        return self._key.sign(claims, token_type)

    def key(self, kid: str) -> "Key | None":
        """The public key of that id; None for any other id than our own."""
        return self._key.public if kid == self._key.public.kid else None

    @cached_property
    def server(self) -> "Server":
        # Authlib's core is loaded by the first sign-in, not by the start of the platform.
        from service.issuer.protocol import build

        return build(self)
