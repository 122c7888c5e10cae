"""Everything a principal may do, with the path group, policy, rule."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from textual.binding import BindingType

from client.records import Column, Record
from client.records_iam import ACCESS
from tui import keymaps
from tui.messages import Travel
from tui.policy_text import grants, path_text
from tui.screens.catalogue import ANYTHING, who_on
from tui.screens.collected import Inner
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones

SIGNS = {"allowed": "●", "conditional": "◐", "denied": "×"}
TONES = {"allowed": "good", "conditional": "warning", "denied": "bad"}
WORDS = {
    "allowed": "on everything in this tenant, whatever the circumstances",
    "conditional": "only for some targets, or under some circumstances",
    "denied": "something would allow it, but a deny always wins",
}


class Access(Inner):
    """Operations nothing allows are left out; entered from members, attachments and from who may do something."""

    NAME = "access"
    TITLE = "Access"
    KIND = ACCESS
    PRIMARY = "access.policy"
    ROWS = "access"
    NOTHING = "Nothing gives it any operation."
    STATES = True
    BINDINGS: ClassVar[list[BindingType]] = [*keymaps.bindings("access")]

    def headline(self, name: str) -> str:
        return f"What {name} may do"

    def state_words(self) -> str:
        """A key that is over keeps what it is given, and can do none of it."""
        state = self.state_of(self.subject.id) if self.subject else ""
        over = f"{state}: does nothing" if state in ("revoked", "expired") else ""
        return " · ".join(part for part in (over, super().state_words()) if part)

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in ACCESS.columns}
        path = by_key["by"]._replace(title="Path", cell=lambda record: path_text(deciding(record)))
        return (by_key["operation"], by_key["access"]._replace(cell=access_text), path)

    def tones(self) -> Tones:
        return {"access": access_tone}

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        access = str(record.get("access", ""))
        facts = [("Access", access_text(record)), (" ", WORDS.get(access, ""))]
        return str(record["operation"]), [
            ("", facts),
            *grants("Given by", record.get("by") or ()),
            *grants("Denied by", record.get("deniedBy") or ()),
        ]

    def do_policy(self, argument: str = "") -> None:
        record = next((row for row in self.records() if row["operation"] == argument), self.record)
        policy = next((grant for grant in deciding(record or {}) if grant.get("policyId")), None)
        if policy is not None:
            self.post_message(Travel("policies", record=str(policy["policyId"])))

    def do_who(self) -> None:
        if self.record is not None:
            self.post_message(who_on(str(self.record["operation"]), ANYTHING, self.tenant_id))


def access_text(record: Record) -> str:
    """Whether something may be done, with its sign."""
    access = str(record.get("access", ""))
    return f"{SIGNS.get(access, '?')} {access}"


def access_tone(record: Record) -> str | None:
    """The tone of that."""
    return TONES.get(str(record.get("access")))


def deciding(record: Record) -> Sequence[Mapping[str, Any]]:
    """What has the last word in an operation: the denies of one that is denied, else what gives it."""
    found: Sequence[Mapping[str, Any]] = record.get("deniedBy" if record.get("access") == "denied" else "by") or ()
    return found
