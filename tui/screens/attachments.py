"""What one policy is attached to: keys, workload identities and groups."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from client.records import Column, Record, time_text
from client.records_iam import ATTACHMENT
from tui import keymaps
from tui.action import kind_and_id
from tui.history import Subject
from tui.messages import Travel
from tui.policy_text import kind_text, names
from tui.screens import changing
from tui.screens.collected import Inner
from tui.screens.picking import pick_attachees
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones


class Attachments(Inner):
    """Entered from a policy."""

    NAME = "attachments"
    TITLE = "Attachments"
    KIND = ATTACHMENT._replace(id_key="key")
    PRIMARY = "attachments.open"
    ROWS = "attachments"
    BESIDE = ("policies of", "members")
    NOTHING = "The policy is attached to nothing, so it gives nothing; n attaches it."
    BINDINGS: ClassVar[list[BindingType]] = [*keymaps.bindings("attachments")]

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in ATTACHMENT.columns}
        return (by_key["attacheeName"], by_key["attacheeType"]._replace(cell=kind_text), by_key["attachedAt"])

    def tones(self) -> Tones:
        return {"attacheeType": lambda record: "dim", "attachedAt": lambda record: "dim"}

    def beside_of(self, name: str, record: Record) -> str:
        return str(record["attacheeId"] if name == "members" else record["key"])

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        policies = self.beside("policies of", str(record["key"]))
        sections: list[Section] = [
            ("", [("Type", kind_text(record)), ("Attached", time_text(record.get("attachedAt")))])
        ]
        if kind_and_id(record)[0] == "group":
            members = self.beside("members", str(record["attacheeId"]))
            sections.append(("Members", names(members.records, "memberName", members.known, "none")))
        sections.append(("All policies attached to it", names(policies.records, "name", policies.known, "none")))
        return str(record.get("attacheeName") or record["attacheeId"]), [
            *sections,
            ("Id", [("", str(record["attacheeId"]))]),
        ]

    # Actions

    @property
    def policy(self) -> Record:
        """The policy that is open."""
        assert self.subject is not None
        return {"id": self.subject.id, "name": self.subject.name}

    def do_open(self, argument: str = "") -> None:
        record = next((row for row in self.records() if row["key"] == argument), self.record)
        if record is None:
            return
        kind, identifier = kind_and_id(record)
        name = str(record.get("attacheeName") or identifier)
        if kind == "group":
            self.post_message(Travel("members", Subject(self.tenant_id, identifier, name)))
        else:
            self.post_message(Travel("access", Subject(self.tenant_id, str(record["key"]), name)))

    async def do_attach(self) -> None:
        chosen = await pick_attachees(self, self.policy)
        if chosen:
            await changing.attach(self, self.policy, chosen)

    async def do_detach(self) -> None:
        chosen = self.table.meant
        if chosen:
            await changing.detach(self, self.policy, chosen)
