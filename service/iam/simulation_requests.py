"""Parses simulated requests: operation, target and request context."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from sqlalchemy import Connection

from client.policy.instants import InvalidTime, parse_instant
from client.policy.matching import (
    STAR,
    InvalidPattern,
    Target,
    is_region,
    parse_operation,
    parse_target,
    resolve_target,
)
from client.policy.model import RequestContext, parse_address
from service import errors
from service.authz.decisions import CatalogueSnapshot
from service.catalogue.resource_types import REGIONS
from service.clock import Clock
from service.db.statements import has_region
from service.errors import ApiError

Text = Annotated[str, StringConstraints(max_length=2_048)]
Tags = dict[
    Annotated[str, StringConstraints(min_length=1, max_length=255)], Annotated[str, StringConstraints(max_length=1_024)]
]


class FactsBody(BaseModel):
    """Facts of a simulated request. A missing fact is unknown; a missing `currentTime` is now, a null one unknown."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    source_ip: Text | None = Field(None, alias="sourceIp")
    current_time: Text | None = Field(None, alias="currentTime")
    region: Text | None = None
    principal_type: Literal["api_key", "workload_identity", "user"] | None = Field(None, alias="principalType")
    tenant: Text | None = None
    request_tags: Tags | None = Field(None, alias="requestTags")
    resource_tags: Tags | None = Field(None, alias="resourceTags")


NO_FACTS = FactsBody.model_validate({})


def require_region(connection: Connection, tenant_id: str, body: FactsBody, target: Target | None = None) -> None:
    """Refuse a region that neither the platform nor a resource of the tenant has, because it is probably misspelt.

    The region of the target is accepted, so that a counterexample in a future region can be simulated.

    Raises:
        ApiError: 400 INVALID_INPUT with the existing regions.
    """
    region = body.region
    if region is None or region in REGIONS or not is_region(region):
        return
    if (target is not None and target.region == region) or has_region(connection, tenant_id, region):
        return
    raise errors.invalid_input(
        f"unknown region {region[:64]}; the regions are {', '.join(REGIONS)}",
        member="facts.region",
        reason="unknown_region",
        regions=list(REGIONS),
    )


def facts_of(body: FactsBody, clock: Clock, **defaults: Any) -> RequestContext:
    """Return the request context of a body; `defaults` replace its missing members.

    Raises:
        ApiError: 400 INVALID_INPUT for an invalid address, time or region.
    """
    address = instant = None
    if body.source_ip is not None:
        address = parse_address(body.source_ip)
        if address is None:
            raise errors.invalid_input("sourceIp is not an IPv4 or IPv6 address", member="facts.sourceIp")
    if body.current_time is not None:
        try:
            instant = parse_instant(body.current_time).timestamp()
        except InvalidTime as error:
            raise errors.invalid_input(f"currentTime {error}", member="facts.currentTime") from None
    elif "current_time" not in body.model_fields_set:
        instant = clock.now().timestamp()
    if body.region is not None and not is_region(body.region):
        raise errors.invalid_input(
            "region must be one name without spaces, *, : or /; omit it if unknown",
            member="facts.region",
        )
    return RequestContext(
        source_ip=address,
        current_time=instant,
        region=body.region or defaults.get("region"),
        principal_type=body.principal_type or defaults.get("principal_type"),
        tenant=body.tenant or defaults.get("tenant"),
        request_tags=body.request_tags,
        resource_tags=body.resource_tags,
    )


def operation_of(text: str, catalogue: CatalogueSnapshot) -> str:
    """Return an operation of the catalogue.

    Raises:
        ApiError: 400 INVALID_INPUT for a pattern or an incomplete name, UNKNOWN_OPERATION with the nearest names.
    """
    try:
        operation = parse_operation(text)
    except InvalidPattern as refused:
        raise errors.invalid_input(str(refused), member="operation") from None
    if text not in catalogue.levels:
        near = catalogue.operations.suggest(operation)
        raise ApiError(
            400,
            "UNKNOWN_OPERATION",
            f"{text} is not an operation of the catalogue" + (f"; did you mean {' or '.join(near)}?" if near else ""),
            details={"suggestions": near},
            hint="list the operations: frost iam catalog --filter TEXT",
        )
    return text


def target_of(text: str, member: str = "target") -> Target:
    """Parse a target. Raises `ApiError`: 400 INVALID_INPUT."""
    try:
        return parse_target(text)
    except InvalidPattern as refused:
        raise errors.invalid_input(str(refused), member=member) from None


def target_for(operation: str, text: str) -> Target:
    """Parse the target of an operation.

    Raises:
        ApiError: 400 INVALID_INPUT, with the expected service for another service.
    """
    target = target_of(text)
    if because := other_service(operation, target):
        raise errors.invalid_input(because, member="target", expected=operation.partition(":")[0])
    return target


def other_service(operation: str, target: Target) -> str | None:
    """Return the error for a target of another service; None for the same service."""
    service = operation.partition(":")[0]
    if target.service in (STAR, service):
        return None
    return f"the target is of {target.service}, and {operation} applies to targets of {service}: frn:{service}:…"


def region_of(target: Target) -> str | None:
    return None if target.region == STAR else target.region


def full_target(target: Target, operation: str, region: str | None) -> str:
    """Return a target with the operation's service and the request's region in place of `*`."""
    return str(resolve_target(target, operation.partition(":")[0], region))
