"""The last applies and undos of a tenant's default tags, and the undo of one."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from client.tables.columns import Column, Record, time_text
from client.tables.default_tags import RUN, person_text, tags_text
from client.texts import apply
from tui.default_tags import apply_flow
from tui.shell import keymap
from tui.shell.remote_list_screen import ChildListScreen
from tui.state.loaders import RUNS
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones

STATES = {"completed": "good", "failed": "bad", "cancelled": "bad", "running": "warning", "pending": "warning"}


class ApplyRuns(ChildListScreen):
    """At most ten runs: the platform does not remember the changes of older ones."""

    NAME = "apply-runs"
    TITLE = "Recent runs"
    KIND = RUN
    PRIMARY = "apply-runs.open"
    LIST_NAME = RUNS
    REQUIRES_USER = False
    EMPTY_TEXT = "Default tags were not applied here yet."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("apply-runs")]

    def title_for(self, name: str) -> str:
        return f"Applies in {name}"

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in RUN.columns}
        kind = by_key["kind"]._replace(title="Run", cell=kind_text)
        return (by_key["startedAt"], kind, *(by_key[key] for key in ("status", "updated", "failed", "startedBy")))

    def tones(self) -> Tones:
        return {
            "startedAt": lambda record: "dim",
            "status": lambda record: STATES.get(str(record.get("status"))),
            "failed": lambda record: "bad" if (record.get("summary") or {}).get("failed") else "dim",
            "startedBy": lambda record: "dim",
        }

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        counts = record.get("summary") or {}
        first = "Lost tags" if record.get("kind") == "undo" else "Updated"
        names = {"updated": first, **{name: name.capitalize() for name in ("unchanged", "skipped", "failed")}}
        facts = [
            ("State", str(record.get("status", ""))),
            ("Begun", time_text(record.get("startedAt"))),
            ("By", person_text(record.get("startedBy")) or "—"),
            ("Took", apply.elapsed(record) or "—"),
        ]
        tags = record.get("appliedTags") or {}
        sections: list[Section] = [
            ("", facts),
            ("", [(names[name], f"{counts.get(name, 0):,}") for name in names]),
            ("Tags", [("", f"{key} = {tags[key]}") for key in sorted(tags)] or [("", tags_text(tags))]),
        ]
        if record.get("undoneBy"):
            sections.append(("Undone by", [("", str(record["undoneBy"]))]))
        if record.get("undoes"):
            sections.append(("Undoes", [("", str(record["undoes"]))]))
        return kind_text(record).capitalize(), [*sections, ("Id", [("", str(record["runId"]))])]

    def do_open(self, run_id: str = "") -> None:
        chosen_id = run_id or str((self.record or {}).get("runId", ""))
        if chosen_id:
            apply_flow.show(self, chosen_id)

    async def do_undo(self) -> None:
        if self.record is not None:
            await apply_flow.undo(self, self.record)


def kind_text(record: Record) -> str:
    """Return `apply`, `undo` or `apply, undone`."""
    return f"{record.get('kind', 'apply')}{', undone' if record.get('undoneBy') else ''}"
