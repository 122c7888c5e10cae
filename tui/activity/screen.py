"""Audit entries of a tenant, of one resource, or of an organization, and the details of an entry.

Values are plain text. The detail pane makes them safe and renders no markup.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import BindingType

from client import times
from client.tables.activity import ACTIVITY
from client.tables.activity_sentences import MACHINES, fold, sentence, target_text, value_text, who_text
from client.tables.columns import Column, Record, age, exact, json_of, kind_and_id
from client.tables.default_tags import difference
from tui.shell import keymap
from tui.shell.action import (
    ACTIVITY_NEEDS_A_MANAGER,
    ACTIVITY_NEEDS_A_PERSON,
    MANAGERS,
    record_id_of_target,
    screen_of_target,
)
from tui.shell.remote_list_screen import ChildListScreen, RemoteListScreen
from tui.shell.remote_list_screen import sentence as as_sentence
from tui.shell.routes import Navigate, Subject
from tui.state.refresh import Topic, Update
from tui.widgets.detail import Section
from tui.widgets.heading import Heading
from tui.widgets.record_table import RecordTable, Tones
from tui.widgets.record_view import RecordView

if TYPE_CHECKING:
    from client.models.tenants import Entry

_CREDENTIALS = {"session": "a session", "api_key": "API key", "workload": "workload identity", "staff": "the socket"}
ID = 36
MOST = 40
"""Maximum number of facts shown."""


def of_entry(entry: "Entry", now: datetime) -> tuple[str, Sequence[Section]]:
    """Return the title and sections of an audit entry."""
    actor = entry.actor
    facts = [("Who", who_text(entry.wire()))]
    if actor.kind == "session" and not actor.email:
        left = "no longer a member of the organization"
        facts.append((" ", left if actor.name else "not a member of the organization"))
    if actor.kind in MACHINES and actor.name:
        facts.append(("Created by", actor.name))
    if actor.email:
        facts.append(("E-mail", actor.email))
    facts += [
        ("Credential", _CREDENTIALS.get(actor.kind, actor.kind) or "—"),
        *_when(entry, now),
        ("Outcome", entry.outcome or "—"),
        ("Operation", entry.operation or "—"),
    ]
    ids = (("Actor ID", actor.id), ("Credential ID", entry.credential_id), ("Entry ID", entry.id))
    return sentence([entry.wire()]), [
        ("", facts),
        ("Target", _target(entry)),
        ("Details", facts_of(entry.details)),
        ("Request ID", [("", entry.request_id or "—")]),
        *((heading, [("", value)]) for heading, value in ids if value),
    ]


def _when(entry: "Entry", now: datetime) -> Sequence[tuple[str, str]]:
    instant, _, ago = exact(entry.at, now).partition(", ")
    return [("When", instant), *([(" ", ago)] if ago else [])]


def _target(entry: "Entry") -> Sequence[tuple[str, str]]:
    if not entry.target_kind:
        return [("", entry.target or "—")]
    facts = [(label(entry.target_kind), entry.target_name or "deleted"), ("", entry.target_id or "")]
    return [*facts, ("", entry.target)] if entry.target.startswith("/") else facts


def facts_of(details: object) -> list[tuple[str, str]]:
    """Return the details of an entry as labels and values.

    `{"from": …, "to": …}`, at the top or as a member, is a change. `status` and `code` are those of a refusal.
    """
    if not isinstance(details, Mapping) or not details:
        return [("", "no details")]
    rest = dict(details)
    facts: list[tuple[str, str]] = []
    if "from" in rest and "to" in rest:
        facts.append(("Change", change(rest.pop("from"), rest.pop("to"))))
    if "code" in rest and "status" in rest:
        facts.append(("Refused", f"{value_text(rest.pop('code'))} ({value_text(rest.pop('status'))})"))
    for name, value in rest.items():
        if isinstance(value, Mapping) and set(value) == {"from", "to"}:
            facts.append((label(name), change(value["from"], value["to"])))
        else:
            facts.append((label(name), value_text(value)))
    left = len(facts) - MOST
    visible = facts if left <= 0 else [*facts[:MOST], ("", f"and {left:,} more: y to copy all as JSON")]
    return [line for name, value in visible for line in _lines(name, value)]


def _lines(name: str, value: str) -> Sequence[tuple[str, str]]:
    """Put an id on a line of its own, where it is not wrapped."""
    return [(name, ""), ("", value)] if len(value) == ID and " " not in value else [(name, value)]


def change(before: object, after: object) -> str:
    """Return a change: `Web Shop → Web Shop 2`; of lists, `+ compute:write, − storage:read`.

    Tags are formatted as in the commands: `~ env=dev (was prod)`.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return ", ".join(difference(_texts(before), _texts(after)).lines()) or "no change"
    if isinstance(before, list) and isinstance(after, list):
        came = [f"+ {value_text(one)}" for one in after if one not in before]
        went = [f"− {value_text(one)}" for one in before if one not in after]
        return ", ".join((*came, *went)) or "no change"
    return f"{value_text(before)} → {value_text(after)}"


