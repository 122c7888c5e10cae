"""Audit log routes, only for owners and admins of the organization. No scope gives API keys or workloads access."""

import re
from collections.abc import Collection, Sequence
from typing import Annotated, Any

from fastapi import Depends, Query
from sqlalchemy import Connection

from service import errors, validation
from service.activity import queries
from service.activity.queries import ActivityFilter, Target, target_of
from service.api.dependencies import (
    OrganizationContextDep,
    Page,
    PageParams,
    PageParamsDep,
    PlatformDep,
    TenantContextDep,
    page_of,
)
from service.api.protected_route import protected_router
from service.authz.context import OrganizationContext, TenantContext
from service.authz.endpoints import ORGANIZATION, TENANT
from service.clock import wire_time
from service.context import Platform
from service.db.engine import Record
from service.json_bodies import JSONResponse

router = protected_router("activity")
OUTCOMES = ("done", "refused", "failed")
_OPERATION = re.compile(r"[a-z][a-z_]*(\.[a-z_]+)*", re.ASCII)
_MAX_LENGTH = 320


async def parse_filter(
    operation: Annotated[
        str | None, Query(description="one operation (`policy.attach`), or all operations on one kind (`policy`)")
    ] = None,
    actor: Annotated[
        str | None, Query(description="id of a person, a key or an identity, or a member's e-mail address")
    ] = None,
    outcome: Annotated[str | None, Query(description=f"one of {', '.join(OUTCOMES)}")] = None,
    since: Annotated[str | None, Query(description="an RFC 3339 timestamp: entries at or after that time")] = None,
    target: Annotated[str | None, Query(description="target of the operation, `<kind>:<id>`, e.g. `policy:…`")] = None,
) -> ActivityFilter:
    """Validate the filter.

    Raises:
        ApiError: 400 INVALID_INPUT, naming the member.
    """
    if operation is not None and not (len(operation) <= _MAX_LENGTH and _OPERATION.fullmatch(operation)):
        raise _invalid("operation", "operation must be a name, e.g. policy.attach, or its first part: policy")
    if actor is not None and not 1 <= len(actor) <= _MAX_LENGTH:
        raise _invalid("actor", f"actor must be an id or an e-mail address, 1 to {_MAX_LENGTH} characters")
    if outcome is not None and outcome not in OUTCOMES:
        raise _invalid("outcome", f"outcome must be one of {', '.join(OUTCOMES)}")
    begin = None if since is None else validation.instant(since, "since")
    resource = None if target is None or ":" not in target else target_of(target)
    if target is not None and resource is None:
        raise _invalid("target", "target must be a kind and an id, e.g. policy:01a0c0de-0000-7000-8000-000000000001")
    return ActivityFilter(operation, actor.lower() if actor and "@" in actor else actor, outcome, begin, resource)


def _invalid(member: str, message: str) -> Exception:
    return errors.invalid_input(message, member=member)


Filter = Annotated[ActivityFilter, Depends(parse_filter)]


@router.get(f"{TENANT}/activity", operation_id="listTenantActivity")
def list_tenant_activity(
    context: TenantContextDep, platform: PlatformDep, paging: PageParamsDep, entry_filter: Filter
) -> JSONResponse:
    """List the accepted and refused changes in the tenant, newest first."""
    tenant_id, organization_id = context.tenant_id, context.organization_id
    page = _page(platform, paging, "tenant", tenant_id, entry_filter)
    with platform.database.read() as connection:
        rows = queries.of_tenant(connection, tenant_id, organization_id, entry_filter, page.after, page.limit)
        return _answer(connection, context, page, rows)


@router.get(f"{ORGANIZATION}/activity", operation_id="listOrganizationActivity")
def list_organization_activity(
    context: OrganizationContextDep, platform: PlatformDep, paging: PageParamsDep, entry_filter: Filter
) -> JSONResponse:
    """List the accepted and refused changes in the organization outside of its tenants, newest first."""
    organization_id = context.organization_id
    page = _page(platform, paging, "organization", organization_id, entry_filter)
    with platform.database.read() as connection:
        rows = queries.of_organization(connection, organization_id, entry_filter, page.after, page.limit)
        return _answer(connection, context, page, rows)


def _page(platform: Platform, paging: PageParams, of: str, identifier: str, entry_filter: ActivityFilter) -> Page:
    values = ("" if value is None else str(value) for value in entry_filter)
    return page_of(platform, paging, f"activity of {of}", identifier, *values)


def _answer(
    connection: Connection, context: TenantContext | OrganizationContext, page: Page, rows: Sequence[Record]
) -> JSONResponse:
    entries, cursor = page.cut(rows, "at", "id")
    targets = {row.id: target_of(row.target) for row in entries}
    others = {row.id: queries.others_in(row.details) for row in entries}
    named = {target for target in targets.values() if target is not None}.union(*others.values())
    for row in entries:
        if row.actor_kind in ("api_key", "workload") and row.credential_id:
            named.add(_credential(row))
    people = {row.actor_id for row in entries} | {target.id for target in named if target.kind == "user"}
    members: dict[str, tuple[str, str | None]] = dict(
        queries.members_among(connection, context.organization_id, people)
    )
    former = queries.authors_among(connection, context.organization_id, people - members.keys())
    members |= {person: (name, None) for person, name in former.items()}
    names = queries.names(connection, context.organization_id, context.tenant_id, named)
    names = {**names, **{Target("user", person): name for person, (name, _) in members.items()}}
    documents = [_entry(row, targets[row.id], others[row.id], members, names) for row in entries]
    return JSONResponse({"entries": documents, "nextCursor": cursor})


def _credential(row: Record) -> Target:
    return Target("api_key" if row.actor_kind == "api_key" else "workload_identity", row.credential_id)


def _entry(
    row: Record,
    target: Target | None,
    others: Collection[Target],
    members: dict[str, tuple[str, str | None]],
    names: dict[Target, str],
) -> dict[str, Any]:
    """Return an entry as JSON. The actor of an API key is its creator, that of a workload the workload identity."""
    name, email = members.get(row.actor_id, (None, None))
    credential = names.get(_credential(row)) if row.actor_kind in ("api_key", "workload") else None
    return {
        "id": str(row.id),
        "at": wire_time(row.at),
        "requestId": row.request_id,
        "actor": {"kind": row.actor_kind, "id": row.actor_id, "name": name, "email": email},
        "credentialId": row.credential_id,
        "credentialName": credential,
        "operation": row.operation,
        "target": row.target,
        "targetKind": target.kind if target else None,
        "targetId": target.id if target else None,
        "targetName": names.get(target) if target else None,
        "outcome": row.outcome,
        "details": row.details,
        "detailNames": {other.id: names[other] for other in others if other in names},
    }
