"""The local OpenID Connect issuer and its discovery metadata (OpenID Connect Discovery 1.0, RFC 8414).

It is served only over the unix socket, which only the user of the platform process can open.
"""

from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.authn.bearer_tokens import ACCESS_TOKEN_TYPE
from service.clock import Clock
from service.db.engine import Database
from service.oidc_issuer.signing_key import ALGORITHM, SigningKey
from service.settings import AUDIENCE, CLIENT_ID

if TYPE_CHECKING:
    from joserfc.jwk import Key


ISSUER = "http://localhost/issuer"
KEY_FILE = "issuer.jwk"


class LocalIssuer:
    """Issues tokens to people of this platform.

    Args:
        data_dir: the folder of `issuer.jwk`.
        secret: the platform's secret, for the digests of codes and refresh tokens.
    """

    issuer = ISSUER
    client_id = CLIENT_ID
    audience = AUDIENCE
    algorithms: Sequence[str] = (ALGORITHM,)
    token_type: str | None = ACCESS_TOKEN_TYPE
    # The sign-in starts the session, before its first token.
    starts_sessions = False
    assumed_claims: Set[str] = frozenset()

    def __init__(self, database: Database, clock: Clock, data_dir: Path, secret: bytes) -> None:
        self.database = database
        self.clock = clock
        self.secret = secret
        self._key = SigningKey(data_dir / KEY_FILE)

    def load_key(self) -> None:
        """Load or create the signing key."""
        _ = self._key.public

    def public_jwks(self) -> dict[str, Any]:
        return self._key.public_jwks()

    def sign(self, claims: dict[str, Any], token_type: str = ACCESS_TOKEN_TYPE) -> str:
        return self._key.sign(claims, token_type)

    def key(self, kid: str) -> "Key | None":
        return self._key.public if kid == self._key.public.kid else None

    cached_key = key


DEVICE_CODE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
GRANT_TYPES = ("authorization_code", "refresh_token", DEVICE_CODE_GRANT)
SCOPES = ("openid", "profile", "email", "offline_access")


def discovery_metadata(issuer: str) -> dict[str, Any]:
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
