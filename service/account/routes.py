"""Routes of the account: profile, organizations, sign-in configuration, sessions, deletion and restoration.

Deletion marks the row, and ends sessions and API keys permanently. Memberships are kept for a restoration, which an
operator can do within 30 days.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, ConfigDict
from sqlalchemy import Connection, func, select, update
from starlette.responses import Response

from service.account import queries
from service.api.changes import change
from service.api.dependencies import ContextDep, PlatformDep
from service.api.protected_route import protected_router
from service.api.responses import or_404
from service.audit import entries
from service.audit.entries import AuditEvent
from service.authn import sessions
from service.clock import wire_time
from service.db.engine import Record
from service.db.revisions import lock_domains
from service.db.tables import api_keys, memberships, organizations, tenants, users
from service.errors import ApiError, session_required
from service.json_bodies import JSONResponse
from service.principal import Principal
from service.settings import VERSION

router = protected_router("account")
session_router = protected_router("sessions")
RESTORE_WINDOW = timedelta(days=30)
OWNER = "owner"


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


def restorable_until(deleted_at: datetime) -> datetime:
    return deleted_at + RESTORE_WINDOW


def sole_owner_organizations(connection: Connection, user_id: str) -> Sequence[Record]:
    """Return `id` and `name` of the organizations with other members but no other owner."""
    others = (
        select(
            memberships.c.organization_id,
            func.count().label("members"),
            func.count().filter(memberships.c.role == OWNER).label("owners"),
        )
        .join(users, users.c.id == memberships.c.user_id)
        .where(users.c.deleted_at.is_(None), users.c.id != user_id)
        .group_by(memberships.c.organization_id)
        .subquery()
    )
    return connection.execute(
        select(organizations.c.id, organizations.c.name)
        .join(memberships, memberships.c.organization_id == organizations.c.id)
        .join(others, others.c.organization_id == organizations.c.id)
        .where(memberships.c.user_id == user_id, memberships.c.role == OWNER, others.c.owners == 0)
        .order_by(organizations.c.name)
    ).all()


def mark_deleted(connection: Connection, user_id: str, at: datetime) -> dict[str, int]:
    """Mark a person as deleted, end sessions and revoke keys; return the number of each."""
    connection.execute(update(users).where(users.c.id == user_id).values(deleted_at=at))
    ended = sessions.end_all(connection, user_id, reason="account_deleted", at=at)
    revoked = connection.execute(
        update(api_keys).where(api_keys.c.user_id == user_id, api_keys.c.revoked_at.is_(None)).values(revoked_at=at)
    )
    return {"sessions": ended, "apiKeys": revoked.rowcount}


def affected_organizations(connection: Connection, user_id: str) -> Sequence[str]:
    """Return the organizations of a person, and those of the tenants of the person's keys."""
    of_memberships = select(memberships.c.organization_id).where(memberships.c.user_id == user_id)
    of_keys = (
        select(tenants.c.organization_id)
        .join(api_keys, api_keys.c.tenant_id == tenants.c.id)
        .where(api_keys.c.user_id == user_id, api_keys.c.revoked_at.is_(None))
    )
    return connection.scalars(of_memberships.union(of_keys)).all()


def find_person(connection: Connection, email: str) -> Record | None:
    """Return `id`, `email`, `name` and `deleted_at` of a person, deleted or not."""
    return connection.execute(
        select(users.c.id, users.c.email, users.c.name, users.c.deleted_at).where(
            users.c.email == email.strip().lower()
        )
    ).one_or_none()


def unmark_deleted(connection: Connection, user_id: str) -> None:
    connection.execute(update(users).where(users.c.id == user_id).values(deleted_at=None))


class Restoration(BaseModel):
    """The account to restore."""

    model_config = ConfigDict(extra="forbid", strict=True)

    email: str


