"""Who may do what, and what a change would give or take, before it is made. checklist R16, O12"""

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection
from starlette.responses import JSONResponse

from client.policy.document import canonical_text
from service import errors, validation
from service.api.dependencies import PlatformDep, TenantContextDep
from service.api.protected_route import protected_router
from service.api.responses import or_404
from service.authz.context import TenantContext
from service.authz.paths import IAM
from service.context import Platform
from service.db.engine import Record
from service.errors import ApiError
from service.iam import author_check, change_preview, effective_access, group_queries, policy_queries
from service.iam.attachments import require_principal
from service.iam.change_preview import Change
from service.iam.policy_documents import read_document
from service.iam.simulation_requests import (
    NO_FACTS,
    FactsBody,
    facts_of,
    full_target,
    known_region,
    operation_of,
    require_region,
    target_for,
)
from service.principals import grants as stored
from service.principals import lookup, queries

router = protected_router("access")
MAX_PRINCIPALS = 1_000
"""Of all that may do something: the first, and how many there are."""


class WhoCanRequest(BaseModel):
    """The body that asks who may do something."""

    model_config = ConfigDict(extra="forbid", strict=True)

    operation: str
    target: str
    facts: FactsBody = NO_FACTS


class PreviewRequest(BaseModel):
    """The body that tells a change which is not made yet."""

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
    """Everything a principal may do, with the path: group, policy, rule."""
    tenant_id, kind = (
        context.tenant_id,
        validation.require_choice("principalType", principal_type, validation.PRINCIPAL_TYPES),
    )
    with platform.database.read() as connection:
        principal = lookup.get_principal(connection, tenant_id, kind, principal_id, platform.clock.now())
        compiled = platform.decisions.compiled(connection, principal.grants)
        paths = queries.paths(connection, tenant_id, kind, principal_id)
        held = policy_queries.held(connection, tenant_id, [one.policy_id for one in principal.grants.policies])
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
                    "paths": effective_access.shown_paths(paths[row.id]),
                    "pathsTotal": len(paths[row.id]),
                }
                for row in held
            ],
            "operations": effective_access.operations(compiled, paths),
        }
    )


@router.post(f"{IAM}/who", operation_id="whoMay")
def who_may(context: TenantContextDep, platform: PlatformDep, body: WhoCanRequest) -> JSONResponse:
    """The people, keys and identities of the tenant that may do something, and through what: the first of them, by
    kind and name; `total` counts all of them. Apart from them, those that may as what is not known turns out."""
    tenant_id, now = context.tenant_id, platform.clock.now()
    may: dict[str, list[dict[str, Any]]] = {"allowed": [], "conditional": []}
    totals = dict.fromkeys(may, 0)
    examined = 0
    with platform.database.read() as connection:
        known = platform.decisions.known(connection)
        require_region(connection, tenant_id, body.facts)
        operation = operation_of(body.operation, known)
        asked = full_target(target_for(operation, body.target), operation, body.facts.region)
        # There may be very many of them, but they rest on few different scopes and policies: each is decided once.
        decided: dict[object, dict[str, Any] | None] = {}
        for principal in lookup.list_principals(connection, tenant_id, now):
            examined += 1
            grants = principal.grants
            rests_on = (grants.kind, grants.role, grants.scopes, grants.policies)
            if rests_on not in decided:
                facts = facts_of(
                    body.facts,
                    platform.clock,
                    principal_type=principal.kind,
                    tenant=tenant_id,
                    region=known_region(target_for(operation, body.target)),
                )
                compiled = platform.decisions.compiled(connection, grants)
                decided[rests_on] = effective_access.explain_access(compiled, operation, asked, facts)
            if because := decided[rests_on]:
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
    """A grant with how its policy reaches a principal; `ways` keeps what was read of each policy."""
    policy_id = grant.get("policyId")
    if policy_id is None:
        return grant
    if policy_id not in ways:
        ways[policy_id] = queries.ways_of(connection, tenant_id, policy_id)
    return grant | {"paths": effective_access.shown_paths(ways[policy_id].get(principal, ()))}


@router.post(f"{IAM}/preview", operation_id="previewChange")
def preview_change(context: TenantContextDep, platform: PlatformDep, body: PreviewRequest) -> JSONResponse:
    """What a change would give to keys and identities and take from them, and with what it would be refused if the
    caller made it; nothing is changed."""
    tenant_id = context.tenant_id
    with platform.database.read() as connection:
        change = _change(connection, platform, context, body)
        shown = change_preview.effects_of(connection, platform.decisions, tenant_id, change, platform.clock.now())
        try:
            author = author_check.author_of(connection, platform, context)
            change_preview.require_permitted(connection, author, change, shown["principals"])
            refused = None
        except ApiError as refusal:
            refused = {"status": refusal.status_code, **refusal.body}
    return JSONResponse(shown | {"refused": refused})


def _change(connection: Connection, platform: Platform, context: TenantContext, body: PreviewRequest) -> Change:
    """The change of a body, with everything it names there.

    Raises:
        Refusal: 400 for a member that is missing, flat 404 for a thing that is not there.
    """
    tenant_id = context.tenant_id
    needs = change_preview.NEEDS[body.change]
    given = {
        "policyId": body.policy_id,
        "groupId": body.group_id,
        "principalType": body.principal_type,
        "principalId": body.principal_id,
        "documentText": body.document_text,
    }
    for name, value in given.items():
        if (value is None) is (name in needs):
            what = "is required" if name in needs else "has no meaning"
            raise errors.invalid_input(f'"{name}" {what} for {body.change}', member=name)
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
        known = platform.decisions.known(connection)
        draft = canonical_text(read_document(platform, known, body.document_text).document)
    role = stored.role_in(connection, tenant_id, context.principal.user_id)
    return Change(body.change, body.policy_id, body.group_id, body.principal_type, body.principal_id, draft, role)
