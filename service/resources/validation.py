"""Validation, state transitions and wire form of resources."""

from collections.abc import Mapping
from typing import Any

from service import errors, validation
from service.catalogue.resource_types import Kind
from service.clock import wire_time
from service.db.engine import Record
from service.errors import ApiError

MAX_TAG_KEY_BYTES, MAX_TAG_VALUE_BYTES = 128, 255
MAX_ATTRIBUTE = 2**53
# The required states and the resulting state of each operation.
POWER_TRANSITIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "start": (("stopped",), "running"),
    "stop": (("running",), "stopped"),
    "restart": (("running",), "running"),
}
_SERVICE_STATES = {"running": "active"}


def validate_tags(values: Mapping[str, str], kind: Kind) -> dict[str, str]:
    """Return the tags if they are valid.

    Raises:
        ApiError: 400 INVALID_INPUT.
    """
    if len(values) > kind.tag_limit:
        raise errors.invalid_input(
            f"{kind.title} carries at most {kind.tag_limit} tags", member="tags", reason="too_many", max=kind.tag_limit
        )
    for key, value in values.items():
        fits = 1 <= len(key.encode()) <= MAX_TAG_KEY_BYTES and len(value.encode()) <= MAX_TAG_VALUE_BYTES
        if not fits or validation.has_control(key + value) or not validation.visible(key):
            raise errors.invalid_input(
                f"a tag is a key of 1 to {MAX_TAG_KEY_BYTES} bytes and a value of at most {MAX_TAG_VALUE_BYTES}, "
                "both printable",
                member="tags",
                reason="tag",
            )
    return dict(values)


def validate_attributes(values: Mapping[str, int], counted: Mapping[str, int]) -> dict[str, int]:
    """Return the attributes of a new resource.

    Args:
        counted: Default values of the attributes that quotas measure.

    Raises:
        ApiError: 400 INVALID_INPUT for other attributes or values outside 0 to 2^53.
    """
    for name, value in values.items():
        if name not in counted:
            raise errors.invalid_input(
                "an attribute of a new resource is one that quotas count of its kind",
                member="attributes",
                reason="unknown_attribute",
                known=list(counted),
            )
        if not 0 <= value <= MAX_ATTRIBUTE:
            raise errors.invalid_input(
                f"{name} must be 0 to {MAX_ATTRIBUTE}",
                member=f"attributes.{name}",
                reason="range",
                min=0,
                max=MAX_ATTRIBUTE,
            )
    return {**counted, **values}


def initial_state(kind: Kind) -> str:
    """Return the state of a new resource. Without a backend, creation is immediate."""
    return next(state for state in kind.states if state != kind.creating)


def next_state(verb: str, kind: Kind, state: str) -> str:
    """Return the state after start, stop or restart.

    Raises:
        ApiError: flat 409 `invalid_state`.
    """
    allowed_states, new_state = POWER_TRANSITIONS[verb]
    if "running" not in kind.states:
        # Managed services are `active` instead of `running`.
        allowed_states, new_state = (
            tuple(_SERVICE_STATES.get(name, name) for name in allowed_states),
            _SERVICE_STATES.get(new_state, new_state),
        )
    if state not in allowed_states:
        raise _conflict("invalid_state", f"{kind.title} is {state}", state=state)
    return new_state


def require_changeable(row: Record, kind: Kind, *, retags: bool) -> None:
    """Reject changes of platform-managed resources, and of tags in states that forbid them.

    Raises:
        ApiError: flat 409.
    """
    if row.relations.get("managed"):
        raise _conflict("resource_in_use", "this resource is managed by the platform")
    if retags and row.state in kind.refuses_tags:
        raise _conflict("invalid_state", f"the tags of a resource that is {row.state} cannot be changed")


def _conflict(code: str, message: str, **details: Any) -> ApiError:
    return ApiError(409, code, message, flat=True, details=details)


def wire(row: Record, kind: Kind) -> dict[str, Any]:
    return {
        "id": row.id,
        "tenantId": row.tenant_id,
        "kind": kind.name,
        "service": kind.service,
        "name": row.name,
        "region": row.region,
        "state": row.state,
        "tags": row.tags,
        "relations": row.relations,
        "attributes": row.attributes,
        "createdAt": wire_time(row.created_at),
        "updatedAt": wire_time(row.updated_at),
    }
