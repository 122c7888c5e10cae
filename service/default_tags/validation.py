"""Decisions about default tags, without the database and without HTTP. platform facts 2.7; checklist D20 to D33"""

import re
from collections.abc import Mapping
from typing import Any

from client.models import tags
from service import errors
from service.errors import ApiError

# The first version of the infrastructure-as-code provider that knows default tags. contract: Versioning
OLDEST_PROVIDER = (0, 62, 0)
_VERSION = re.compile(r"v?([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")


def read_set(given: Any) -> dict[str, str]:
    """The set of a request as it is kept, in the order of its keys.

    Raises:
        Refusal: 400 INVALID_INPUT for what is no object of texts, and for the first tag that breaks a rule.
    """
    if isinstance(given, dict):
        for key, value in given.items():
            if value is None:
                raise errors.invalid_input(f'"tags": the value of "{key[:80]}" is null', member="tags", key=key)
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise errors.invalid_input('"tags" must be an object of string values', member="tags", reason="type")
    if problem := tags.problem_of_set(given):
        details: dict[str, Any] = {"reason": problem.reason}
        if problem.reason == "count":
            details |= {"max": tags.MOST, "count": len(given)}
        else:
            details |= {"key": problem.key}
        if problem.index is not None:
            details |= {"index": problem.index}
        raise errors.invalid_input(problem.message, member="tags", **details)
    return in_order(given)


def in_order(stored: Mapping[str, str]) -> dict[str, str]:
    """A set in the order of its keys, which a database need not keep."""
    return dict(sorted(stored.items()))


def require_good(stored: Mapping[str, str]) -> None:
    """Refuse to apply a stored set that the rules of this version do not allow.

    Raises:
        Refusal: 422 INVALID_DEFAULT_TAGS; 400 NOTHING_TO_APPLY for a set of nothing.
    """
    if not stored:
        raise ApiError(400, "NOTHING_TO_APPLY", "this tenant has no default tags", hint="set some first")
    if problem := tags.problem_of_set(stored):
        raise ApiError(
            422,
            "INVALID_DEFAULT_TAGS",
            f"the tenant's default tags cannot be applied: {problem.message}",
            details={"reason": problem.reason, "key": problem.key},
            hint="set them again",
        )


def require_provisioned(status: str) -> None:
    """Refuse to touch the resources of a tenant that is not ready.

    Raises:
        Refusal: 400 TENANT_NOT_PROVISIONED.
    """
    if status != "active":
        raise ApiError(
            400,
            "TENANT_NOT_PROVISIONED",
            "your tenant is still being set up; please try again in a moment",
            details={"status": status},
        )


def require_new_provider(version: str | None) -> None:
    """Refuse a provider that would take default tags for a mistake and remove them again. checklist D33

    A version that cannot be read (`dev`, or none at all) is nobody's to refuse.

    Raises:
        Refusal: 400 PROVIDER_TOO_OLD.
    """
    match = _VERSION.fullmatch(version or "")
    if match is None:
        return
    number = tuple(int(part) for part in match.groups()[:3])
    # What is tried before a version is out comes before that version.
    if number < OLDEST_PROVIDER or (number == OLDEST_PROVIDER and match[4]):
        oldest = ".".join(map(str, OLDEST_PROVIDER))
        raise ApiError(
            400,
            "PROVIDER_TOO_OLD",
            f"this tenant has default tags, which provider version {version} does not know; it takes {oldest} or newer",
            details={"version": version, "minimum": oldest},
            hint="upgrade the provider, or clear the tenant's default tags",
        )
