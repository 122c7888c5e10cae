"""The numbers of an apply of default tags: resources by outcome, and the types that could not be listed."""

from collections.abc import Mapping
from typing import Any

OUTCOMES = ("updated", "unchanged", "skipped", "failed")
"""The outcomes of a resource. Their sum is the number of examined resources."""


def separate_unlisted(counts: Mapping[str, Any]) -> dict[str, Any]:
    """Return counts in which `failed` are resources, and `unlisted` the types that could not be listed.

    Earlier versions of the platform count such a type as failed, but not as examined: the difference is their number.
    """
    outcomes = [counts.get(name, 0) for name in OUTCOMES]
    examined = counts.get("examined")
    if "unlisted" in counts or not all(isinstance(number, int) for number in (*outcomes, examined)):
        return dict(counts)
    failed = outcomes[-1]
    unlisted = min(failed, max(0, sum(outcomes) - examined))
    return {**counts, "failed": failed - unlisted, "unlisted": unlisted} if unlisted else dict(counts)
