"""Responses and audit entries that routes share."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Connection
from starlette.responses import Response

from service import errors
from service.audit import entries
from service.audit.entries import AuditEvent
from service.authz.context import AuthorizationContext
from service.json_bodies import JSONResponse

T = TypeVar("T")
CHANGED = "X-Frost-Changed"


def with_etag(document: dict[str, Any], status: int = 200, *, changed: bool | None = None) -> JSONResponse:
    """Return a document with its version as `ETag`; `changed` is the result of a write."""
    headers = {"ETag": f'"{document["version"]}"'}
    return JSONResponse(document, status, headers | ({} if changed is None else _change_headers(changed)))


def no_content(*, changed: bool = True) -> Response:
    return Response(status_code=204, headers=_change_headers(changed))


def _change_headers(changed: bool) -> dict[str, str]:
    return {CHANGED: "true" if changed else "false"}


def or_404(row: T | None) -> T:
    """Return the row, or raise a flat 404 for None."""
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
