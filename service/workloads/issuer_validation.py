"""Validates the issuer and the public keys of a cluster."""

from collections.abc import Sequence
from typing import Any

from service import errors
from service.authn.http_fetch import require_safe_url
from service.authn.oidc_provider import ExternalIssuer
from service.errors import ApiError

MAX_KEYS = 10
ALGORITHMS: Sequence[str] = ExternalIssuer.algorithms
CURVES = ("P-256", "P-384")
RSA_BITS = range(2048, 8192 + 1)
MAX_KID_LENGTH = 200
_PUBLIC = ("kty", "crv", "x", "y", "n", "e")
_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})


def validate_issuer(text: str) -> str:
    """Return the issuer URL of a cluster.

    Raises:
        ApiError: 400 INVALID_INPUT unless it is https, or http to a loopback address.
    """
    try:
        require_safe_url(text)
    except ValueError as error:
        raise errors.invalid_input(f"issuer: {error}", member="issuer", reason="url") from None
    return text


def validate_public_keys(keys: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the public parts of signing keys, each with a unique `kid`.

    Raises:
        ApiError: 400 INVALID_INPUT, also for private keys.
    """
    if not 1 <= len(keys) <= MAX_KEYS:
        raise _invalid_keys(f"one to {MAX_KEYS} keys")
    validated = [_public_key(key) for key in keys]
    if len({key["kid"] for key in validated}) < len(validated):
        raise _invalid_keys("two keys have the same kid")
    return validated


def _public_key(key_data: dict[str, Any]) -> dict[str, Any]:
    """Return a valid key, rebuilt from its parsed form."""
    from joserfc.errors import JoseError
    from joserfc.jwk import ECKey, RSAKey

    if _PRIVATE & key_data.keys():
        raise _invalid_keys("a private or symmetric key must not leave its owner; give the public part")
    kid, key_type = key_data.get("kid"), key_data.get("kty")
    if not isinstance(kid, str) or not 1 <= len(kid) <= MAX_KID_LENGTH or not kid.isprintable():
        raise _invalid_keys(f"each key has a kid of 1 to {MAX_KID_LENGTH} printable characters")
    if (
        key_type not in ("EC", "RSA")
        or key_data.get("use", "sig") != "sig"
        or key_data.get("alg", "ES256") not in ALGORITHMS
    ):
        raise _invalid_keys(f"{kid!r} must be of kty EC or RSA, to sign with {', '.join(ALGORITHMS)}")
    algorithm: type[ECKey | RSAKey] = ECKey if key_type == "EC" else RSAKey
    try:
        parsed = algorithm.import_key({name: key_data[name] for name in _PUBLIC if name in key_data})
        public_key = algorithm.import_key(parsed.as_pem(private=False))
    except (JoseError, ValueError, TypeError) as error:
        raise _invalid_keys(f"{kid!r} is not a valid key ({type(error).__name__})") from None
    if isinstance(public_key, ECKey) and public_key.curve_name not in CURVES:
        raise _invalid_keys(f"{kid!r} must be on one of the curves {', '.join(CURVES)}")
    if isinstance(public_key, RSAKey) and public_key.public_key.key_size not in RSA_BITS:
        raise _invalid_keys(
            f"{kid!r} has {public_key.public_key.key_size} bits; RSA keys have {RSA_BITS[0]} to {RSA_BITS[-1]}"
        )
    return {**public_key.as_dict(private=False), "kid": kid}


def _invalid_keys(message: str) -> ApiError:
    return errors.invalid_input(f"keys: {message}", member="keys", reason="keys")
