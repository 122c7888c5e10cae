"""Deleting one's account over HTTP, and the staff's way back. contract: account delete; checklist A03 to A07"""

from typing import Annotated

from fastapi import Depends, Query
from pydantic import BaseModel, ConfigDict
from starlette.responses import JSONResponse

from service.access import audit
from service.access.authority import Access, authorize
from service.access.changes import change
from service.access.guard import area
from service.account import deletion, store
from service.clock import wire_time
from service.errors import Refusal
from service.iam.answering import found
from service.platform import Platform, platform_of

router = area("account")

Granted = Annotated[Access, Depends(authorize)]
Here = Annotated[Platform, Depends(platform_of)]


class Restoration(BaseModel):
    """The body that names whose account comes back."""

    model_config = ConfigDict(extra="forbid", strict=True)

    email: str


@router.delete("/api/v1/me")
def delete_account(
    access: Granted,
    platform: Here,
    email: Annotated[
        str | None, Query(description="typed by the person; another address than theirs is refused")
    ] = None,
) -> JSONResponse:
    """Delete the account of the caller. Its sessions and keys are dead from the next request on."""
    user_id, now = str(access.caller.user_id), platform.clock.now()
    with change(platform, access, lock_organization=True) as (connection, access):
        person = store.person(connection, user_id)
        if email is not None and email.strip().lower() != person.email:
            raise Refusal(400, "CONFIRMATION_MISMATCH", "this is not the address of the account")
        alone = deletion.owned_alone(connection, user_id)
        if alone:
            raise Refusal(
                409,
                "LAST_OWNER",
                "the last owner of an organization with other members cannot leave it",
                details={"organizations": [{"id": row.id, "name": row.name} for row in alone]},
                hint="make somebody else an owner first",
            )
        ended = deletion.delete(connection, user_id, now)
        audit.record(
            connection, access.caller, operation="account.delete", target=f"user:{user_id}", details=ended, at=now
        )
    until = wire_time(deletion.restorable_until(now))
    return JSONResponse({"email": person.email, "deletedAt": wire_time(now), "restorableUntil": until})


@router.post("/api/v1/platform/accounts/restore")
def restore_account(access: Granted, platform: Here, body: Restoration) -> JSONResponse:
    """Bring a deleted account back within 30 days. Sessions stay ended, keys stay revoked."""
    now = platform.clock.now()
    with platform.database.write() as connection:
        person = found(deletion.deleted_person(connection, body.email) if body.email.isprintable() else None)
        if person.deleted_at is None:
            raise Refusal(409, "ACCOUNT_NOT_DELETED", "this account is not deleted")
        until = deletion.restorable_until(person.deleted_at)
        if now > until:
            raise Refusal(
                409,
                "RESTORE_WINDOW_PASSED",
                f"the deletion could be reversed until {wire_time(until)}",
                details={"deletedAt": wire_time(person.deleted_at), "restorableUntil": wire_time(until)},
            )
        deletion.restore(connection, person.id)
        audit.record(
            connection,
            access.caller,
            operation="account.restore",
            target=f"user:{person.id}",
            details={"deletedAt": wire_time(person.deleted_at)},
            at=now,
        )
    return JSONResponse({"id": person.id, "email": person.email, "name": person.name, "restoredAt": wire_time(now)})