def _texts(members: Mapping[str, object]) -> dict[str, str]:
    return {name: value_text(value) for name, value in members.items()}


def label(name: str) -> str:
    """Return the label of a member: `Display name` for `displayName`, `API key` for `api_key`, `Policy ID`."""
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).replace("_", " ").lower()
    return re.sub(r"\b(api|id)\b", lambda word: word[0].upper(), f"{text[:1].upper()}{text[1:]}", flags=re.IGNORECASE)


SIGNS = {"refused": "✗", "failed": "!"}
"""Signs of unsuccessful outcomes. The details have the word, and `outcome:refused` filters by it."""
TONES = {"refused": "warning", "failed": "bad"}
LISTS = {
    "policies": ("policies", "id"),
    "groups": ("groups", "id"),
    "api-keys": ("own keys", "id"),
    "sessions": ("sessions", "id"),
    "access": ("principals", ""),
    "quotas": ("quotas", "resourceType"),
}
"""The list (see tui/state/loaders.py) that a screen shows or is opened from, and the member with the key of its rows.

Type and id together are the key of principals.
"""
NO_LONGER_THERE = "the record was deleted"
NOT_YOURS = {
    "api-keys": "not one of your API keys, or deleted",
    "sessions": "not one of your sessions, or it has ended",
}


class Entries(RemoteListScreen["Entry"]):
    """Audit entries, newest first, in sentences. The cursor remains on its sentence, or on top."""

    KIND = ACTIVITY
    BESIDE_WIDTH = 150  # the sentences have names in them
    UNAVAILABLE_TEXT = ACTIVITY_NEEDS_A_PERSON
    _is_filtered = False
    _entries: Sequence["Entry"] = ()
    """The entries that `_folded` and `_sentences` were made of."""
    _sentences: Sequence["Entry"] = ()
    _folded: Mapping[str, Sequence[Record]] = MappingProxyType({})
    """The entries of each sentence, by the id of the newest one."""
    _newest: object = ""
    """Id of the newest entry when the cursor was last at the top."""

    def unavailable_reason(self) -> str:
        if reason := super().unavailable_reason():
            return reason
        role = self.workspace.tenant.role if self.workspace.tenant is not None else ""
        return as_sentence(ACTIVITY_NEEDS_A_MANAGER) if role and role not in MANAGERS else ""

    def empty(self) -> str:
        error = self.record_list.error
        refused = self.record_list.state == "failed" and error is not None and error.code == "PERMISSION_DENIED"
        return as_sentence(ACTIVITY_NEEDS_A_MANAGER) if refused and not self.unavailable_reason() else super().empty()

    def records(self) -> Sequence["Entry"]:
        """Return the newest entry of each sentence; each entry while there is a filter."""
        records = super().records()
        if self._is_filtered:
            return records
        if records is not self._entries:
            entries = {entry.id: entry for entry in records}
            groups = fold(entry.wire() for entry in records)
            self._entries, self._folded = records, {str(group[0]["id"]): group for group in groups}
            self._sentences = [entries[identifier] for identifier in self._folded]
        return self._sentences

    def set_filter(self, line: str) -> None:
        self._unfold(line)
        super().set_filter(line)

    @on(Heading.Filtered)
    def _filter_edited(self, event: Heading.Filtered) -> None:
        self._unfold(event.line)

    def _unfold(self, line: str) -> None:
        """Show each entry while there is a filter, which may match some entries of a sentence only."""
        if bool(line) != self._is_filtered:
            self._is_filtered = bool(line)
            self.show()

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in ACTIVITY.columns}

        def at(record: Record) -> str:
            """The outcome has no column of its own, to save space."""
            return f"{SIGNS.get(str(record.get('outcome')), ' ')} {age(record.get('at'), times.now())}"

        def words(record: Record) -> str:
            return sentence((record,) if self._is_filtered else self._folded.get(str(record.get("id")), (record,)))

        return (
            by_key["at"]._replace(title="  Age", cell=at),
            by_key["sentence"]._replace(cell=words, sort=lambda record: words(record).casefold()),
        )

    def tones(self) -> Tones:
        def outcome(record: Record) -> str | None:
            return TONES.get(str(record.get("outcome")), "dim")

        return {"at": outcome}

    def count_text(self, view: RecordView["Entry"]) -> str:
        """Return the number of entries, of which a line may have several."""
        if view.filter or not view.total:
            return super().count_text(view)
        total = sum(map(len, self._folded.values()))
        return f"{total:,} {self._noun(total)}"

    def freshness_text(self) -> str:
        text, key = super().freshness_text(), self.frame.keys.label(f"{self.NAME}.older")
        if self.record_list.cut and key and self.record_list.state == "fresh":
            text = f"{text}, {key} loads more"
        newer = f"{self._above:,} newer ↑" if self._above else ""
        return " · ".join(part for part in (newer, text) if part)

    @property
    def _above(self) -> int:
        """Number of entries added above the cursor since it was last at the top."""
        records = self.records()
        newest = next((index for index, one in enumerate(records) if one.id == self._newest), 0)
        if self.table.cursor <= newest:
            self._newest = records[0].id if records else ""
            return 0
        return newest if self.table.view.sort_column is None and not self.table.view.filter else 0

    def show(self) -> None:
        table = self.table
        # Follow new entries if the cursor is on the newest one and the details do not replace the list.
        watching = table.cursor == 0 and table.view.sort_column is None and not self.has_class("-detail")
        selecting = bool(self._pending_selection)
        super().show()
        if watching and not selecting:
            table.action_first()

    def detail(self, record: "Entry") -> tuple[str, Sequence[Section]]:
        title, sections = of_entry(record, times.now())
        others = () if self._is_filtered else self._folded.get(record.id, ())[1:]
        if not others:
            return title, sections
        lines = [
            ("", f"{sentence([other])}, {exact(other.get('at'), times.now()).partition(',')[0]}") for other in others
        ]
        return title, [sections[0], ("Together with", lines[:MOST]), *sections[1:]]

    def changed(self, update: Update) -> None:
        super().changed(update)
        if update in (Topic.TENANTS, Topic.IDENTITY) and self.display:  # the role may be known now
            self.show()

    @on(RecordTable.Highlighted)
    def _at_the_end(self) -> None:
        """Load older entries when the cursor is on the oldest one."""
        view, entries = self.table.view, self.record_list
        self._arranged()
        if entries.cut and entries.state == "fresh" and not view.filter and self.table.cursor == len(view) - 1:
            self.do_older()

    # Actions

    async def do_target(self) -> None:
        """Open the screen that lists the target, with the cursor on it. If it is not listed, show why.

        Without the target, the cursor would be on another record, and keys would act on that record.
        """
        record, tenant = self.record, self.tenant_id
        if record is None:
            return
        screen, key = screen_of_target(record), record_id_of_target(record)
        reason = await self._missing(record, screen, key)
        here = self.frame.current is self and self.tenant_id == tenant
        if not here or self.record is None or self.record.id != record.id:
            return  # the user moved on during the request
        if reason:
            self.frame.toast(f"{target_text(record.wire())}: {reason}", "warning")
        elif screen == "access":
            self.post_message(Navigate("access", Subject(tenant, key, record.target_name or key)))
        else:
            self.post_message(Navigate(screen, record=key))

    async def _missing(self, record: "Entry", screen: str, key: str) -> str:
        """Return why the screen does not list the target of an entry; empty if it does. Reload the list first."""
        workspace, identifier = self.workspace, record.target_id or ""
        if screen == "default-tags":
            return "" if identifier == self.tenant_id else "these tags belong to another tenant: use that tenant first"
        if screen == "tenants":
            return "" if workspace.find(identifier) is not None else "not one of your tenants"
        if screen == "account":
            mine = [organization.id for organization in workspace.organizations]
            is_mine = identifier in mine or (workspace.me is not None and identifier == workspace.me.id)
            return "" if is_mine else "only your own account can be shown"
        if not key:  # the quotas as a whole, or a request whose type is unknown
            return NO_LONGER_THERE if record.target_kind == "quota_request" else ""
        name, member = LISTS[screen]
        listed = await workspace.collections.reread(name, self.tenant_id)
        if listed.state != "fresh":
            return listed.error.message if listed.error is not None else "lookup failed; try again"
        records = map(json_of, listed.records)
        keys = (str(record.get(member)) if member else ":".join(kind_and_id(record)) for record in records)
        if key in keys:
            return ""
        return NOT_YOURS.get(screen, NO_LONGER_THERE)

    def do_older(self) -> None:
        if not self.record_list.cut:
            self.app.notify("No more entries", markup=False)
            return
        self.workspace.collections.further(self.LIST_NAME, self.tenant_id, self.subject.id if self.subject else "")
        self._say()


