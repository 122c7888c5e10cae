"""The trial request of a draft: form fields, their validation, and conversion for the platform.

A policy distinguishes unknown, absent and known values, so each field shows which of them it has.
"""

import ipaddress
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from client.models.analysis import RequestFacts
from client.models.iam import CatalogueOperation
from client.texts.effects import counted


def matches(pattern: str, operation: str) -> bool:
    """Return whether a pattern matches an operation `service:resource:action`. A shorter pattern must end in `*`."""
    pattern_parts, parts = pattern.split(":"), operation.split(":")
    if len(pattern_parts) < len(parts):
        if pattern_parts[-1] != "*":
            return False
        pattern_parts += ["*"] * (len(parts) - len(pattern_parts))
    return len(pattern_parts) == len(parts) and all(
        one in ("*", part) for one, part in zip(pattern_parts, parts, strict=True)
    )


UNKNOWN, NONE, NOW = "unknown", "none", "now"
PRINCIPAL_TYPES = ("api_key", "workload_identity", "user")
_REGION = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


class Field(NamedTuple):
    name: str
    label: str
    takes: str
    """Short description of valid values."""
    rest: str = UNKNOWN
    """Meaning of an empty field."""
    hint: str = ""
    """Placeholder of an empty field, if it differs from `rest`."""


FIELDS = (
    Field("operation", "Operation", "service:resource:action", "not evaluated"),
    Field("target", "Target", "* for any, or frn:service:region:tenant:type/id", "*"),
    Field(
        "principalType", "Principal", f"empty unknown · {', '.join(PRINCIPAL_TYPES)}", hint=", ".join(PRINCIPAL_TYPES)
    ),
    Field("region", "Region", "empty unknown · a region, such as se-sto-1"),
    Field("requestTags", "Request tags", "empty unknown · none · key=value, …"),
    Field("resourceTags", "Resource tags", "empty unknown · none · key=value, …"),
    Field("sourceIp", "Address", "empty unknown · an IPv4 or IPv6 address"),
    Field("currentTime", "Time", "empty now · unknown · 2026-01-31T12:00:00Z", NOW),
    Field("asAuthor", "Author limit", "Space: on (only your own permissions) · off", "off", hint="off · Space toggles"),
)
BY_NAME: Mapping[str, Field] = {field.name: field for field in FIELDS}
_OF_KEY = {
    "frn:principalType": "principalType",
    "frn:region": "region",
    "frn:requestTag": "requestTags",
    "frn:resourceTag": "resourceTags",
    "frn:sourceIp": "sourceIp",
    "frn:currentTime": "currentTime",
}


def field_of(key: str) -> Field | None:
    """Return the field for a constraint key; None if there is none."""
    name = _OF_KEY.get(key.partition("/")[0])
    return BY_NAME[name] if name is not None else None


@dataclass(frozen=True)
class Request:
    """A trial request: an operation ("" for none), a target, and facts.

    An absent fact is unknown, except `currentTime`: absent means now, None means unknown.
    """

    operation: str
    target: str
    facts: Mapping[str, Any]
    as_author: bool = False


def problem(name: str, value: str, catalogue: Collection[str] = (), *, operation: str = "") -> str:
    """Return why a value is invalid; empty if it is valid.

    Args:
        catalogue: Valid operations. If empty, any operation name is valid.
        operation: Operation of the same request. The service of the target must match it.
    """
    value = value.strip()
    if not value:
        return ""
    match name:
        case "operation":
            return _operation_problem(value, catalogue)
        case "target":
            return _target_problem(value, operation.strip().partition(":")[0])
        case "principalType":
            return "" if value in (UNKNOWN, *PRINCIPAL_TYPES) else ", ".join(PRINCIPAL_TYPES)
        case "region":
            good = value == UNKNOWN or _REGION.fullmatch(value)
            return "" if good else "only a-z, 0-9 and -: se-sto-1"
        case "requestTags" | "resourceTags":
            return _tags_problem(value)
        case "sourceIp":
            try:
                ipaddress.ip_address(value if value != UNKNOWN else "::")
            except ValueError:
                return "not an IPv4 or IPv6 address"
        case "currentTime":
            return _time_problem(value)
        case "asAuthor":
            return "" if value in ("on", "off") else "expected on or off"
    return ""


