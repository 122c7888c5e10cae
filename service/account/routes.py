"""Who am I, and where do I belong. contract: account, Tenant"""

from typing import Any

from sqlalchemy import Connection
from starlette.responses import JSONResponse

from service.account import queries
from service.api.dependencies import ContextDep, PlatformDep
from service.api.protected_route import protected_router
from service.clock import wire_time
from service.db.engine import Record
from service.errors import ApiError
from service.principal import Principal
from service.settings import VERSION

router = protected_router("account")


@router.get("/api/v1/auth/cli-config", operation_id="getCliConfig")
def get_cli_config(platform: PlatformDep, context: ContextDep) -> JSONResponse:
    """Where a front end signs its person in, as which public client, and which resource it asks a token for.

    `resource` (RFC 8707) is there when the audience is a URL: providers that give their tokens for one resource at a
    time give the right one only when they are asked for it.
    """
    if platform.settings.issuer == "local" and context.principal.peer_uid is None:
        raise ApiError(
            503,
            "NOT_AVAILABLE",
            "sign-in is not available over the network",
            hint="this platform signs people in on its own machine only; start it with --issuer for others",
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
    """The caller's person, credential, default tenant (empty when there is none) and organizations."""
    caller = context.principal
    with platform.database.read() as connection:
        who = whose(connection, caller)
        seats = queries.organizations_of(connection, caller)
    credential: dict[str, Any] = {
        "kind": caller.kind,
        "id": caller.credential_id,
        "expiresAt": wire_time(caller.expires_at) if caller.expires_at else None,
    }
    if caller.kind != "session":
        credential |= {"scopes": list(caller.scopes), "tenantId": caller.tenant_id}
    return JSONResponse(
        who
        | {
            "credential": credential,
            "organizations": [
                {"id": seat.id, "name": seat.name, "slug": seat.slug, "role": seat.role} for seat in seats
            ],
        }
    )


def whose(connection: Connection, caller: Principal) -> dict[str, str]:
    """The person, or the workload identity, that a caller is; an identity has no address."""
    if caller.kind == "workload":
        identity = queries.workload(connection, caller.workload_id)
        name, email, home = f"{identity.namespace}/{identity.service_account}", "", identity.tenant_id
        return _who(identity, email, name, home)
    person = queries.person(connection, caller.user_id)
    return _who(person, person.email, person.name, caller.tenant_id or person.default_tenant_id or "")


def _who(row: Record, email: str, name: str, tenant_id: str) -> dict[str, str]:
    created = wire_time(row.created_at)
    return {"id": row.id, "tenantId": tenant_id, "email": email, "name": name, "createdAt": created}


@router.get("/api/v1/organizations", operation_id="listOrganizations")
def list_organizations(platform: PlatformDep, context: ContextDep) -> JSONResponse:
    """The organizations the caller belongs to, by name, with the caller's role in each."""
    with platform.database.read() as connection:
        seats = queries.organizations_of(connection, context.principal)
    return JSONResponse(
        {
            "organizations": [
                {
                    "id": seat.id,
                    "name": seat.name,
                    "slug": seat.slug,
                    "role": seat.role,
                    "createdAt": wire_time(seat.created_at),
                }
                for seat in seats
            ]
        }
    )