class Activity(Entries):
    NAME = "activity"
    TITLE = "Activity"
    PRIMARY = "activity.show"
    LIST_NAME = "activity"
    EMPTY_TEXT = "No activity yet."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("activity")]

    def do_organization(self) -> None:
        tenant = self.workspace.tenant
        if tenant is not None and tenant.organization_id:
            subject = Subject(self.tenant_id, tenant.organization_id, tenant.organization_name)
            self.post_message(Navigate("organization-activity", subject))


class ActivityOf(Entries, ChildListScreen["Entry"]):
    """Activity on one target. The subject is its kind and id, such as `policy:ID`."""

    NAME = "activity-of"
    TITLE = "Activity"
    PRIMARY = "activity-of.show"
    LIST_NAME = "activity of"
    EMPTY_TEXT = "No activity for this record."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("activity-of")]


class OrganizationActivity(Entries, ChildListScreen["Entry"]):
    """Activity in an organization outside of its tenants. The subject is the organization."""

    NAME = "organization-activity"
    TITLE = "Activity"
    PRIMARY = "organization-activity.show"
    LIST_NAME = "organization activity"
    EMPTY_TEXT = "No activity in the organization outside of its tenants."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("organization-activity")]

    def title_for(self, name: str) -> str:
        return f"{self.TITLE} of {name}, outside of its tenants"
