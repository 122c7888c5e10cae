"""The members of one group: API keys and workload identities."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from client.records import Column, Record, time_text
from client.records_iam import MEMBER
from tui import keymaps
from tui.history import Subject
from tui.messages import Travel
from tui.policy_text import kind_text, names
from tui.screens import changing
from tui.screens.collected import Inner
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones


class Members(Inner):
    """Entered from a group. A member's state is read with the keys: a revoked one stays and gives nothing (M12)."""

    NAME = "members"
    TITLE = "Members"
    KIND = MEMBER._replace(id_key="key")
    PRIMARY = "members.access"
    ROWS = "members"
    BESIDE = ("groups of", "policies of")
    STATES = True
    NOTHING = "The group has no member; n adds some."
    BINDINGS: ClassVar[list[BindingType]] = [*keymaps.bindings("members")]

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in MEMBER.columns}
        status = Column("status", "State", cell=self._status)
        return (by_key["memberName"], by_key["memberType"]._replace(cell=kind_text), status, by_key["addedAt"])

    def tones(self) -> Tones:
        return {
            "memberType": lambda record: "dim",
            "status": lambda record: "good" if self._status(record) == "active" else "warning",
            "addedAt": lambda record: "dim",
        }

    def _status(self, record: Record) -> str:
        return self.state_of(str(record["key"]))

    def beside_of(self, name: str, record: Record) -> str:
        return str(record["key"])

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        groups = self.beside("groups of", str(record["key"]))
        policies = self.beside("policies of", str(record["key"]))
        facts = [("Type", kind_text(record)), ("State", self._status(record) or "—")]
        return str(record.get("memberName") or record["memberId"]), [
            ("", [*facts, ("Added", time_text(record.get("addedAt")))]),
            ("In groups", names(groups.records, "name", groups.known, "none")),
            ("Policies attached to it directly", names(policies.records, "name", policies.known, "none")),
            ("Id", [("", str(record["memberId"]))]),
        ]

    # Actions

    @property
    def group(self) -> Record:
        """The group that is open."""
        assert self.subject is not None
        groups = self.workspace.collections.rows("groups", self.tenant_id).records
        known = next((group for group in groups if group["id"] == self.subject.id), None)
        return known or {"id": self.subject.id, "name": self.subject.name}

    def do_access(self, argument: str = "") -> None:
        member = next((row for row in self.records() if row["key"] == argument), self.record)
        if member is not None:
            name = str(member.get("memberName") or member["memberId"])
            self.post_message(Travel("access", Subject(self.tenant_id, str(member["key"]), name)))

    async def do_add(self) -> None:
        await changing.add_members(self, self.group)

    async def do_remove(self) -> None:
        members = self.table.meant
        if members:
            await changing.remove_members(self, self.group, members)
