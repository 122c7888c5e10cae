"""What can be done with a resource, without the database and without HTTP. contract: Resources"""

from collections.abc import Mapping
from typing import Any

from service import errors, validation
from service.catalogue.resource_types import Kind
from service.clock import wire_time
from service.db.engine import Record
from service.errors import ApiError

MAX_TAG_KEY_BYTES, MAX_TAG_VALUE_BYTES = 128, 255
MAX_ATTRIBUTE = 2**53
# What a machine must be for something to be done to it, and what it is then.
POWER_TRANSITIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "start": (("stopped",), "running"),
    "stop": (("running",), "stopped"),
    "restart": (("running",), "running"),
}
_SERVICE_STATES = {"running": "active"}


def validate_tags(values: Mapping[str, str], kind: Kind) -> dict[str, str]:
    """The tags of a resource as they are kept.

    Raises:
        Refusal: 400 INVALID_INPUT.
    """
    if len(values) > kind.tag_limit:
        raise errors.invalid_input(
            f"{kind.title} carries at most {kind.tag_limit} tags", member="tags", reason="too_many", max=kind.tag_limit
        )
    for key, value in values.items():
        fits = 1 <= len(key.encode()) <= MAX_TAG_KEY_BYTES and len(value.encode()) <= MAX_TAG_VALUE_BYTES
        if not fits or validation.has_control(key + value) or not validation.visible(key):
            raise errors.invalid_input(
                f"a tag is a key of 1 to {MAX_TAG_KEY_BYTES} bytes and a value of at most {MAX_TAG_VALUE_BYTES}, both printable",
                member="tags",
                reason="tag",
            )
    return dict(values)


def validate_attributes(values: Mapping[str, int], counted: Mapping[str, int]) -> dict[str, int]:
    """The attributes of a new resource as they are kept.

    Args:
        counted: those that quotas count of its kind, as they are where nothing is said.

    Raises:
        Refusal: 400 INVALID_INPUT for any other, and for what is no whole number from 0 to 2^53.
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
    """The state of one that was just made: nothing lies behind it that would take time."""
    return next(state for state in kind.states if state != kind.creating)


def next_state(verb: str, kind: Kind, state: str) -> str:
    """The state after start, stop or restart.

    Raises:
        Refusal: flat 409 `invalid_state`.
    """
    allowed_states, new_state = POWER_TRANSITIONS[verb]
    if "running" not in kind.states:
        # A service the platform runs: what a machine calls running it calls active.
        allowed_states, new_state = (
            tuple(_SERVICE_STATES.get(name, name) for name in allowed_states),
            _SERVICE_STATES.get(new_state, new_state),
        )
    if state not in allowed_states:
        raise _conflict("invalid_state", f"{kind.title} is {state}", state=state)
    return new_state


def require_changeable(row: Record, kind: Kind, *, retags: bool) -> None:
    """Refuse to change what the platform manages, and the tags of one that is under way.

    Raises:
        Refusal: flat 409.
    """
    if row.relations.get("managed"):
        raise _conflict("resource_in_use", "this resource is managed by the platform")
    if retags and row.state in kind.refuses_tags:
        raise _conflict("invalid_state", f"the tags of a resource that is {row.state} cannot be changed")


def _conflict(code: str, message: str, **details: Any) -> ApiError:
    return ApiError(409, code, message, flat=True, details=details)


def wire(row: Record, kind: Kind) -> dict[str, Any]:
    """A resource as it travels."""
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
