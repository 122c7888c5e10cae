"""Translates AuthZEN requests to operations, targets and contexts of the policy engine.

A client sets only the address, time and tags of a request, and the region of a new resource. The region and tags of a
resource come from the inventory.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from client.policy.matching import STAR, InvalidPattern, is_region, parse_target
from client.policy.model import RequestContext, parse_address, parse_timestamp
from service.authz.decisions import CatalogueSnapshot
from service.authz.route_policies import ROUTE_POLICIES, RoutePolicy
from service.catalogue.resource_types import Kind, kinds
from service.db.engine import Record
from service.resources.interactive import KINDS_BY_OPERATION

TENANCY_TYPES = ("tenant", "organization")
CREATE = "create"
_ON_THE_MINUTE = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2})(Z|[+-]\d{2}:\d{2})", re.ASCII)

# Route policies of operations on a tenant or organization, by operation.
TENANCY_POLICIES: Mapping[str, RoutePolicy] = {
    policy.permission: policy
    for policy in ROUTE_POLICIES.values()
    if policy.permission and policy.who == "principal" and not policy.enforced_for_users
}


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """An operation on a target. `policy` is the route policy for a tenant or organization; the target is then empty."""

    operation: str
    target: str
    context: RequestContext
    policy: RoutePolicy | None = None


def tenancy_type_of(operation: str) -> str:
    """Return `tenant` or `organization`, the type that an operation of `TENANCY_POLICIES` acts on."""
    return "organization" if operation.split(":")[1] == "organizations" else "tenant"


def find_operation(name: str, resource_type: str, catalogue: CatalogueSnapshot) -> str | None:
    """Return the operation that an action name means for a resource type; None if there is none."""
    if resource_type in TENANCY_TYPES:
        return name if name in TENANCY_POLICIES and tenancy_type_of(name) == resource_type else None
    kind = kinds().get(resource_type)
    if kind is None:
        return None
    operation = name if ":" in name else kind.operation(name)
    is_own = operation in catalogue.levels and operation.startswith(kind.operation(""))
    return operation if is_own or resource_type in KINDS_BY_OPERATION.get(operation, ()) else None


def list_actions(resource_type: str, catalogue: CatalogueSnapshot) -> Iterator[str]:
    """Yield the names of all actions on a resource type."""
    if resource_type in TENANCY_TYPES:
        yield from sorted(name for name in TENANCY_POLICIES if tenancy_type_of(name) == resource_type)
        return
    kind = kinds().get(resource_type)
    if kind is None:
        return
    prefix = kind.operation("")
    yield from (name.removeprefix(prefix) for name in catalogue.operations.names if name.startswith(prefix))
    yield from (name for name, kinds_opened in KINDS_BY_OPERATION.items() if resource_type in kinds_opened)


def parse_resource_id(text: str, kind: Kind, tenant_id: str) -> str:
    """Return the id in an id or full name; "" if the name has another tenant, service or type."""
    if not text.startswith("frn:"):
        return text
    try:
        target = parse_target(text)
    except InvalidPattern:
        return ""
    matches = (target.service, target.type) == (kind.service, kind.resource) and target.tenant in (STAR, tenant_id)
    return target.id if matches else ""


def request_on_resource(
    operation: str, row: Record, tenant_id: str, request_context: RequestContext
) -> DecisionRequest:
    """Return the request for an operation on a stored resource."""
    service, type_, _ = operation.split(":")
    context = RequestContext(
        request_context.source_ip,
        request_context.current_time,
        row.region,
        None,
        tenant_id,
        request_context.request_tags,
        row.tags,
    )
    return DecisionRequest(operation, f"frn:{service}:{row.region}:{tenant_id}:{type_}/{row.id}", context)


def request_to_create(
    operation: str, properties: Mapping[str, Any] | None, tenant_id: str, request_context: RequestContext
) -> DecisionRequest:
    """Return the request to create a resource."""
    service, type_, _ = operation.split(":")
    region = (properties or {}).get("region")
    if not isinstance(region, str) or not is_region(region):
        region = None
    context = RequestContext(
        request_context.source_ip,
        request_context.current_time,
        region,
        None,
        tenant_id,
        request_context.request_tags,
        {},
    )
    return DecisionRequest(operation, f"frn:{service}:{region or STAR}:{tenant_id}:{type_}/{STAR}", context)


def request_on_tenancy(operation: str, tenant_id: str, request_context: RequestContext) -> DecisionRequest:
    """Return the request for an operation on the tenant or its organization; these requests have no tags."""
    context = RequestContext(request_context.source_ip, request_context.current_time, None, None, tenant_id, {}, {})
    return DecisionRequest(operation, "", context, TENANCY_POLICIES[operation])


def parse_request_context(
    context: Mapping[str, Any] | None, properties: Mapping[str, Any] | None, now: float
) -> RequestContext:
    """Return the address, time and tags of a request. Invalid values are unknown."""
    members = context or {}
    address, time = members.get("ip"), members.get("time")
    return RequestContext(
        source_ip=parse_address(address) if isinstance(address, str) else None,
        current_time=now if "time" not in members else _parse_time(time),
        request_tags=_request_tags(properties or {}),
    )


def _parse_time(text: Any) -> float | None:
    """Parse an RFC 3339 time; seconds may be missing, as in the examples of the specification."""
    if not isinstance(text, str):
        return None
    minute = _ON_THE_MINUTE.fullmatch(text)
    return parse_timestamp(f"{minute[1]}:00{minute[2]}" if minute else text)


def _request_tags(properties: Mapping[str, Any]) -> dict[str, str] | None:
    """Return an action's properties as request tags; unknown if any of them is not a scalar."""
    if not all(isinstance(value, str | bool | int | float) for value in properties.values()):
        return None
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in properties.items()}
