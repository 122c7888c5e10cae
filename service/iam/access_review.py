"""Access: lists the scopes of API keys, the operations of policies and the access of principals.

A preview shows the effect of a change on the access.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection, Row, select

from service import errors, validation
from service.api.dependencies import ContextDep, PlatformDep, TenantContextDep
from service.api.protected_route import protected_router
from service.api.responses import or_404
from service.authz.context import TenantContext
from service.authz.endpoints import IAM
from service.catalogue.operations import scopes
from service.context import Platform
from service.db.engine import Record
from service.db.tables import catalogue_operations
from service.errors import ApiError
from service.iam import author_check, change_preview, effective_access, group_queries, policy_queries
from service.iam.attachments import require_principal
from service.iam.change_preview import Change
from service.iam.policy_documents import Draft, read_document
from service.iam.simulation_requests import (
    NO_FACTS,
    FactsBody,
    facts_of,
    full_target,
    operation_of,
    region_of,
    require_region,
    target_for,
)
from service.json_bodies import JSONResponse
from service.principals import grants as stored
from service.principals import queries

catalogue_router = protected_router("iam")
router = protected_router("access")
MAX_PRINCIPALS = 1_000
"""Limit on principals in a response; the totals have no limit."""


@catalogue_router.get("/api/v1/scopes", operation_id="listScopes")
def list_scopes(platform: PlatformDep, _: ContextDep) -> JSONResponse:
    """List all scopes, the global `*` first, and all operations in the order of their addition to the catalogue."""
    with platform.database.read() as connection:
        rows = operations(connection)
    return JSONResponse(
        {
            "scopes": [
                {"scope": scope.scope, "description": scope.description, "enforced": scope.enforced}
                for scope in scopes()
            ],
            "operations": [
                {"name": row.name, "accessLevel": row.access_level, "description": row.description} for row in rows
            ],
        }
    )


@catalogue_router.get("/api/v1/iam/catalogue", operation_id="listCatalogue")
def list_catalogue(
    platform: PlatformDep,
    _: ContextDep,
    filter: str = "",
) -> JSONResponse:
    """List the operations with a text in their name, ignoring case, sorted by name."""
    text = filter.casefold()
    with platform.database.read() as connection:
        rows = operations(connection)
    return JSONResponse(
        {
            "operations": [
                {"name": row.name, "accessLevel": row.access_level, "description": row.description}
                for row in sorted(rows, key=lambda row: str(row.name))
                if text in row.name
            ],
            "total": len(rows),
        }
    )


def operations(connection: Connection) -> Sequence[Row[Any]]:
    """Return all operations of the catalogue in order of addition: `name`, `access_level`, `description`."""
    return connection.execute(select(catalogue_operations).order_by(catalogue_operations.c.position)).all()


class WhoCanRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    operation: str
    target: str
    facts: FactsBody = NO_FACTS


class PreviewRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    change: Literal["attach", "detach", "addMember", "removeMember", "deleteGroup", "deletePolicy", "updatePolicy"]
    policy_id: str | None = Field(None, alias="policyId")
    group_id: str | None = Field(None, alias="groupId")
    principal_type: str | None = Field(None, alias="principalType", description="For attach and detach also `group`")
    principal_id: str | None = Field(None, alias="principalId")
    document_text: str | None = Field(None, alias="documentText")


@router.get(f"{IAM}/access", operation_id="getAccess")
def get_access(
    context: TenantContextDep,
    platform: PlatformDep,
    principal_type: Annotated[str, Query(alias="principalType")],
    principal_id: Annotated[str, Query(alias="principalId")],
) -> JSONResponse:
    """List the operations that a principal may do, each with the groups, policies and rules that allow it."""
    tenant_id, kind = (
        context.tenant_id,
        validation.require_choice("principalType", principal_type, validation.PRINCIPAL_TYPES),
    )
    with platform.database.read() as connection:
        principal = queries.get_principal(connection, tenant_id, kind, principal_id, platform.clock.now())
        compiled = platform.decisions.compiled(connection, principal.grants)
        paths = queries.paths(connection, tenant_id, kind, principal_id)
        rows = policy_queries.summaries(
            connection, tenant_id, [policy.policy_id for policy in principal.grants.policies]
        )
    return JSONResponse(
        {
            "principal": principal.wire() | {"works": principal.works},
            "limits": effective_access.limits(compiled),
            "policies": [
                {
                    "policyId": row.id,
                    "policyName": row.name,
                    "version": row.version,
                    "authoredBy": row.authored_by,
                    "orphaned": row.author_role is None,
                    "unreadable": row.id in compiled.unreadable,
                    "paths": effective_access.wire_paths(paths[row.id]),
                    "pathsTotal": len(paths[row.id]),
                }
                for row in rows
            ],
            "operations": effective_access.operations(compiled, paths),
        }
    )


@router.post(f"{IAM}/who", operation_id="whoMay")
def list_allowed_principals(context: TenantContextDep, platform: PlatformDep, body: WhoCanRequest) -> JSONResponse:
    """List the people, API keys and workload identities that may do an operation on a target, with the grants.

    `principals` has the first 1,000 by type, `total` their number. `conditional` lists those with access that depends
    on unknown facts of the request.
    """
    tenant_id, now = context.tenant_id, platform.clock.now()
    may: dict[str, list[dict[str, Any]]] = {"allowed": [], "conditional": []}
    totals = dict.fromkeys(may, 0)
    examined = 0
    with platform.database.read() as connection:
        catalogue = platform.decisions.catalogue(connection)
        require_region(connection, tenant_id, body.facts)
        operation = operation_of(body.operation, catalogue)
        target = full_target(target_for(operation, body.target), operation, body.facts.region)
        # Many principals share a few sets of grants, so each set is decided once.
        decisions: dict[object, dict[str, Any] | None] = {}
        for principal in queries.list_principals(connection, tenant_id, now):
            examined += 1
            grants = principal.grants
            cache_key = (grants.kind, grants.role, grants.scopes, grants.policies)
            if cache_key not in decisions:
                facts = facts_of(
                    body.facts,
                    platform.clock,
                    principal_type=principal.kind,
                    tenant=tenant_id,
                    region=region_of(target_for(operation, body.target)),
                )
                compiled = platform.decisions.compiled(connection, grants)
                decisions[cache_key] = effective_access.explain_access(compiled, operation, target, facts)
            if because := decisions[cache_key]:
                access_now = because["access"]
                totals[access_now] += 1
                if totals[access_now] <= MAX_PRINCIPALS:
                    may[access_now].append(principal.wire() | because)
        ways: dict[str, dict[tuple[str, str], list[Record | None]]] = {}
        for one in (*may["allowed"], *may["conditional"]):
            for side in ("by", "deniedBy"):
                one[side] = [
                    _with_paths(connection, tenant_id, grant, (one["type"], one["id"]), ways) for grant in one[side]
                ]
    return JSONResponse(
        {
            "principals": may["allowed"],
            "total": totals["allowed"],
            "conditional": may["conditional"],
            "conditionalTotal": totals["conditional"],
            "examined": examined,
        }
    )


def _with_paths(
    connection: Connection,
    tenant_id: str,
    grant: dict[str, Any],
    principal: tuple[str, str],
    ways: dict[str, dict[tuple[str, str], list[Record | None]]],
) -> dict[str, Any]:
    """Add the paths of a grant's policy to a principal; `ways` caches the paths by policy."""
    policy_id = grant.get("policyId")
    if policy_id is None:
        return grant
    if policy_id not in ways:
        ways[policy_id] = queries.ways_of(connection, tenant_id, policy_id)
    return grant | {"paths": effective_access.wire_paths(ways[policy_id].get(principal, ()))}


