"""A quota request as it travels."""

from collections.abc import Mapping
from typing import Any

from service.clock import wire_time
from service.world.quotas import quota_types


def request(row: Mapping[str, Any]) -> dict[str, Any]:
    """A request with what became of it; `from` is the limit there was when it was made."""
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
