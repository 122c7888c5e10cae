"""Verifies service-account tokens of clusters.

The audience of a token names its cluster, which determines the keys and the issuer.
"""

import json
import re
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from service.authn.bearer_tokens import MAX_TOKEN_LENGTH, is_within_lifetime
from service.db.engine import Record
from service.validation import is_id
from service.workloads import queries
from service.workloads.issuer_validation import ALGORITHMS

AUDIENCE_PREFIX = "frost:cluster:"
_SUBJECT = re.compile(r"system:serviceaccount:([a-z0-9-]{1,63}):([a-z0-9.-]{1,253})", re.ASCII)


def audience(cluster_id: str) -> str:
    return AUDIENCE_PREFIX + cluster_id


def verify_cluster_token(connection: Connection, token: str, now: datetime) -> tuple[Record, datetime] | None:
    """Return the identity that a token belongs to and the token's expiry; None if invalid."""
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
        # Malformed claims raise Python errors.
        return None
    subject = _SUBJECT.fullmatch(claims["sub"]) if isinstance(claims.get("sub"), str) else None
    if claims.get("iss") != issuer.issuer or not is_within_lifetime(claims, now) or subject is None:
        return None
    identity = queries.find_identity(connection, issuer.tenant_id, issuer.cluster_id, subject[1], subject[2])
    return None if identity is None else (identity, _expiry_time(claims["exp"]))


def _cluster_id(claims: Any) -> str | None:
    """Return the id in the only cluster audience of a token."""
    audience_claim = claims.get("aud")
    audiences = audience_claim if isinstance(audience_claim, list) else [audience_claim]
    cluster_ids = [
        value.removeprefix(AUDIENCE_PREFIX)
        for value in audiences
        if isinstance(value, str) and value.startswith(AUDIENCE_PREFIX)
    ]
    # The database rejects some texts.
    return cluster_ids[0] if len(cluster_ids) == 1 and is_id(cluster_ids[0]) else None


def _expiry_time(expiry: float) -> datetime:
    """Return the time of an `exp` claim, at most `datetime.max`."""
    try:
        return datetime.fromtimestamp(expiry, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.max.replace(tzinfo=UTC)