@router.delete("/api/v1/me", operation_id="deleteAccount")
def delete_account(
    context: ContextDep,
    platform: PlatformDep,
    email: Annotated[
        str | None, Query(description="address of the account, as a confirmation; another address is refused")
    ] = None,
) -> JSONResponse:
    """Delete the account of the principal. Sessions and keys end immediately."""
    user_id, now = str(context.principal.user_id), platform.clock.now()
    with platform.database.read() as connection:
        affected = affected_organizations(connection, user_id)
    with change(platform, context, organizations=affected) as (connection, context):
        person = queries.person(connection, user_id)
        if email is not None and email.strip().lower() != person.email:
            raise ApiError(400, "CONFIRMATION_MISMATCH", "the address is not the address of the account")
        owned = sole_owner_organizations(connection, user_id)
        if owned:
            raise ApiError(
                409,
                "LAST_OWNER",
                "the last owner of an organization with other members cannot delete the account",
                details={"organizations": [{"id": row.id, "name": row.name} for row in owned]},
                hint="make another member an owner first",
            )
        details = mark_deleted(connection, user_id, now)
        entries.record(
            connection,
            context.principal,
            event=AuditEvent.ACCOUNT_DELETE,
            target=f"user:{user_id}",
            details=details,
            at=now,
        )
    until = wire_time(restorable_until(now))
    return JSONResponse({"email": person.email, "deletedAt": wire_time(now), "restorableUntil": until})


@router.post("/api/v1/platform/accounts/restore", operation_id="restoreAccount")
def restore_account(context: ContextDep, platform: PlatformDep, body: Restoration) -> JSONResponse:
    """Restore an account within 30 days, without its sessions and API keys."""
    now = platform.clock.now()
    with platform.database.write() as connection:
        person = or_404(find_person(connection, body.email) if body.email.isprintable() else None)
        lock_domains(connection, [person.id, *affected_organizations(connection, person.id)])
        # Another request may have restored the person before the lock.
        person = or_404(find_person(connection, body.email))
        if person.deleted_at is None:
            raise ApiError(409, "ACCOUNT_NOT_DELETED", "this account is not deleted")
        until = restorable_until(person.deleted_at)
        if now > until:
            raise ApiError(
                409,
                "RESTORE_WINDOW_PASSED",
                f"the deletion could be reversed until {wire_time(until)}",
                details={"deletedAt": wire_time(person.deleted_at), "restorableUntil": wire_time(until)},
            )
        unmark_deleted(connection, person.id)
        entries.record(
            connection,
            context.principal,
            event=AuditEvent.ACCOUNT_RESTORE,
            target=f"user:{person.id}",
            details={"deletedAt": wire_time(person.deleted_at)},
            at=now,
        )
    return JSONResponse({"id": person.id, "email": person.email, "name": person.name, "restoredAt": wire_time(now)})


@session_router.get("/api/v1/sessions", operation_id="listSessions")
def list_sessions(platform: PlatformDep, context: ContextDep) -> JSONResponse:
    """List the principal's active sessions, last used first."""
    with platform.database.read() as connection:
        rows = sessions.list_active(connection, str(context.principal.user_id), platform.clock.now())
    return JSONResponse(
        {
            "sessions": [
                {
                    "id": row.id,
                    "device": row.device,
                    "place": row.place,
                    "startedAt": wire_time(row.started_at),
                    "lastSeenAt": wire_time(row.last_seen_at),
                    "expiresAt": wire_time(row.expires_at),
                    "current": row.id == context.principal.session_id,
                }
                for row in rows
            ]
        }
    )


@session_router.post("/api/v1/sessions/revoke-all", operation_id="revokeAllSessions")
def revoke_all_sessions(platform: PlatformDep, context: ContextDep) -> JSONResponse:
    """End all sessions of the principal, including this session. API keys remain valid."""
    user_id, now = str(context.principal.user_id), platform.clock.now()
    with change(platform, context) as (connection, context):
        ended = sessions.end_all(connection, user_id, reason="revoked_all", at=now)
        entries.record(
            connection,
            context.principal,
            event=AuditEvent.SESSION_REVOKE_ALL,
            target=f"user:{user_id}",
            details={"sessions": ended},
            at=now,
        )
    return JSONResponse({"ended": ended})


@session_router.post("/api/v1/sessions/current/end", operation_id="endCurrentSession", status_code=204)
def end_current_session(platform: PlatformDep, context: ContextDep) -> Response:
    """End the session with its access and refresh tokens immediately."""
    session_id = context.principal.session_id
    if session_id is None:
        raise session_required()
    with change(platform, context) as (connection, context):
        sessions.sign_out(connection, context.principal, session_id, at=platform.clock.now())
    return Response(status_code=204)


router.routes.extend(session_router.routes)
