"""What the routes of access policies share: answers with a version, the audit entry, what is not found."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection
from starlette.responses import JSONResponse, Response

from service import errors
from service.audit import entries
from service.audit.events import AuditEvent
from service.authz.context import AuthorizationContext

T = TypeVar("T")
CHANGED = "X-Frost-Changed"


def with_etag(document: dict[str, Any], status: int = 200, *, changed: bool | None = None) -> JSONResponse:
    """A record with its entity tag; `changed` says of a write whether there was anything to change."""
    headers = {"ETag": f'"{document["version"]}"'}
    return JSONResponse(document, status, headers | ({} if changed is None else _changed(changed)))


def no_content(*, changed: bool = True) -> Response:
    """204, and whether there was anything to change."""
    return Response(status_code=204, headers=_changed(changed))


def _changed(changed: bool) -> dict[str, str]:
    return {CHANGED: "true" if changed else "false"}


def or_404(row: T | None) -> T:
    """A row that must be there.

    Raises:
        Refusal: flat 404, in the same words whatever the reason is.
    """
    if row is None:
        raise errors.not_found()
    return row


def audit_in_tenant(
    connection: Connection,
    context: AuthorizationContext,
    event: AuditEvent,
    target: str,
    at: datetime,
    details: Mapping[str, Any] | None = None,
) -> None:
    """The audit entry of a change in the tenant of the path, on the connection of the change."""
    entries.record(
        connection,
        context.principal,
        event=event,
        target=target,
        organization_id=context.organization_id,
        tenant_id=context.tenant_id,
        details=details,
        at=at,
    )
