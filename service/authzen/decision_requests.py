"""Translation of AuthZEN requests to operations, targets and contexts of the policy engine.

Clients only set the address, time and tags of a request, and the region of a new resource.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from client.policy.instants import InvalidTime, parse_instant
from client.policy.matching import STAR, InvalidPattern, is_region, parse_target
from client.policy.model import RequestContext, parse_address
from service.authz.decisions import CatalogueSnapshot
from service.authz.route_policies import ROUTE_POLICIES, RoutePolicy
from service.authzen.queries import StoredResource
from service.catalogue.resource_types import Kind, kinds
from service.resources.interactive import KINDS_BY_OPERATION

TENANCY_TYPES = ("tenant", "organization")
CREATE = "create"
_ON_THE_MINUTE = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2})(Z|[+-]\d{2}:\d{2})", re.ASCII)

# Policies of routes on a tenant or organization, by operation.
TENANCY_POLICIES: Mapping[str, RoutePolicy] = {
    policy.permission: policy
    for policy in ROUTE_POLICIES.values()
    if policy.permission and policy.who == "principal" and not policy.enforced_for_users
}


class DecisionRequest(NamedTuple):
    """An operation on a target. For a tenant or organization, it has a route policy and an empty target."""

    operation: str
    target: str
    context: RequestContext
    policy: RoutePolicy | None = None


def tenancy_type_of(operation: str) -> str:
    """Return `tenant` or `organization` for an operation of `TENANCY_POLICIES`."""
    return "organization" if operation.split(":")[1] == "organizations" else "tenant"


def find_operation(name: str, resource_type: str, catalogue: CatalogueSnapshot) -> str | None:
    """Return the operation of an action on a resource type, by its name or its last part; None without one."""
    return _operations(catalogue).get((resource_type, name))


@lru_cache(maxsize=2)
def _operations(catalogue: CatalogueSnapshot) -> Mapping[tuple[str, str], str]:
    """Return all operations by resource type and name of the action."""
    # Without the enumeration of `Permission`.
    operations = {(tenancy_type_of(name), str(name)): str(name) for name in TENANCY_POLICIES}
    for kind in kinds().values():
        prefix = kind.operation("")
        for operation in (name for name in catalogue.levels if name.startswith(prefix)):
            operations[kind.name, operation] = operations[kind.name, operation.removeprefix(prefix)] = operation
    for operation, names in KINDS_BY_OPERATION.items():
        operations |= {(name, str(operation)): str(operation) for name in names}
    return operations


def list_actions(resource_type: str, catalogue: CatalogueSnapshot) -> Iterator[str]:
    """Yield the shortest names of the actions on a resource type."""
    kind = kinds().get(resource_type)
    prefix = kind.operation("") if kind else ""
    for (type_, name), operation in _operations(catalogue).items():
        if type_ == resource_type and name == operation.removeprefix(prefix):
            yield name


def parse_resource_id(text: str, kind: Kind, tenant_id: str) -> str:
    """Return the id in an id or `frn:…`; "" for another tenant, service or type."""
    if not text.startswith("frn:"):
        return text
    try:
        target = parse_target(text)
    except InvalidPattern:
        return ""
    matches = (target.service, target.type) == (kind.service, kind.resource) and target.tenant in (STAR, tenant_id)
    return target.id if matches else ""


def request_on_resource(
    operation: str, row: StoredResource, tenant_id: str, request_context: RequestContext
) -> DecisionRequest:
    service, type_, _ = operation.split(":")
    context = RequestContext(
        request_context.source_ip,
        request_context.current_time,
        row.region,
        request_context.principal_type,
        tenant_id,
        request_context.request_tags,
        row.tags,
    )
    return DecisionRequest(operation, f"frn:{service}:{row.region}:{tenant_id}:{type_}/{row.id}", context)


def request_to_create(
    operation: str, properties: Mapping[str, Any] | None, tenant_id: str, request_context: RequestContext
) -> DecisionRequest:
    service, type_, _ = operation.split(":")
    region = (properties or {}).get("region")
    if not isinstance(region, str) or not is_region(region):
        region = None
    context = RequestContext(
        request_context.source_ip,
        request_context.current_time,
        region,
        request_context.principal_type,
        tenant_id,
        request_context.request_tags,
        {},
    )
    return DecisionRequest(operation, f"frn:{service}:{region or STAR}:{tenant_id}:{type_}/{STAR}", context)


def request_on_tenancy(operation: str, tenant_id: str, request_context: RequestContext) -> DecisionRequest:
    """Return a request on the tenant or its organization, without tags."""
    context = RequestContext(
        request_context.source_ip,
        request_context.current_time,
        None,
        request_context.principal_type,
        tenant_id,
        {},
        {},
    )
    return DecisionRequest(operation, "", context, TENANCY_POLICIES[operation])


def parse_request_context(
    context: Mapping[str, Any] | None, properties: Mapping[str, Any] | None, now: float, principal_type: str
) -> RequestContext:
    """Parse the address, time and tags of a request. Invalid values become None, which means unknown."""
    members = context or {}
    address, time = members.get("ip"), members.get("time")
    return RequestContext(
        source_ip=parse_address(address) if isinstance(address, str) else None,
        current_time=now if "time" not in members else _parse_time(time),
        principal_type=principal_type,
        request_tags=_request_tags(properties) if properties else {},
    )


def _parse_time(text: Any) -> float | None:
    """Parse an RFC 3339 time, with or without seconds, as in the specification's examples."""
    if not isinstance(text, str):
        return None
    minute = _ON_THE_MINUTE.fullmatch(text)
    try:
        return parse_instant(f"{minute[1]}:00{minute[2]}" if minute else text).timestamp()
    except InvalidTime:
        return None


def _request_tags(properties: Mapping[str, Any]) -> dict[str, str] | None:
    """Return an action's properties as request tags; None if a value is not a scalar."""
    if not all(isinstance(value, str | bool | int | float) for value in properties.values()):
        return None
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in properties.items()}
