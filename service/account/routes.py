"""Routes of the profile, its organizations and the sign-in configuration."""

from typing import Any

from sqlalchemy import Connection

from service.account import queries
from service.api.dependencies import ContextDep, PlatformDep
from service.api.protected_route import protected_router
from service.clock import wire_time
from service.db.engine import Record
from service.errors import ApiError
from service.json_response import JSONResponse
from service.principal import Principal
from service.settings import VERSION

router = protected_router("account")


@router.get("/api/v1/auth/cli-config", operation_id="getCliConfig")
def get_cli_config(platform: PlatformDep, context: ContextDep) -> JSONResponse:
    """Return the issuer and the public client for sign-in.

    `resource` (RFC 8707) is set if the audience is a URI, because some providers issue tokens for a single resource.
    """
    if platform.settings.issuer == "local" and context.principal.peer_uid is None:
        raise ApiError(
            503,
            "NOT_AVAILABLE",
            "sign-in is not available over the network",
            hint="this platform only allows sign-in on its own machine; set --issuer for remote users",
        )
    audience = platform.issuer.audience
    return JSONResponse(
        {
            "issuer": platform.issuer.issuer,
            "clientId": platform.issuer.client_id,
            **({"resource": audience} if ":" in audience else {}),
            "version": VERSION,
        }
    )


@router.get("/api/v1/me", operation_id="getMe")
def get_me(platform: PlatformDep, context: ContextDep) -> JSONResponse:
    """Return the principal's person or workload identity, credential, organizations and default tenant (or "")."""
    principal = context.principal
    with platform.database.read() as connection:
        profile = profile_of(connection, principal)
        memberships = queries.organizations_of(connection, principal)
    credential: dict[str, Any] = {
        "kind": principal.kind,
        "id": principal.credential_id,
        "expiresAt": wire_time(principal.expires_at) if principal.expires_at else None,
    }
    if principal.kind != "session":
        credential |= {"scopes": list(principal.scopes), "tenantId": principal.tenant_id}
    return JSONResponse(
        profile
        | {
            "credential": credential,
            "organizations": [
                {"id": row.id, "name": row.name, "slug": row.slug, "role": row.role} for row in memberships
            ],
        }
    )


def profile_of(connection: Connection, principal: Principal) -> dict[str, str]:
    """Return the person or workload identity, which has no e-mail address."""
    if principal.kind == "workload":
        identity = queries.workload(connection, principal.workload_id)
        name = f"{identity.namespace}/{identity.service_account}"
        return _profile(identity, "", name, identity.tenant_id)
    person = queries.person(connection, principal.user_id)
    return _profile(person, person.email, person.name, principal.tenant_id or person.default_tenant_id or "")


def _profile(row: Record, email: str, name: str, tenant_id: str) -> dict[str, str]:
    created = wire_time(row.created_at)
    return {"id": row.id, "tenantId": tenant_id, "email": email, "name": name, "createdAt": created}


@router.get("/api/v1/organizations", operation_id="listOrganizations")
def list_organizations(platform: PlatformDep, context: ContextDep) -> JSONResponse:
    """List the organizations of the principal with its role, by name."""
    with platform.database.read() as connection:
        memberships = queries.organizations_of(connection, context.principal)
    return JSONResponse(
        {
            "organizations": [
                {
                    "id": row.id,
                    "name": row.name,
                    "slug": row.slug,
                    "role": row.role,
                    "createdAt": wire_time(row.created_at),
                }
                for row in memberships
            ]
        }
    )
