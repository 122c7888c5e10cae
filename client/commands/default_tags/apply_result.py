"""Results and previews of an apply or an undo, as tables and sentences."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from client.commands.default_tags.apply_job import count
from client.commands.invocation import Invocation
from client.tables import default_tags
from client.tables.columns import Kind
from client.text import safe

MOST_LISTED = 200
"""Maximum number of failed and of skipped resources to list. The counts include all."""
_FORESEEN = {"skipped": "skipped", "failed": "would fail"}
_WORDS = {"apply": "updated", "undo": "lost the tags added by the run"}


def shown(run: Invocation, result: Mapping[str, Any], *, would: str = "") -> None:
    """Print a result: its counts by type, and the resources that failed or were skipped.

    Args:
        run: The command.
        result: The JSON document of the result.
        would: The heading of the first count in a preview: `Would change`.
    """
    summary = _summary(result)
    kind = default_tags.COUNTS
    if would:
        first, second, *others = kind.columns
        kind = kind._replace(columns=(first, second._replace(title=would), *others))
    run.output.records(kind, [*default_tags.by_type(result), {"resourceType": "total", **summary}])
    if types := unlisted_types(result):
        run.output.lines(["", "not examined, the type could not be listed (each counts 1 as failed):"])
        for one in types:
            words = [safe(one.get(name) or "", 300) for name in ("resourceType", "reason", "message")]
            run.output.lines(["  " + "  ".join(word for word in words if word)])
    _listed(run, default_tags.FAILED, {**result, "failures": failed_resources(result)}, "failures", "failed", summary)
    _listed(run, default_tags.SKIPPED, result, "skipped", "skipped", summary)


def unlisted_types(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the failures of whole types, whose resources could not be listed."""
    return [one for one in _items(result, "failures") if not one.get("resourceId")]


def failed_resources(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the failures of single resources."""
    return [one for one in _items(result, "failures") if one.get("resourceId")]


def _listed(
    run: Invocation, kind: Kind, result: Mapping[str, Any], member: str, word: str, summary: Mapping[str, Any]
) -> None:
    items = _items(result, member)
    if not items:
        return
    cut = bool(result.get(f"{member}Truncated")) or len(items) > MOST_LISTED
    items = items[:MOST_LISTED]
    head = f"{word}, the first {len(items)} of {count(summary.get(word))}:" if cut else f"{word}:"
    run.output.lines(["", head])
    run.output.records(kind, items)


def sentence(result: Mapping[str, Any], what: str = "apply") -> str:
    """Return `120 of 3,011 resources updated; 4 failed; run the command again to retry them`."""
    summary = _summary(result)
    line = f"{count(summary.get('updated'))} of {count(summary.get('examined'))} resources {_WORDS[what]}"
    if summary.get("failed"):
        line += f"; {count(summary['failed'])} failed; run the command again to retry them"
    return line


def preview_lines(result: Mapping[str, Any], would: str = "would change") -> list[str]:
    """Return a line for each type with changes, skips or failures: their numbers, and the reasons."""
    reasons: dict[str, Counter[str]] = {}
    for one in (*_items(result, "skipped"), *_items(result, "failures")):
        reasons.setdefault(str(one.get("resourceType")), Counter())[str(one.get("reason"))] += 1
    lines = []
    for one in default_tags.by_type(result):
        parts = [f"{count(one.get('updated'))} {would}"] if one.get("updated") else []
        parts += [f"{count(one[word])} {words}" for word, words in _FORESEEN.items() if one.get(word)]
        if parts:
            why = ", ".join(safe(reason, 60) for reason in reasons.get(str(one["resourceType"]), ()))
            lines.append(f"  {safe(one['resourceType'], 60)}: {', '.join(parts)}{f' ({why})' if why else ''}")
    return lines


def would_change(result: Mapping[str, Any]) -> str:
    """Return `120 of 3,011 resources`."""
    summary = _summary(result)
    return f"{count(summary.get('updated'))} of {count(summary.get('examined'))} resources"


def _summary(result: Mapping[str, Any]) -> Mapping[str, Any]:
    found = result.get("summary")
    return found if isinstance(found, Mapping) else {}


def _items(result: Mapping[str, Any], member: str) -> Sequence[Mapping[str, Any]]:
    found = result.get(member)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
