"""Who may do an operation on a target, with what gives it to them."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from client.records import Column, Record
from client.records_iam import WHO
from tui import keymaps
from tui.action import kind_and_id
from tui.history import Subject
from tui.messages import Travel
from tui.policy_text import grants, kind_text, path_text
from tui.screens.access import access_text, access_tone
from tui.screens.collected import Inner
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones


class Who(Inner):
    """People, API keys and workload identities; entered from the catalogue."""

    NAME = "who"
    TITLE = "Who may"
    KIND = WHO._replace(id_key="key")
    PRIMARY = "who.access"
    ROWS = "who"
    NOTHING = "Nobody may do this."
    BINDINGS: ClassVar[list[BindingType]] = [*keymaps.bindings("who")]

    def headline(self, name: str) -> str:
        return f"Who may {name}"

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in WHO.columns}
        path = by_key["by"]._replace(title="By", cell=lambda record: path_text(record.get("by") or ()))
        access = by_key["access"]._replace(cell=access_text)
        return (by_key["name"]._replace(cell=_short), by_key["type"]._replace(cell=kind_text), access, path)

    def tones(self) -> Tones:
        return {"type": lambda record: "dim", "access": access_tone}

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        facts = [("Type", kind_text(record)), ("Access", access_text(record))]
        return str(record.get("name", "")), [
            ("", facts),
            *grants("Because of", record.get("by") or ()),
            *grants("Unless denied by", record.get("deniedBy") or ()),
            ("Id", [("", str(record["id"]))]),
        ]

    def do_access(self, argument: str = "") -> None:
        record = next((row for row in self.records() if row["key"] == argument), self.record)
        if record is not None:
            subject = Subject(self.tenant_id, ":".join(kind_and_id(record)), str(record.get("name", "")))
            self.post_message(Travel("access", subject))


def _short(record: Record) -> str:
    """A person by the name alone; the address stands in the details."""
    name = str(record.get("name", ""))
    return name.partition(" <")[0] if record.get("type") == "user" else name
