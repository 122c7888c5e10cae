"""Validation of default tags."""

import re
from collections.abc import Mapping
from typing import Any

from client.models import validation
from service import errors
from service.errors import ApiError

# First version of the infrastructure-as-code provider with default tags.
MIN_PROVIDER = (0, 62, 0)
_VERSION = re.compile(r"v?([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")


def read_set(value: Any) -> dict[str, str]:
    """Validate the tags of a request; return them sorted by key.

    Raises:
        ApiError: 400 INVALID_INPUT for the first problem.
    """
    if isinstance(value, dict):
        for key, text in value.items():
            if text is None:
                raise errors.invalid_input(f'"tags": the value of "{key[:80]}" is null', member="tags", key=key)
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise errors.invalid_input('"tags" must be an object of string values', member="tags", reason="type")
    if problem := validation.problem_of_set(value):
        details: dict[str, Any] = {"reason": problem.reason}
        if problem.reason == "count":
            details |= {"max": validation.MOST, "count": len(value)}
        else:
            details |= {"key": problem.key}
        if problem.index is not None:
            details |= {"index": problem.index}
        raise errors.invalid_input(problem.message, member="tags", **details)
    return in_order(value)


def in_order(stored: Mapping[str, str]) -> dict[str, str]:
    """Return tags sorted by key; JSON columns do not keep the order."""
    return dict(sorted(stored.items()))


def require_good(stored: Mapping[str, str]) -> None:
    """Check stored tags; an older version may have allowed others.

    Raises:
        ApiError: 422 INVALID_DEFAULT_TAGS, or 400 NOTHING_TO_APPLY without tags.
    """
    if not stored:
        raise ApiError(400, "NOTHING_TO_APPLY", "this tenant has no default tags", hint="set default tags first")
    if problem := validation.problem_of_set(stored):
        raise ApiError(
            422,
            "INVALID_DEFAULT_TAGS",
            f"the tenant's default tags cannot be applied: {problem.message}",
            details={"reason": problem.reason, "key": problem.key},
            hint="set the default tags again",
        )


def require_provisioned(status: str) -> None:
    """Check that a tenant is active.

    Raises:
        ApiError: 400 TENANT_NOT_PROVISIONED.
    """
    if status != "active":
        raise ApiError(
            400,
            "TENANT_NOT_PROVISIONED",
            "your tenant is still being set up; please try again in a moment",
            details={"status": status},
        )


def require_new_provider(version: str | None) -> None:
    """Refuse a provider that would remove default tags. A version that cannot be parsed passes.

    Raises:
        ApiError: 400 PROVIDER_TOO_OLD.
    """
    match = _VERSION.fullmatch(version or "")
    if match is None:
        return
    number = tuple(int(part) for part in match.groups()[:3])
    # A pre-release precedes its version.
    if number < MIN_PROVIDER or (number == MIN_PROVIDER and match[4]):
        oldest = ".".join(map(str, MIN_PROVIDER))
        raise ApiError(
            400,
            "PROVIDER_TOO_OLD",
            f"this tenant has default tags, which provider version {version} does not support; use {oldest} or newer",
            details={"version": version, "minimum": oldest},
            hint="upgrade the provider, or clear the tenant's default tags",
        )
