"""What an apply would do now, type by type, of the stored set or of a draft; the platform's own code works it out."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from client.records import Record
from client.records_tags import tags_text
from client.text import safe
from tui import apply_words, keymaps
from tui.apply_table import PREVIEW, TONES, type_rows
from tui.history import Subject
from tui.messages import Travel
from tui.screens import applying
from tui.screens.collected import Inner
from tui.tag_draft import TagDraft
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones
from tui.widgets.summary import Summary, wrapped


class ApplyPreview(Inner):
    """Worked out when it is opened and when it is asked for again: it looks at every resource, so not by itself."""

    NAME = "apply-preview"
    TITLE = "Preview"
    KIND = PREVIEW
    PRIMARY = "apply-preview.show"
    ROWS = "apply preview"
    PERSON = False
    NOTHING = "The platform covers no type."
    BINDINGS: ClassVar[list[BindingType]] = [*keymaps.bindings("apply-preview")]

    def headline(self, name: str) -> str:
        return f"Preview of an apply in {name}"

    def above(self) -> ComposeResult:
        yield Summary()

    def tones(self) -> Tones:
        return TONES

    @property
    def draft(self) -> TagDraft | None:
        return self.workspace.tag_drafts.of(self.tenant_id)

    @property
    def result(self) -> Mapping[str, Any]:
        """The result of an apply as it would be; empty before it is known."""
        return self.rows.records[0] if self.rows.records and not self.hindrance() else {}

    def records(self) -> Sequence[Record]:
        return type_rows({"status": "completed", "result": self.result})

    def state_words(self) -> str:
        return "counting" if self.rows.state == "reading" else super().state_words()

    def empty(self) -> str:
        words = super().empty()
        return "Looking at every resource of the tenant …" if words.startswith("Asking") else words

    def read_again(self, only: str = "") -> None:
        """Not by itself."""

    def show(self) -> None:
        super().show()
        self.query_one(Summary).show(self._lines)

    def _lines(self, cells: int) -> list[Content]:
        result = self.result
        if not result:
            return []
        counts = apply_words.summary({"result": result})
        of = "the draft, which is not saved" if self.subject is not None and self.subject.id else "the set as stored"
        words = (
            f"{counts['updated']:,} would change · {counts['unchanged']:,} unchanged · {counts['skipped']:,} skipped"
        )
        lines = wrapped(f"{words} · {counts['failed']:,} failing", cells)
        lines += wrapped(f"of {counts['examined']:,} resources, by {of}", cells)
        lines += wrapped(f"Lack it:  {_lacking_words(result)}", cells, "$text-muted", "          ")
        for what, title in (("skipped", "Skipped"), ("failures", "Failing")):
            if reasons := apply_words.reasons_counted(result.get(what) or ()):
                cut = "  (of the first 200)" if result.get(f"{what}Truncated") else ""
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
        for what, title in (("skipped", "Skipped because"), ("failures", "Failing because")):
            items = [item for item in result.get(what) or () if item.get("resourceType") == kind]
            if items:
                sections.append((title, [("", apply_words.reasons_counted(items))]))
        return kind, sections

    # Actions

    async def do_apply(self) -> None:
        await applying.apply(self)

    def do_untouched(self) -> None:
        assert self.subject is not None
        of = json.dumps({"preview": self.subject.id})
        self.post_message(Travel("untouched", Subject(self.tenant_id, of, self.subject.name)))


def _lacking_words(result: Mapping[str, Any]) -> str:
    """By key, over all types: how many resources lack it."""
    applied = result.get("appliedTags") or {}
    totals = dict.fromkeys(sorted(applied), 0)
    for lacking in (result.get("affected") or {}).values():
        for key, number in lacking.items():
            totals[key] = totals.get(key, 0) + number
    return ", ".join(f"{safe(key)} {number:,}" for key, number in totals.items()) or tags_text({})
