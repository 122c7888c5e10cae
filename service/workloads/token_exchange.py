"""Validates cluster issuers and verifies their tokens.

The audience of a token names its cluster. The token is then verified with that cluster's registered keys and issuer.
"""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from service import errors
from service.authn.bearer_tokens import MAX_TOKEN_LENGTH, is_within_lifetime
from service.authn.http_fetch import require_safe_url
from service.authn.oidc_provider import ExternalIssuer
from service.db.engine import Record
from service.errors import ApiError
from service.validation import is_id
from service.workloads import queries

AUDIENCE_PREFIX = "frost:cluster:"
MAX_KEYS = 10
ALGORITHMS: Sequence[str] = ExternalIssuer.algorithms
CURVES = ("P-256", "P-384")
RSA_BITS = range(2048, 8192 + 1)
MAX_KID_LENGTH = 200
_PUBLIC = ("kty", "crv", "x", "y", "n", "e")
_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
_SUBJECT = re.compile(r"system:serviceaccount:([a-z0-9-]{1,63}):([a-z0-9.-]{1,253})", re.ASCII)


def audience(cluster_id: str) -> str:
    """Return the audience that tokens of a cluster must have."""
    return AUDIENCE_PREFIX + cluster_id


def validate_issuer(text: str) -> str:
    """Return the issuer URL of a cluster.

    Raises:
        ApiError: 400 INVALID_INPUT if it is not a plain https URL.
    """
    try:
        require_safe_url(text)
    except ValueError as error:
        raise errors.invalid_input(f"issuer: {error}", member="issuer", reason="url") from None
    return text


def validate_public_keys(keys: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the public parts of signing keys, each with a unique `kid`.

    Raises:
        ApiError: 400 INVALID_INPUT; private keys are never stored.
    """
    if not 1 <= len(keys) <= MAX_KEYS:
        raise _invalid_keys(f"one to {MAX_KEYS} keys")
    validated = [_public_key(key) for key in keys]
    if len({key["kid"] for key in validated}) < len(validated):
        raise _invalid_keys("two keys have the same kid")
    return validated


def _public_key(key_data: dict[str, Any]) -> dict[str, Any]:
    """Validate a key and return it rebuilt from its parsed form."""
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
        raise _invalid_keys(f"{kid!r} is no key ({type(error).__name__})") from None
    if isinstance(public_key, ECKey) and public_key.curve_name not in CURVES:
        raise _invalid_keys(f"{kid!r} is on none of the curves {', '.join(CURVES)}")
    if isinstance(public_key, RSAKey) and public_key.public_key.key_size not in RSA_BITS:
        raise _invalid_keys(
            f"{kid!r} has {public_key.public_key.key_size} bits; RSA keys have {RSA_BITS[0]} to {RSA_BITS[-1]}"
        )
    return {**public_key.as_dict(private=False), "kid": kid}


def _invalid_keys(message: str) -> ApiError:
    return errors.invalid_input(f"keys: {message}", member="keys", reason="keys")


def verify_subject_token(connection: Connection, token: str, now: datetime) -> tuple[Record, datetime] | None:
    """Return the identity of a cluster's token and the token's expiry; None if invalid."""
    from joserfc import jws, jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    if len(token) > MAX_TOKEN_LENGTH or not token.isascii():
        return None
    try:
        unchecked = json.loads(jws.extract_compact(token.encode("ascii")).payload)
        cluster_id = _cluster_id(unchecked)
        issuer = cluster_id and queries.find_issuer_of_cluster(connection, cluster_id)
        if not issuer:
            return None
        keys = KeySet.import_key_set({"keys": issuer.keys})
        claims = jwt.decode(token, keys, ALGORITHMS).claims
    except (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        # Errors of joserfc, and of Python for claims of a wrong type.
        return None
    subject = _SUBJECT.fullmatch(claims["sub"]) if isinstance(claims.get("sub"), str) else None
    if claims.get("iss") != issuer.issuer or not is_within_lifetime(claims, now) or subject is None:
        return None
    identity = queries.find_identity(connection, issuer.tenant_id, issuer.cluster_id, subject[1], subject[2])
    return None if identity is None else (identity, _expiry_time(claims["exp"]))


def _cluster_id(claims: Any) -> str | None:
    """Return the id in the only cluster audience of a token, if any."""
    audience_claim = claims.get("aud")
    audiences = audience_claim if isinstance(audience_claim, list) else [audience_claim]
    cluster_ids = [
        value.removeprefix(AUDIENCE_PREFIX)
        for value in audiences
        if isinstance(value, str) and value.startswith(AUDIENCE_PREFIX)
    ]
    # The database may not accept every text.
    return cluster_ids[0] if len(cluster_ids) == 1 and is_id(cluster_ids[0]) else None


def _expiry_time(expiry: float) -> datetime:
    """Return the time of an `exp` claim, at most the last that a date can have."""
    try:
        return datetime.fromtimestamp(expiry, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.max.replace(tzinfo=UTC)
