"""Stored versions of a tenant's default tags."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from client.tables.columns import Column, Record, time_text
from client.tables.default_tags import TAG_VERSION, difference, person_text
from tui.default_tags import save
from tui.default_tags.difference import difference_lines
from tui.default_tags.list_confirm import Listing
from tui.shell import keymap
from tui.shell.remote_list_screen import ChildListScreen
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones


class TagVersions(ChildListScreen):
    """Versions of the set, newest first. `►` marks the current one."""

    NAME = "tag-versions"
    TITLE = "History"
    KIND = TAG_VERSION
    PRIMARY = "tag-versions.difference"
    LIST_NAME = "tag versions"
    REQUIRES_USER = False
    EMPTY_TEXT = "The set was never changed."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("tag-versions")]

    def title_for(self, name: str) -> str:
        return f"Default tags of {name}: what they were"

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in TAG_VERSION.columns}
        version = by_key["version"]._replace(title="  Version", cell=_numbered, align="left")
        return (version, *(by_key[key] for key in ("changedAt", "changedBy", "tags")))

    def tones(self) -> Tones:
        return {"changedAt": lambda record: "dim", "version": lambda record: "mark" if record.get("current") else None}

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        suffix = " · the set as it is" if record.get("current") else ""
        facts = [("Stored", time_text(record.get("changedAt"))), ("By", person_text(record.get("changedBy")) or "—")]
        tags = record.get("tags") or {}
        sections = [("", facts), ("Tags", [("", f"{key} = {tags[key]}") for key in sorted(tags)] or [("", "none")])]
        if (before := self._before(record)) is not None:
            lines = difference(before.get("tags") or {}, tags).lines()
            sections.append((f"Against version {before['version']}", [("", line) for line in lines] or [("", "same")]))
        return f"Version {record['version']}{suffix}", sections

    @property
    def newest(self) -> Record | None:
        """The current version."""
        return next((row for row in self.records() if row.get("current")), None)

    def _before(self, record: Record) -> Record | None:
        rows = self.records()
        older = [row for row in rows if int(row["version"]) < int(record["version"])]
        return older[0] if older else None

    # Actions

    def do_difference(self, argument: str = "") -> None:
        old = next((row for row in self.records() if str(row["version"]) == argument), self.record)
        new = self.newest
        if old is None or new is None:
            return
        if old is new and (old := self._before(new)) is None:
            self.frame.toast("There is only this version")
            return
        lines = difference_lines(difference(old.get("tags") or {}, new.get("tags") or {}))
        self.app.push_screen(Listing(f"Version {old['version']} to {new['version']}", lines, "The same set."))

    async def do_put_back(self) -> None:
        old, new = self.record, self.newest
        if old is not None and new is not None:
            await save.put_back(self, dict(old.get("tags") or {}), int(new["version"]), dict(new["tags"]))
            self.read(quiet=True)


def _numbered(record: Record) -> str:
    return f"{'►' if record.get('current') else ' '} {record['version']}"
