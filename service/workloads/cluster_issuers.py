"""Cluster issuers, which sign the service-account tokens of a cluster: routes, SQL, validation, verification of tokens.

The audience of a token names its cluster, which determines the keys and the issuer.
"""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from sqlalchemy import Connection, and_, delete, select
from starlette.responses import Response

from service import errors, validation
from service.api.changes import change
from service.api.dependencies import PlatformDep, TenantContextDep
from service.api.protected_route import protected_router
from service.api.responses import audit_in_tenant, no_content, or_404
from service.audit.entries import AuditEvent
from service.authn.bearer_tokens import MAX_TOKEN_LENGTH, is_within_lifetime
from service.authn.oidc_provider import ExternalIssuer, require_safe_url
from service.authz.endpoints import CLUSTER_ISSUER
from service.clock import wire_time
from service.db.dialect import upsert_insert
from service.db.engine import Record
from service.db.tables import cluster_issuers, resources, tenants, workload_identities, workload_tokens
from service.errors import ApiError
from service.json_bodies import JSONResponse
from service.principals.queries import CLUSTER, cluster_exists

router = protected_router("workload identities")
MAX_KEYS = 10
ALGORITHMS: Sequence[str] = ExternalIssuer.algorithms
CURVES = ("P-256", "P-384")
RSA_BITS = range(2048, 8192 + 1)
MAX_KID_LENGTH = 200
_PUBLIC = ("kty", "crv", "x", "y", "n", "e")
_PRIVATE = frozenset({"d", "p", "q", "dp", "dq", "qi", "oth", "k"})
AUDIENCE_PREFIX = "frost:cluster:"
_SUBJECT = re.compile(r"system:serviceaccount:([a-z0-9-]{1,63}):([a-z0-9.-]{1,253})", re.ASCII)


def save_issuer(connection: Connection, tenant_id: str, cluster_id: str, values: dict[str, Any]) -> None:
    statement = upsert_insert(connection, cluster_issuers).values(tenant_id=tenant_id, cluster_id=cluster_id, **values)
    connection.execute(statement.on_conflict_do_update(index_elements=["tenant_id", "cluster_id"], set_=values))


def find_issuer(connection: Connection, tenant_id: str, cluster_id: str) -> Record | None:
    return connection.execute(
        select(cluster_issuers).where(
            cluster_issuers.c.tenant_id == tenant_id, cluster_issuers.c.cluster_id == cluster_id
        )
    ).one_or_none()


def delete_issuer(connection: Connection, tenant_id: str, cluster_id: str) -> None:
    """Delete a cluster's issuer and the tokens of its workloads."""
    delete_tokens(connection, tenant_id, cluster_id)
    connection.execute(
        delete(cluster_issuers).where(
            cluster_issuers.c.tenant_id == tenant_id, cluster_issuers.c.cluster_id == cluster_id
        )
    )


def delete_tokens(connection: Connection, tenant_id: str, cluster_id: str) -> None:
    identity_ids = select(workload_identities.c.id).where(
        workload_identities.c.tenant_id == tenant_id, workload_identities.c.cluster_id == cluster_id
    )
    connection.execute(delete(workload_tokens).where(workload_tokens.c.identity_id.in_(identity_ids)))


def find_issuer_of_cluster(connection: Connection, cluster_id: str) -> Record | None:
    """Return the issuer of an existing cluster."""
    return connection.execute(
        select(cluster_issuers)
        .join(
            resources,
            and_(resources.c.id == cluster_issuers.c.cluster_id, resources.c.tenant_id == cluster_issuers.c.tenant_id),
        )
        .where(cluster_issuers.c.cluster_id == cluster_id, resources.c.kind == CLUSTER)
    ).one_or_none()


