"""Results and previews of an apply or an undo, as tables and sentences."""

from collections.abc import Mapping, Sequence
from typing import Any

from client.commands.default_tags.apply_job import count
from client.commands.invocation import Invocation
from client.tables import default_tags
from client.tables.columns import Kind
from client.text import safe
from client.texts import apply as texts

MOST_LISTED = 200
"""Maximum number of failed and of skipped resources to list. The numbers include all."""


def show(run: Invocation, result: Mapping[str, Any], *, would: str = "") -> None:
    """Print a result: its numbers by type, and the resources that failed or were skipped.

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
            parts = [safe(one.get(name) or "", 300) for name in ("resourceType", "reason", "message")]
            run.output.lines(["  " + "  ".join(word for word in parts if word)])
    _show_list(
        run, default_tags.FAILED, {**result, "failures": failed_resources(result)}, "failures", "failed", summary
    )
    _show_list(run, default_tags.SKIPPED, result, "skipped", "skipped", summary)


def unlisted_types(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the failures of whole types, whose resources could not be listed."""
    return [one for one in _items(result, "failures") if not one.get("resourceId")]


def failed_resources(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the failures of single resources."""
    return [one for one in _items(result, "failures") if one.get("resourceId")]


def _show_list(
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


def sentence(operation: Mapping[str, Any]) -> str:
    """Return `120 of 3,011 resources updated; 4 failed; run the command again to retry them`."""
    retry = "; run the command again to retry them" if texts.summary(operation)["failed"] else ""
    return texts.result_sentence(operation) + retry


def preview_lines(result: Mapping[str, Any], verb: str = "would change") -> list[str]:
    """Return a line for each type with changes, skips or failures: their numbers, and the reasons."""
    return [
        f"  {safe(one.name, 60)}: {one.numbers}{f' ({safe(one.reasons, 300)})' if one.reasons else ''}"
        for one in texts.preview_by_type(result, verb)
    ]


def would_change(result: Mapping[str, Any]) -> str:
    """Return `120 of 3,011 resources`."""
    summary = _summary(result)
    return f"{count(summary.get('updated'))} of {count(summary.get('examined'))} resources"


def _summary(result: Mapping[str, Any]) -> Mapping[str, Any]:
    summary = result.get("summary")
    return summary if isinstance(summary, Mapping) else {}


def _items(result: Mapping[str, Any], member: str) -> Sequence[Mapping[str, Any]]:
    items = result.get(member)
    return [one for one in items if isinstance(one, Mapping)] if isinstance(items, list) else []
