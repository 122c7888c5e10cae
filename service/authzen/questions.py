"""What is asked about, in the engine's terms: an operation, a target, and facts.

Of a caller's words only these become facts: the request's address, instant and tags, and the region of what does not
exist yet. Region and tags of a resource are the inventory's. hostile A20
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from client.policy.matching import STAR, InvalidPattern, is_region, read_target
from client.policy.model import Facts, read_address, read_instant
from service.authz.decisions import CatalogueSnapshot
from service.authz.route_policies import ROUTE_POLICIES, RoutePolicy
from service.catalogue.resource_types import Kind, kinds
from service.db.engine import Record
from service.resources.interactive import OPENED_TO

PLACES = ("tenant", "organization")
CREATE = "create"
_ON_THE_MINUTE = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2})(Z|[+-]\d{2}:\d{2})", re.ASCII)

# What the platform decides about a tenant or its organization themselves, by operation.
PLATFORM: Mapping[str, RoutePolicy] = {
    rule.action: rule
    for rule in ROUTE_POLICIES.values()
    if rule.action and rule.who == "caller" and not rule.enforced_for_users
}


@dataclass(frozen=True, slots=True)
class Question:
    """May this be done? `rule` is the platform's own where it is about a place; then the target is the place's."""

    operation: str
    target: str
    facts: Facts
    rule: RoutePolicy | None = None


def place_of(operation: str) -> str:
    """`tenant` or `organization`, of an operation that the platform decides about one."""
    return "organization" if operation.split(":")[1] == "organizations" else "tenant"


def operation_of(name: str, type_: str, known: CatalogueSnapshot) -> str | None:
    """The operation an action's name means for a type of resource; None where there is none."""
    if type_ in PLACES:
        return name if name in PLATFORM and place_of(name) == type_ else None
    kind = kinds().get(type_)
    if kind is None:
        return None
    whole = name if ":" in name else kind.operation(name)
    own = whole in known.levels and whole.startswith(kind.operation(""))
    return whole if own or type_ in OPENED_TO.get(whole, ()) else None


def operations_of(type_: str, known: CatalogueSnapshot) -> Iterator[str]:
    """Every action there is for a type of resource, as its name is written."""
    if type_ in PLACES:
        yield from sorted(name for name in PLATFORM if place_of(name) == type_)
        return
    kind = kinds().get(type_)
    if kind is None:
        return
    own = kind.operation("")
    yield from (name.removeprefix(own) for name in known.operations.names if name.startswith(own))
    yield from (name for name, opened in OPENED_TO.items() if type_ in opened)


def resource_id(text: str, kind: Kind, tenant_id: str) -> str:
    """The id in a resource's id, which may be its full name. One of another tenant, service or type names nothing."""
    if not text.startswith("frn:"):
        return text
    try:
        name = read_target(text)
    except InvalidPattern:
        return ""
    fits = (name.service, name.type) == (kind.service, kind.resource) and name.tenant in (STAR, tenant_id)
    return name.id if fits else ""


def on_resource(operation: str, row: Record, tenant_id: str, request: Facts) -> Question:
    """An operation on a resource that is there."""
    service, type_, _ = operation.split(":")
    facts = Facts(request.source_ip, request.current_time, row.region, None, tenant_id, request.request_tags, row.tags)
    return Question(operation, f"frn:{service}:{row.region}:{tenant_id}:{type_}/{row.id}", facts)


def on_new_resource(operation: str, properties: Mapping[str, Any] | None, tenant_id: str, request: Facts) -> Question:
    """The making of a resource."""
    service, type_, _ = operation.split(":")
    region = (properties or {}).get("region")
    if not isinstance(region, str) or not is_region(region):
        region = None
    facts = Facts(request.source_ip, request.current_time, region, None, tenant_id, request.request_tags, {})
    return Question(operation, f"frn:{service}:{region or STAR}:{tenant_id}:{type_}/{STAR}", facts)


def on_place(operation: str, tenant_id: str, request: Facts) -> Question:
    """An operation on the tenant or its organization; requests for those carry no tags."""
    facts = Facts(request.source_ip, request.current_time, None, None, tenant_id, {}, {})
    return Question(operation, "", facts, PLATFORM[operation])


def request_facts(context: Mapping[str, Any] | None, properties: Mapping[str, Any] | None, now: float) -> Facts:
    """What the caller knows of a request: address, instant, tags. What cannot be read is not known."""
    said = context or {}
    address, instant = said.get("ip"), said.get("time")
    return Facts(
        source_ip=read_address(address) if isinstance(address, str) else None,
        current_time=now if "time" not in said else _instant(instant),
        request_tags=_tags(properties or {}),
    )


def _instant(text: Any) -> float | None:
    """An RFC 3339 instant; whole minutes, as the examples of the specification have them, are read as well."""
    if not isinstance(text, str):
        return None
    minute = _ON_THE_MINUTE.fullmatch(text)
    return read_instant(f"{minute[1]}:00{minute[2]}" if minute else text)


def _tags(properties: Mapping[str, Any]) -> dict[str, str] | None:
    """Properties of an action as tags of the request; with one that is no single value none of them is known."""
    if not all(isinstance(value, str | bool | int | float) for value in properties.values()):
        return None
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in properties.items()}