def find_identity(
    connection: Connection, tenant_id: str, cluster_id: str, namespace: str, service_account: str
) -> Record | None:
    """Return an identity with the organization of its tenant."""
    return connection.execute(
        select(workload_identities, tenants.c.organization_id)
        .join(tenants, tenants.c.id == workload_identities.c.tenant_id)
        .where(
            workload_identities.c.tenant_id == tenant_id,
            workload_identities.c.cluster_id == cluster_id,
            workload_identities.c.namespace == namespace,
            workload_identities.c.service_account == service_account,
        )
    ).one_or_none()


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
        issuer = cluster_id and find_issuer_of_cluster(connection, cluster_id)
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
    identity = find_identity(connection, issuer.tenant_id, issuer.cluster_id, subject[1], subject[2])
    return None if identity is None else (identity, datetime.fromtimestamp(claims["exp"], UTC))


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
    return cluster_ids[0] if len(cluster_ids) == 1 and validation.is_id(cluster_ids[0]) else None


class ClusterIssuer(BaseModel):
    """The issuer and signing keys of a cluster."""

    model_config = ConfigDict(extra="forbid", strict=True)

    issuer: Annotated[str, StringConstraints(min_length=1, max_length=300)]
    keys: list[dict[str, Any]] = Field(description="public JSON Web Keys, each with a `kid`; one to ten")


@router.put(CLUSTER_ISSUER, operation_id="setIssuer")
def set_issuer(context: TenantContextDep, platform: PlatformDep, cluster_id: str, body: ClusterIssuer) -> JSONResponse:
    """Set the issuer and public keys of a cluster.

    Removing a key or changing the issuer revokes the tokens of its workloads.
    """
    tenant_id, now = context.tenant_id, platform.clock.now()
    issuer, keys = validate_issuer(body.issuer), validate_public_keys(body.keys)
    with change(platform, context) as (connection, context):
        require_cluster(connection, tenant_id, cluster_id)
        before = find_issuer(connection, tenant_id, cluster_id)
        if before and (before.issuer != issuer or any(key not in keys for key in before.keys)):
            delete_tokens(connection, tenant_id, cluster_id)
        values = {"issuer": issuer, "keys": keys, "changed_by": context.principal.user_id, "changed_at": now}
        save_issuer(connection, tenant_id, cluster_id, values)
        details = {"issuer": issuer, "keyIds": [key["kid"] for key in keys]}
        audit_in_tenant(
            connection, context, AuditEvent.WORKLOAD_IDENTITY_ISSUER_SET, f"cluster:{cluster_id}", now, details
        )
        return JSONResponse(wire(or_404(find_issuer(connection, tenant_id, cluster_id))))


@router.get(CLUSTER_ISSUER, operation_id="getIssuer")
def get_issuer(context: TenantContextDep, platform: PlatformDep, cluster_id: str) -> JSONResponse:
    """Return the issuer of a cluster and the required audience of its tokens."""
    with platform.database.read() as connection:
        return JSONResponse(wire(or_404(find_issuer(connection, context.tenant_id, cluster_id))))


@router.delete(CLUSTER_ISSUER, operation_id="removeIssuer", status_code=204)
def remove_issuer(context: TenantContextDep, platform: PlatformDep, cluster_id: str) -> Response:
    """Delete the issuer of a cluster and revoke the tokens of its workloads."""
    tenant_id, now = context.tenant_id, platform.clock.now()
    with change(platform, context) as (connection, context):
        or_404(find_issuer(connection, tenant_id, cluster_id))
        delete_issuer(connection, tenant_id, cluster_id)
        audit_in_tenant(connection, context, AuditEvent.WORKLOAD_IDENTITY_ISSUER_REMOVE, f"cluster:{cluster_id}", now)
    return no_content()


def require_cluster(connection: Connection, tenant_id: str, cluster_id: str) -> None:
    if not validation.is_id(cluster_id) or not cluster_exists(connection, tenant_id, cluster_id):
        raise errors.not_found()


def wire(row: Record) -> dict[str, Any]:
    return {
        "clusterId": row.cluster_id,
        "issuer": row.issuer,
        "audience": audience(row.cluster_id),
        "keyIds": [key["kid"] for key in row.keys],
        "changedAt": wire_time(row.changed_at),
    }
