"""Preview of an apply by type, for the stored set or a draft."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from client.tables.columns import Record
from client.tables.default_tags import tags_text
from client.text import safe
from client.texts import apply
from tui.default_tags import apply_flow
from tui.default_tags.apply_table import PREVIEW, TONES, type_rows
from tui.default_tags.summary import Summary, wrapped
from tui.shell import keymap
from tui.shell.remote_list_screen import ChildListScreen
from tui.shell.routes import Navigate, Subject
from tui.state.tag_draft import TagDraft
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones


class ApplyPreview(ChildListScreen):
    """Not refreshed automatically, because the platform examines every resource for it."""

    NAME = "apply-preview"
    TITLE = "Preview"
    KIND = PREVIEW
    PRIMARY = "apply-preview.show"
    LIST_NAME = "apply preview"
    REQUIRES_USER = False
    EMPTY_TEXT = "The platform covers no type."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("apply-preview")]

    def title_for(self, name: str) -> str:
        return f"Preview of an apply in {name}"

    def compose_header(self) -> ComposeResult:
        yield Summary()

    def tones(self) -> Tones:
        return TONES

    @property
    def draft(self) -> TagDraft | None:
        return self.workspace.tag_drafts.of(self.tenant_id)

    @property
    def result(self) -> Mapping[str, Any]:
        """Result of the preview, in the form of an apply result; empty if it is not loaded."""
        return self.rows.records[0] if self.rows.records and not self.unavailable_reason() else {}

    def records(self) -> Sequence[Record]:
        return type_rows({"status": "completed", "result": self.result})

    def freshness_text(self) -> str:
        return "counting" if self.rows.state == "reading" else super().freshness_text()

    def empty(self) -> str:
        text = super().empty()
        return "Looking at every resource of the tenant …" if text.startswith("Asking") else text

    def read_again(self, only: str = "") -> None:
        """Do not repeat the preview on a refresh."""

    def show(self) -> None:
        super().show()
        self.query_one(Summary).show(self._lines)

    def _lines(self, cells: int) -> list[Content]:
        result = self.result
        if not result:
            return []
        counts = apply.summary({"result": result})
        of = "the draft, which is not saved" if self.subject is not None and self.subject.id else "the set as stored"
        changes = (
            f"{counts['updated']:,} would change · {counts['unchanged']:,} unchanged · {counts['skipped']:,} skipped"
        )
        lines = wrapped(f"{changes} · {counts['failed']:,} failing", cells)
        lines += wrapped(f"of {counts['examined']:,} resources, by {of}", cells)
        lines += wrapped(f"Lack it:  {_lacking_text(result)}", cells, "$text-muted", "          ")
        for member, title in (("skipped", "Skipped"), ("failures", "Failing")):
            if reasons := apply.reasons_counted(result.get(member) or ()):
                cut = "  (of the first 200)" if result.get(f"{member}Truncated") else ""
                lines += wrapped(f"{title}:  {reasons}{cut}", cells, "$text-muted", "          ")
        return lines

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        kind, result = str(record["resourceType"]), self.result
        facts = [
            ("Would change", f"{record.get('updated', 0):,}"),
            ("Unchanged", f"{record.get('unchanged', 0):,}"),
            ("Skipped", f"{record.get('skipped', 0):,}"),
            ("Failing", f"{record.get('failed', 0):,}"),
            ("Looked at", f"{record.get('examined', 0):,}"),
        ]
        lacking = result.get("affected", {}).get(kind, {})
        keys = [(key, f"{number:,}") for key, number in lacking.items() if number]
        sections: list[Section] = [("", facts), ("Lack the key", keys or [("", "none")])]
        for member, title in (("skipped", "Skipped because"), ("failures", "Failing because")):
            items = [item for item in result.get(member) or () if item.get("resourceType") == kind]
            if items:
                sections.append((title, [("", apply.reasons_counted(items))]))
        return kind, sections

    # Actions

    async def do_apply(self) -> None:
        await apply_flow.apply(self)

    def do_untouched(self) -> None:
        assert self.subject is not None
        of = json.dumps({"preview": self.subject.id})
        self.post_message(Navigate("untouched", Subject(self.tenant_id, of, self.subject.name)))


def _lacking_text(result: Mapping[str, Any]) -> str:
    """Return how many resources lack each key, over all types."""
    applied = result.get("appliedTags") or {}
    totals = dict.fromkeys(sorted(applied), 0)
    for lacking in (result.get("affected") or {}).values():
        for key, number in lacking.items():
            totals[key] = totals.get(key, 0) + number
    return ", ".join(f"{safe(key)} {number:,}" for key, number in totals.items()) or tags_text({})