def _operation_problem(value: str, catalogue: Collection[str]) -> str:
    parts = value.split(":")
    if "*" in value:
        return "expected one operation without *"
    if len(parts) != 3 or not all(parts):
        return "expected service:resource:action"
    return "" if not catalogue or value in catalogue else "unknown operation"


def _target_problem(value: str, service: str) -> str:
    if value == "*":
        return ""
    parts = value.split(":", 4)
    if len(parts) != 5 or parts[0] != "frn" or not all(parts):
        return "* or frn:service:region:tenant:type/id"
    kind, slash, rest = parts[4].partition("/")
    if parts[4] != "*" and not (slash and kind and rest):
        return "the last part must be type/id"
    return f"the service must be {service} or *" if service and parts[1] not in ("*", service) else ""


def _tags_problem(value: str) -> str:
    if value in (UNKNOWN, NONE):
        return ""
    names = []
    for pair in value.split(","):
        key, equals, _ = pair.strip().partition("=")
        if not equals or not key:
            return f"{pair.strip() or 'an empty tag'}: expected key=value"
        names.append(key)
    twice = next((name for name in names if names.count(name) > 1), "")
    return f"duplicate key {twice}" if twice else ""


def _time_problem(value: str) -> str:
    if value in (UNKNOWN, NOW):
        return ""
    try:
        good = _INSTANT.fullmatch(value) is not None and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        good = False
    return "" if good else "RFC 3339 with a zone: 2026-01-31T12:00:00Z"


def state(name: str, value: str) -> str:
    """Return the meaning of a value: `unknown`, `known: none`, `2 tags`; empty if the value is self-explanatory."""
    value = value.strip()
    if not value:
        return BY_NAME[name].rest
    if name in ("requestTags", "resourceTags"):
        if value == NONE:
            return "known: none"
        if value != UNKNOWN:
            return counted(len(value.split(",")), "tag")
    return ""


def parse_values(values: Mapping[str, str]) -> Request:
    """Convert valid field values to a request."""
    facts: dict[str, Any] = {}
    for name in ("principalType", "region", "sourceIp"):
        value = values.get(name, "").strip()
        if value and value != UNKNOWN:
            facts[name] = value
    for name in ("requestTags", "resourceTags"):
        value = values.get(name, "").strip()
        if value and value != UNKNOWN:
            pairs = [] if value == NONE else [pair.strip().partition("=") for pair in value.split(",")]
            facts[name] = {key: content for key, _, content in pairs}
    time = values.get("currentTime", "").strip()
    if time == UNKNOWN:
        facts["currentTime"] = None
    elif time and time != NOW:
        facts["currentTime"] = time
    return Request(
        values.get("operation", "").strip(),
        values.get("target", "").strip() or "*",
        facts,
        values.get("asAuthor", "").strip() == "on",
    )


def field_values(operation: str, target: str, facts: RequestFacts) -> dict[str, str]:
    """Convert the request of a counterexample to field values."""
    return {
        "operation": operation,
        "target": target,
        "asAuthor": "",
        "principalType": facts.principal_type or "",
        "region": facts.region or "",
        "sourceIp": facts.source_ip or "",
        "requestTags": _tags_value(facts.request_tags),
        "resourceTags": _tags_value(facts.resource_tags),
        "currentTime": facts.current_time or UNKNOWN,
    }


def _tags_value(tags: Mapping[str, str] | None) -> str:
    return "" if tags is None else ", ".join(f"{key}={value}" for key, value in tags.items()) or NONE


def initial_values(text: str, catalogue: Sequence[CatalogueOperation]) -> dict[str, str]:
    """Return an initial request for any target and an operation, preferably `read`, that the first pattern matches."""
    pattern = re.search(r'"operations"\s*:\s*\[\s*"([^"]+)"', text)
    if pattern is None:
        return {"target": "*"}
    names = [operation.name for operation in catalogue if matches(pattern[1], operation.name)]
    chosen = next((name for name in names if name.endswith(":read")), names[0] if names else "")
    return {"operation": chosen, "target": "*"}