@router.post(f"{IAM}/preview", operation_id="previewChange")
def preview_change(context: TenantContextDep, platform: PlatformDep, body: PreviewRequest) -> JSONResponse:
    """Preview a change of policies or groups without applying it.

    Lists the operations that each API key and workload identity would gain or lose, and the error if the principal may
    not make the change.
    """
    tenant_id = context.tenant_id
    with platform.database.read() as connection:
        change = _change(connection, platform, context, body)
        effects = change_preview.effects_of(connection, platform.decisions, tenant_id, change, platform.clock.now())
        try:
            author = author_check.author_of(connection, platform, context)
            change_preview.require_permitted(connection, author, change, effects["principals"])
            refused = None
        except ApiError as refusal:
            refused = {"status": refusal.status_code, **refusal.body}
    return JSONResponse(effects | {"refused": refused})


def _change(connection: Connection, platform: Platform, context: TenantContext, body: PreviewRequest) -> Change:
    """Return the change of a body.

    Raises:
        ApiError: 400 for a missing or superfluous member, flat 404 for a missing object.
    """
    tenant_id = context.tenant_id
    needs = change_preview.NEEDS[body.change]
    members = {
        "policyId": body.policy_id,
        "groupId": body.group_id,
        "principalType": body.principal_type,
        "principalId": body.principal_id,
        "documentText": body.document_text,
    }
    for name, value in members.items():
        if (value is None) is (name in needs):
            problem = "is required" if name in needs else "has no meaning"
            raise errors.invalid_input(f'"{name}" {problem} for {body.change}', member=name)
    if body.policy_id is not None:
        or_404(policy_queries.get(connection, tenant_id, body.policy_id) if validation.is_id(body.policy_id) else None)
    if body.group_id is not None:
        or_404(group_queries.get(connection, tenant_id, body.group_id) if validation.is_id(body.group_id) else None)
    if body.principal_type is not None:
        kinds = validation.ATTACHEE_TYPES if "policyId" in needs else validation.MEMBER_TYPES
        kind = validation.require_choice("principalType", body.principal_type, kinds)
        require_principal(connection, tenant_id, kind, str(body.principal_id))
    draft = None
    if body.document_text is not None:
        catalogue = platform.decisions.catalogue(connection)
        draft = Draft.of(read_document(platform, catalogue, body.document_text).document)
    role = stored.role_in(connection, tenant_id, context.principal.user_id)
    return Change(body.change, body.policy_id, body.group_id, body.principal_type, body.principal_id, draft, role)


router.routes.extend(catalogue_router.routes)
