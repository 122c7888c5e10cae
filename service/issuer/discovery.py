"""What the issuer says of itself: OpenID Connect Discovery 1.0, RFC 8414."""

from typing import Any

from service.issuer.keys import ALGORITHM

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
