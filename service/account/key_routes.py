"""API keys over HTTP. contract: API key; checklist K

A person reads and manages their own keys. The list of a tenant names everybody's, because policies and groups are
made of keys; another person's key by its id is not found (checklist K40).
"""

from typing import Annotated

from fastapi import Depends
from sqlalchemy import Connection
from starlette.responses import JSONResponse

from service import errors
from service.access.authority import Access, authorize
from service.access.guard import area
from service.account import key_store
from service.db.engine import Record
from service.platform import Platform, platform_of

router = area("API keys")
KEYS = "/api/v1/tenants/{tenant_id}/api-keys"

Granted = Annotated[Access, Depends(authorize)]
Here = Annotated[Platform, Depends(platform_of)]


@router.get(KEYS)
def list_keys(access: Granted, platform: Here) -> JSONResponse:
    """The keys of the tenant, whoever made them, the newest first."""
    now = platform.clock.now()
    with platform.database.read() as connection:
        rows = key_store.of_tenant(connection, str(access.tenant_id))
    return JSONResponse({"apiKeys": [key_store.wire(row, now) for row in rows]})


@router.get(KEYS + "/{key_id}")
def get_key(access: Granted, platform: Here, key_id: str) -> JSONResponse:
    """One key of the caller; a key finds itself and no other."""
    with platform.database.read() as connection:
        row = the_key(connection, access, key_id)
    return JSONResponse(key_store.wire(row, platform.clock.now()))


def the_key(connection: Connection, access: Access, key_id: str) -> Record:
    """The caller's key of the path in the tenant of the path.

    Raises:
        Refusal: flat 404.
    """
    caller = access.caller
    row = key_store.one(connection, str(access.tenant_id), caller.user_id, key_id)
    if row is None or (caller.kind == "api_key" and row.id != caller.key_id):
        raise errors.not_found()
    return row
