"""Arguments of the quota commands: resource types, numbers, reasons, and the organization of `--org`."""

from collections.abc import Mapping, Sequence
from typing import Any

from client.api import quotas as calls
from client.api import tenants
from client.commands.invocation import Invocation
from client.commands.tenants import find_organization_id
from client.errors import Exit, FrostError, usage
from client.text import safe


def number(text: str, name: str) -> int:
    """Parse a whole number in plain digits, 0 to 2^53. Raises FrostError (exit 2)."""
    from client.quota_rules import LARGEST, whole_number

    try:
        return whole_number(text)
    except ValueError as error:
        raise usage(
            f"{name} takes a whole number in plain digits, at most {LARGEST}, not {safe(text, 60)!r}"
        ) from error


def reason(text: str) -> str:
    """Return a reason in canonical form. Raises FrostError (exit 2) if it is empty or over 500 characters."""
    from client.quota_rules import normalize_reason

    try:
        return normalize_reason(text)
    except ValueError as error:
        raise usage(f"--reason: {error} (frost tenant quota request)") from error


def check_requestable(resource_type: str) -> None:
    """Refuse resource types whose limit only support can change. Raises FrostError (exit 2)."""
    if resource_type in calls.UNREQUESTABLE:
        raise usage(
            f"the limit of {resource_type} cannot be requested", "contact support", code="QUOTA_NOT_REQUESTABLE"
        )


def the_quota(report: Sequence[Mapping[str, Any]], resource_type: str) -> Mapping[str, Any]:
    """Return the quota of a resource type, in exact spelling. Raises FrostError (exit 2) with the known types."""
    for one in report:
        if one["resourceType"] == resource_type:
            return one
    known = list(dict.fromkeys((*(str(one["resourceType"]) for one in report), *(name for name, *_ in calls.IMAGES))))
    near = _nearest(resource_type, known)
    hint = f"did you mean {near}? " if near else ""
    error = usage(
        f"unknown resource type {safe(resource_type, 60)!r}",
        f"{hint}the types are: {safe(', '.join(known), 2000)}",
        code="UNKNOWN_RESOURCE_TYPE",
    )
    error.details = {"known": known}
    raise error


def _nearest(text: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches

    return next(iter(get_close_matches(text.casefold(), known, 1)), "")


def of_tenant(run: Invocation) -> list[dict[str, Any]]:
    """Return every quota of the selected tenant, including images."""
    report, limits, usage_ = (run.call_for_tenant(call) for call in (calls.report, calls.limits, calls.usage))
    return calls.complete(report, limits, usage_)


def organization_id(run: Invocation, flag_value: str | None, what: str = "quotas") -> str:
    """Return the organization of `--org`: `--organization` if set, else the owner of the selected tenant.

    Args:
        run: The command.
        flag_value: The value of `--organization`.
        what: The requested data, for the error.

    Raises:
        FrostError: There is no such organization (exit 5), or only a person may look it up (exit 4): no other scope
            would help.
    """
    if flag_value is not None:
        return find_organization_id(run, flag_value)
    try:
        return str(run.call_for_tenant(tenants.get)["organizationId"])
    except FrostError as error:
        if error.code != "INSUFFICIENT_SCOPE":
            raise
        refused = FrostError(
            f"the {what} of an organization require an interactive login",
            code="SESSION_REQUIRED",
            hint="use an interactive login: frost login",
            exit_code=Exit.NOT_ALLOWED,
        )
        run.point_to_person(refused)
        raise refused from error
