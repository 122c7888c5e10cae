"""The skips and failures of an apply or a preview."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual.binding import BindingType

from client.tables.columns import Record
from client.texts import apply
from tui.default_tags.apply_table import UNTOUCHED, UNTOUCHED_TONES, resource_text, untouched_rows
from tui.shell import keymap
from tui.shell.remote_list_screen import ChildListScreen
from tui.state.list_store import Rows
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones


class Untouched(ChildListScreen):
    """The subject is a run id or, for a preview, `{"preview": SUBJECT}` as JSON with the subject of the preview."""

    NAME = "untouched"
    TITLE = "Failures and skips"
    KIND = UNTOUCHED
    PRIMARY = "untouched.show"
    LIST_NAME = "operation"
    REQUIRES_USER = False
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("untouched")]

    def title_for(self, name: str) -> str:
        return f"Failures and skips in {name}"

    def tones(self) -> Tones:
        return UNTOUCHED_TONES

    @property
    def previewed(self) -> str | None:
        """Subject of the preview: the draft as JSON, or "" for the stored set. None for a run."""
        if self.subject is None or not self.subject.id.startswith("{"):
            return None
        return str(json.loads(self.subject.id)["preview"])

    @property
    def rows(self) -> Rows:
        if (preview := self.previewed) is not None:
            return self.workspace.collections.rows("apply preview", self.tenant_id, preview)
        return super().rows

    @property
    def operation(self) -> Mapping[str, Any]:
        """The run, or the preview in the form of a completed run; empty if it is not loaded."""
        if self.unavailable_reason():
            return {}
        if self.previewed is not None:
            return {"status": "completed", "result": self.rows.records[0]} if self.rows.records else {}
        live_run = self.workspace.applies.of(self.tenant_id)
        if live_run is not None and self.subject is not None and live_run.id == self.subject.id:
            return live_run.operation
        return self.rows.records[0] if self.rows.records else {}

    def records(self) -> Sequence[Record]:
        return untouched_rows(apply.counts(self.operation))

    def freshness_text(self) -> str:
        """Return the lengths of truncated lists. The numbers in the summary are complete."""
        result, counts = apply.counts(self.operation), apply.summary(self.operation)
        parts = []
        for member, outcome in (("failures", "failed"), ("skipped", "skipped")):
            if result.get(f"{member}Truncated"):
                parts.append(f"the first {len(result.get(member) or ())} of {counts[outcome]:,} {outcome}")
        return " · ".join(parts)

    def empty(self) -> str:
        operation = self.operation
        if not operation:
            return super().empty()
        counts = apply.summary(operation)
        if apply.is_open(operation):
            so_far = f"{counts['failed']:,} failed and {counts['skipped']:,} skipped so far"
            return f"They are listed when the apply is over; {so_far}."
        return "Nothing failed and nothing was skipped."

    def read(self, *, quiet: bool = False) -> None:
        if not self.operation and self.previewed is None:
            super().read(quiet=quiet)

    def changed(self, topic: str) -> None:
        super().changed(topic)
        if topic == "applies":
            self.show()

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        reason, text = str(record.get("reason", "")), apply.reason_text(record.get("reason", ""))
        facts = [
            ("What", str(record["what"])),
            ("Type", str(record.get("resourceType", ""))),
            ("Why", text if text == reason else f"{text} ({reason})"),
        ]
        if advice := apply.AGAIN.get(reason):
            facts.append(("Then", advice))
        message: list[Section] = [("Message", [("", str(record["message"]))])] if record.get("message") else []
        return resource_text(record), [("", facts), *message, ("Id", [("", str(record.get("resourceId") or "—"))])]
