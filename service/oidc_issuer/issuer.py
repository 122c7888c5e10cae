"""The local issuer as the rest of the platform sees it.

It answers only over the platform's own unix socket: whoever can open that socket is the person the machine belongs
to. design: The local platform

Its metadata follow OpenID Connect Discovery 1.0 and RFC 8414.
"""

from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.clock import Clock
from service.db.engine import Database
from service.oidc_issuer.signing_key import ALGORITHM, SigningKey
from service.settings import AUDIENCE, CLIENT_ID

if TYPE_CHECKING:
    from joserfc.jwk import Key


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

    def load_key(self) -> None:
        """Load the signing key, or make it, before a transaction begins."""
        _ = self._key.public

    def public_jwks(self) -> dict[str, Any]:
        return self._key.public_jwks()

    def sign(self, claims: dict[str, Any], token_type: str = ACCESS_TOKEN_TYPE) -> str:
        """A compact JWS (ES256) over the claims."""
        return self._key.sign(claims, token_type)

    def key(self, kid: str) -> "Key | None":
        """The public key of that id; None for any other id than our own."""
        return self._key.public if kid == self._key.public.kid else None


DEVICE_CODE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
GRANT_TYPES = ("authorization_code", "refresh_token", DEVICE_CODE_GRANT)
SCOPES = ("openid", "profile", "email", "offline_access")


def document(issuer: str) -> dict[str, Any]:
    """The discovery document: names of endpoints, grants and methods, nothing that changes."""
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "device_authorization_endpoint": f"{issuer}/device_authorization",
        "revocation_endpoint": f"{issuer}/revoke",
        "jwks_uri": f"{issuer}/jwks",
        "scopes_supported": list(SCOPES),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": list(GRANT_TYPES),
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [ALGORITHM],
        "claims_supported": [
            "iss", "sub", "aud", "exp", "nbf", "iat", "jti", "sid", "auth_time", "nonce", "email", "name",
        ],
    }  # fmt: skip
