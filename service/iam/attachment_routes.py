"""What policies are attached to, over HTTP. contract: Access policies; checklist O, H"""

from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection
from starlette.responses import JSONResponse, Response

from service import errors
from service.access.changes import change
from service.access.guard import area
from service.iam import authorship, grants, permits, policy_store, rules, wire
from service.iam.answering import nothing, record, require_principal
from service.iam.paging import page_of
from service.iam.policy_routes import (
    POLICY,
    AttacheeId,
    AttacheeType,
    Granted,
    Here,
    Paging,
    attachee_of,
    locked,
    the_policy,
)

router = area("policies")
ATTACHMENTS = POLICY + "/attachments"


class NewAttachment(BaseModel):
    """The body that attaches a policy."""

    model_config = ConfigDict(extra="forbid", strict=True)

    attachee_type: str = Field(alias="attacheeType", description="api_key, workload_identity or group")
    attachee_id: str = Field(alias="attacheeId")


@router.post(ATTACHMENTS, status_code=204)
def attach_policy(access: Granted, platform: Here, policy_id: str, body: NewAttachment) -> Response:
    """Attach a policy to a key, an identity or a group. It counts from their next request on."""
    tenant_id, now = str(access.tenant_id), platform.clock.now()
    kind, attachee_id = rules.one_of("attacheeType", body.attachee_type, rules.ATTACHEE_TYPES), body.attachee_id

    def require_authority(connection: Connection) -> None:
        policy = the_policy(connection, access, policy_id)
        require_principal(connection, tenant_id, kind, attachee_id)
        permits.attach(connection, authorship.author_of(connection, platform, access), policy, kind, attachee_id)

    # Decided twice: the answers of the first time are remembered, so that in the writer's turn they take no time.
    with platform.database.read() as connection:
        require_authority(connection)
    with change(platform, access) as (connection, access):
        locked(connection, access, policy_id)
        require_authority(connection)
        if policy_store.attached(connection, tenant_id, policy_id, kind, attachee_id):
            return nothing(changed=False)
        policy_store.attach(
            connection,
            {
                "policy_id": policy_id,
                "attachee_type": kind,
                "attachee_id": attachee_id,
                "tenant_id": tenant_id,
                "attached_by": access.caller.user_id,
                "attached_at": now,
            },
        )
        details = {"attacheeType": kind, "attacheeId": attachee_id}
        record(connection, access, "policy.attach", f"policy:{policy_id}", now, details)
    return nothing()


@router.get(ATTACHMENTS)
def list_policy_attachments(
    access: Granted,
    platform: Here,
    paging: Paging,
    policy_id: str,
    attachee_type: AttacheeType = None,
    attachee_id: AttacheeId = None,
) -> JSONResponse:
    """What a policy is attached to, in the order it was attached; with the pair, that one or nothing."""
    tenant_id = str(access.tenant_id)
    attachee = attachee_of(attachee_type, attachee_id)
    page = page_of(platform, paging, "attachments", tenant_id, policy_id, *(attachee or ()))
    with platform.database.read() as connection:
        the_policy(connection, access, policy_id)
        rows = policy_store.attachment_page(connection, tenant_id, policy_id, attachee, page.after, page.limit)
    rows, cursor = page.cut(rows, "attached_at", "attachee_type", "attachee_id")
    return JSONResponse({"attachments": [wire.attachment(row) for row in rows], "nextCursor": cursor})


@router.delete(ATTACHMENTS, status_code=204)
def detach_policy(
    access: Granted,
    platform: Here,
    policy_id: str,
    attachee_type: Annotated[str, Query(alias="attacheeType")],
    attachee_id: Annotated[str, Query(alias="attacheeId")],
) -> Response:
    """Detach a policy. Refused where it is the last grant of a workload identity."""
    tenant_id, now = str(access.tenant_id), platform.clock.now()
    kind = rules.one_of("attacheeType", attachee_type, rules.ATTACHEE_TYPES)
    with change(platform, access) as (connection, access):
        locked(connection, access, policy_id)
        if not rules.is_id(attachee_id) or not policy_store.attached(
            connection, tenant_id, policy_id, kind, attachee_id
        ):
            raise errors.not_found()
        principals = permits.concerned(connection, kind, attachee_id)
        authorship.require_over(connection, authorship.author_of(connection, platform, access), principals)
        bindings = [identifier for kind, identifier in principals if kind == "workload_identity"]
        granted = grants.granted(connection, tenant_id, bindings)
        policy_store.detach(connection, tenant_id, policy_id, kind, attachee_id)
        grants.require_kept(connection, tenant_id, granted)
        details = {"attacheeType": kind, "attacheeId": attachee_id}
        record(connection, access, "policy.detach", f"policy:{policy_id}", now, details)
    return nothing()
