"""Columns of default tags: versions, apply runs, numbers by type, failed resources; and changes between tag sets.

Cells are plain text, as in client/tables/columns.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from client.tables.columns import Column, Kind, Record, fields, id_column, number_column, person_text, time_column


def tags_text(tags: object) -> str:
    """Format tags sorted by key, `env=prod, team=a`; `none` for an empty set."""
    if not isinstance(tags, Mapping):
        return ""
    return ", ".join(f"{key}={tags[key]}" for key in sorted(tags)) or "none"


def by_type(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the numbers of a result as one record per type, sorted by name."""
    from client.models.apply_counts import separate_unlisted  # not for commands that only read tags

    by_name = result.get("byType")
    if not isinstance(by_name, Mapping):
        return []
    return [
        {"resourceType": name, **separate_unlisted(counts)}
        for name, counts in sorted(by_name.items())
        if isinstance(counts, Mapping)
    ]


def _tags(record: Record) -> str:
    return tags_text(record.get("tags"))


def _applied(record: Record) -> str:
    return tags_text(record.get("appliedTags"))


def _changed_by(record: Record) -> str:
    return person_text(record.get("changedBy"))


def _started_by(record: Record) -> str:
    return person_text(record.get("startedBy"))


def _run_kind(record: Record) -> str:
    """Format the kind of a run: `undo of 0192…`, `apply (undone)`."""
    kind = str(record.get("kind") or "")
    if record.get("undoes"):
        return f"{kind} of {str(record['undoes'])[:8]}"
    return f"{kind} (undone)" if record.get("undoneBy") else kind


def _summary_count(member: str, title: str) -> Column:
    def count(record: Record) -> int | None:
        from client.models.apply_counts import separate_unlisted

        summary = record.get("summary")
        value = separate_unlisted(summary).get(member) if isinstance(summary, Mapping) else None
        return value if isinstance(value, int) else None

    def text(record: Record) -> str:
        value = count(record)
        return "" if value is None else str(value)

    return Column(member, title, align="right", cell=text, sort=count)


_VERSION = (
    number_column("version", "Version"),
    time_column("changedAt", "When"),
    Column("changedBy", "By", cell=_changed_by),
    Column("tags", "Tags", cell=_tags),
)

TAG_VERSION = Kind(
    "version",
    "versions",
    "version",
    _VERSION,
    fields(_VERSION, version="version", by="changedBy", tags="tags"),
    "version",
)

_RUN = (
    id_column("runId", "Run ID"),
    Column("kind", "Kind", cell=_run_kind, whole=True),
    Column("status", "Status", whole=True),
    time_column("startedAt", "Started"),
    _summary_count("updated", "Updated"),
    _summary_count("failed", "Failed"),
    _summary_count("unlisted", "Unlisted"),
    Column("startedBy", "By", cell=_started_by),
    Column("appliedTags", "Tags", wide=True, cell=_applied),
    _summary_count("examined", "Examined")._replace(wide=True),
    _summary_count("skipped", "Skipped")._replace(wide=True),
    time_column("completedAt", "Completed", wide=True),
    Column("undoable", "Undoable", wide=True),
    id_column("undoneBy", "Undone by", wide=True),
)

RUN = Kind(
    "run",
    "runs",
    "runId",
    _RUN,
    fields(_RUN, id="runId", kind="kind", status="status", by="startedBy", tags="appliedTags"),
    "runId",
)

_COUNTS = (
    Column("resourceType", "Type", whole=True),
    number_column("updated", "Updated"),
    number_column("unchanged", "Unchanged"),
    number_column("skipped", "Skipped"),
    number_column("failed", "Failed"),
    number_column("examined", "Examined"),
)

COUNTS = Kind("type", "types", "resourceType", _COUNTS, fields(_COUNTS, type="resourceType"), "resourceType")

_UNTOUCHED = (
    Column("resourceType", "Type", whole=True),
    Column("resourceName", "Name"),
    id_column("resourceId", "ID"),
    Column("reason", "Reason", whole=True),
)

SKIPPED = Kind(
    "skipped resource",
    "skipped resources",
    "resourceId",
    _UNTOUCHED,
    fields(_UNTOUCHED, type="resourceType", name="resourceName", id="resourceId", reason="reason"),
    "resourceName",
)

_FAILED = (*_UNTOUCHED, Column("message", "Message"))

FAILED = Kind(
    "failed resource",
    "failed resources",
    "resourceId",
    _FAILED,
    fields(_FAILED, type="resourceType", name="resourceName", id="resourceId", reason="reason", message="message"),
    "resourceName",
)


class TagChanges(NamedTuple):
    """Changes between two tag sets by key, in alphabetical order. `changed` has the old and new values."""

    added: Mapping[str, str]
    changed: Mapping[str, tuple[str, str]]
    removed: Mapping[str, str]

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def lines(self) -> list[str]:
        """Return lines sorted by key: `+ env=prod`, `~ team=b (was a)`, `- old=1`."""
        lines = {key: f"+ {key}={value}" for key, value in self.added.items()}
        lines |= {key: f"~ {key}={after} (was {before or 'empty'})" for key, (before, after) in self.changed.items()}
        lines |= {key: f"- {key}={value}" for key, value in self.removed.items()}
        return [lines[key] for key in sorted(lines)]

    def document(self) -> dict[str, dict[str, object]]:
        return {
            "added": dict(self.added),
            "changed": {key: {"from": before, "to": after} for key, (before, after) in self.changed.items()},
            "removed": dict(self.removed),
        }


def difference(before: Mapping[str, str], after: Mapping[str, str]) -> TagChanges:
    return TagChanges(
        {key: after[key] for key in sorted(after) if key not in before},
        {key: (before[key], after[key]) for key in sorted(after) if key in before and before[key] != after[key]},
        {key: before[key] for key in sorted(before) if key not in after},
    )


def merged(stored: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """Return the stored tags, updated with the given ones (`--merge`)."""
    return {**stored, **changes}
