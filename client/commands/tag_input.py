"""Tags as they are typed: `--tag key=value`, several with commas (checklist D04, D06 to D09), and their rules."""

from collections.abc import Mapping, Sequence

from client.errors import Exit, FrostError, usage
from client.text import safe


def tags(given: Sequence[str]) -> dict[str, str]:
    """The tags that were typed. A comma parts two of them: no value can hold one.

    Raises:
        FrostError: None, one without `=`, or a key with two values (exit 2).
    """
    if not given:
        raise usage(
            "no --tag was given (frost tenant default-tags set)",
            "give --tag KEY=VALUE; to remove all: frost tenant default-tags clear",
        )
    found: dict[str, str] = {}
    for pair in ",".join(given).split(","):
        key, equals, value = pair.partition("=")
        if not equals:
            raise usage(f"--tag takes key=value, not {safe(pair, 80)!r}", "a comma parts two tags; --tag key= is empty")
        if found.setdefault(key, value) != value:
            raise usage(f"--tag: {safe(key, 80)} is given twice with different values")
    return found


def check(wanted: Mapping[str, str]) -> None:
    """Refuse a set that the platform would refuse, in its words. Raises FrostError (exit 2)."""
    from client.models import tags as rules

    problem = rules.problem_of_set(wanted)
    if problem is not None:
        details: dict[str, object] = {"member": "tags", "key": problem.key, "reason": problem.reason}
        if problem.reason == "count":
            details |= {"max": rules.MOST, "count": len(wanted)}
        elif problem.index is not None:
            details["index"] = problem.index
        raise FrostError(
            safe(problem.message, 400),
            code="INVALID_INPUT",
            hint="nothing was changed",
            exit_code=Exit.USAGE,
            details=details,
        )
