"""SQL of quota requests, and their JSON."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, insert, or_, select, update

from service.catalogue.resource_types import quota_types
from service.clock import wire_time
from service.db.engine import Record
from service.db.statements import KeysetKey, after_key, records
from service.db.tables import organizations, quota_requests, users

PENDING = "pending"
OF_TENANT, OF_ORGANIZATION = "tenant", "organization"
_ORDER = (quota_requests.c.created_at, quota_requests.c.id)

_REQUEST = (
    select(
        quota_requests,
        users.c.name.label("requester_name"),
        users.c.email.label("requester_email"),
        organizations.c.name.label("organization_name"),
    )
    .join(users, users.c.id == quota_requests.c.requested_by)
    .join(organizations, organizations.c.id == quota_requests.c.organization_id)
)


def add(connection: Connection, values: Mapping[str, Any]) -> None:
    connection.execute(insert(quota_requests).values(**values))


def one(connection: Connection, request_id: str) -> Record | None:
    """Return a request by id. The caller must check its tenant or organization."""
    return connection.execute(_REQUEST.where(quota_requests.c.id == request_id)).one_or_none()


def pending(connection: Connection, organization_id: str, resource_type: str) -> Record | None:
    return connection.execute(
        _REQUEST.where(
            quota_requests.c.organization_id == organization_id,
            quota_requests.c.resource_type == resource_type,
            quota_requests.c.status == PENDING,
        )
    ).one_or_none()


def of_tenant(
    connection: Connection, tenant_id: str, organization_id: str | None, after: KeysetKey | None, limit: int
) -> Sequence[Record]:
    """Return the requests of a tenant and, if set, the pending requests of an organization."""
    condition: ColumnElement[bool] = quota_requests.c.tenant_id == tenant_id
    if organization_id is not None:
        pending = and_(quota_requests.c.organization_id == organization_id, quota_requests.c.status == PENDING)
        condition = or_(condition, pending)
    return _page(connection, condition, after, limit)


def of_organization(
    connection: Connection, organization_id: str, after: KeysetKey | None, limit: int
) -> Sequence[Record]:
    condition = and_(quota_requests.c.scope == OF_ORGANIZATION, quota_requests.c.organization_id == organization_id)
    return _page(connection, condition, after, limit)


def for_review(connection: Connection, status: str | None, after: KeysetKey | None, limit: int) -> Sequence[Record]:
    condition = quota_requests.c.scope == OF_ORGANIZATION
    return _page(
        connection, condition if status is None else and_(condition, quota_requests.c.status == status), after, limit
    )


def _page(
    connection: Connection, condition: ColumnElement[bool], after: KeysetKey | None, limit: int
) -> Sequence[Record]:
    """Return at most `limit` + 1 requests, newest first."""
    query = _REQUEST.where(condition)
    if after is not None:
        query = query.where(after_key(_ORDER, after, newest_first=True))
    newest_first = (column.desc() for column in _ORDER)
    return list(records(connection, query.order_by(*newest_first).limit(limit + 1)))


def next_allowed_at(connection: Connection, tenant_id: str, maximum: int, now: datetime) -> datetime | None:
    """Return when a tenant may make its next request, at most `maximum` per hour; None for now."""
    hour = timedelta(hours=1)
    earliest = connection.scalar(
        select(quota_requests.c.created_at)
        .where(quota_requests.c.tenant_id == tenant_id, quota_requests.c.created_at > now - hour)
        .order_by(quota_requests.c.created_at.desc())
        .offset(maximum - 1)
        .limit(1)
    )
    return None if earliest is None else earliest + hour


def decide(connection: Connection, request_id: str, values: Mapping[str, Any]) -> None:
    connection.execute(update(quota_requests).where(quota_requests.c.id == request_id).values(**values))


def request(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request as JSON; `from` is the limit before the request."""
    return {
        "id": row["id"],
        "scope": row["scope"],
        "tenantId": row["tenant_id"],
        "organizationId": row["organization_id"],
        "resourceType": row["resource_type"],
        "unit": quota_types()[row["resource_type"]].unit,
        "from": row["limit_before"],
        "limit": row["limit"],
        "reason": row["reason"],
        "status": row["status"],
        "decision": row["decision"],
        "details": row["details"],
        "requestedBy": {"id": row["requested_by"], "name": row["requester_name"], "email": row["requester_email"]},
        "createdAt": wire_time(row["created_at"]),
        "decidedAt": None if row["decided_at"] is None else wire_time(row["decided_at"]),
        "decidedBy": row["decided_by"],
    }
