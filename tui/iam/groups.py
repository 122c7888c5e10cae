"""The screens of groups and of a group's members: API keys and workload identities that share policies."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from client.api import groups as group_calls
from client.tables.columns import Column, Record, time_text
from client.tables.iam import GROUP, MEMBER
from client.texts.effects import counted
from tui.shell import keymap
from tui.shell.remote_list_screen import ChildListScreen, RemoteListScreen
from tui.shell.routes import Navigate, Subject, UndoCleared
from tui.widgets.detail import Section
from tui.widgets.policy_text import kind_text, principal_names, record_names, type_text
from tui.widgets.record_table import Tones

if TYPE_CHECKING:
    from client.models.iam import Group, Member, Policy
    from tui.state.list_store import RecordList


class Groups(RemoteListScreen["Group"]):
    """Groups, with members and policies in the details. Enter opens the members."""

    NAME = "groups"
    TITLE = "Groups"
    KIND = GROUP
    PRIMARY = "groups.open"
    LIST_NAME = "groups"
    RELATED = ("members", "policies of")
    EMPTY_TEXT = "No groups yet."
    EMPTY_ACTION = "groups.create"
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("groups")]

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in GROUP.columns}
        keys = ("name", "memberCount", "policyCount", "description", "updatedAt")
        return tuple(by_key[key]._replace(wide=key == "updatedAt") for key in keys)

    def tones(self) -> Tones:
        return {"description": lambda record: "dim", "updatedAt": lambda record: "dim"}

    def related_key(self, name: str, record: "Group") -> str:
        return f"group:{record.id}" if name == "policies of" else record.id

    def detail(self, record: "Group") -> tuple[str, Sequence[Section]]:
        members: RecordList[Member] = self.related("members", self.related_key("members", record))
        policies: RecordList[Policy] = self.related("policies of", self.related_key("policies of", record))
        sections: list[Section] = [("", [("", record.description)])] if record.description else []
        return record.name, [
            *sections,
            (
                f"Members  {record.member_count:,}",
                principal_names([member.principal for member in members.records], members.known, "none"),
            ),
            (
                f"Policies  {record.policy_count:,}",
                record_names(policies.records, lambda policy: policy.name, policies.known, "none"),
            ),
            ("", [("Created", time_text(record.created_at)), ("Updated", time_text(record.updated_at))]),
            ("ID", [("", record.id)]),
        ]

    # Actions

    async def do_open(self, argument: str = "") -> None:
        group = await self.named(argument)
        if group is not None:
            self.post_message(Navigate("members", Subject(self.tenant_id, group.id, group.name)))

    async def do_create(self, argument: str = "") -> None:
        from tui.iam import changes

        tenant_id = self.tenant_id

        async def save(values: Mapping[str, str]) -> None:
            group = await self.workspace.ask(group_calls.create(tenant_id, **values))
            self.workspace.collections.put("groups", tenant_id, group)
            self.post_message(UndoCleared("creating a group"))
            self.select_new(group.id)
            self.read(quiet=True)
            self.frame.toast(f"Created group {group.name}")

        await changes.show_form(self, "New group", {"name": argument}, save, creates="group")

    async def do_edit(self) -> None:
        from tui.iam import changes

        group, tenant_id, ask = self.record, self.tenant_id, self.workspace.ask
        if group is not None:
            await changes.edit_texts(
                self,
                "Rename or describe group",
                group,
                update=lambda identifier, version, changed: ask(
                    group_calls.update(tenant_id, identifier, version=version, **changed)
                ),
                get=lambda identifier: ask(group_calls.get(tenant_id, identifier)),
                noun="group",
            )

    async def do_add(self) -> None:
        from tui.iam import changes

        if self.record is not None:
            await changes.add_members(self, self.record)

    async def do_attach(self) -> None:
        from tui.iam import changes
        from tui.iam.pickers import pick_policies

        group, tenant_id = self.record, self.tenant_id
        if group is None:
            return
        title = f"Attach a policy to {group.name}"
        policies = await pick_policies(self, title, group.id, attached=False)
        if policies:
            await changes.attach(self, tenant_id, policies[0], [group.attachee])

    async def do_detach(self) -> None:
        from tui.iam import changes
        from tui.iam.pickers import pick_policies

        group, tenant_id = self.record, self.tenant_id
        if group is None:
            return
        title = f"Detach a policy from {group.name}"
        policies = await pick_policies(self, title, group.id, attached=True)
        if policies:
            await changes.detach(self, tenant_id, policies[0], [group.attachee])

    async def do_delete(self) -> None:
        from tui.iam import changes

        group, tenant_id, ask = self.record, self.tenant_id, self.workspace.ask
        if group is not None:
            await changes.delete(
                self,
                group,
                "group",
                [("Also deletes", _deleted_with(group))],
                {"change": "deleteGroup", "groupId": group.id},
                lambda identifier, version: ask(group_calls.delete(tenant_id, identifier, version)),
            )


def _deleted_with(group: "Group") -> str:
    members = counted(group.member_count, "membership", "memberships")
    return f"{members}, {counted(group.policy_count, 'attachment', 'attachments')}, permanently"


class Members(ChildListScreen["Member"]):
    """Members of a group, with their states: a revoked key remains a member, without effect."""

    NAME = "members"
    TITLE = "Members"
    KIND = MEMBER
    PRIMARY = "members.access"
    LIST_NAME = "members"
    RELATED = ("groups of", "policies of")
    SHOWS_STATE = True
    EMPTY_TEXT = "No members yet."
    EMPTY_ACTION = "members.add"
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("members")]

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in MEMBER.columns}
        status = Column("status", "Status", cell=self._status)
        kind, identifier = by_key["memberType"]._replace(cell=kind_text), by_key["memberId"]._replace(wide=True)
        return (by_key["memberName"], kind, status, by_key["addedAt"], identifier)

    def tones(self) -> Tones:
        return {
            "memberType": lambda record: "dim",
            "status": lambda record: "good" if self._status(record) == "active" else "warning",
            "addedAt": lambda record: "dim",
        }

    def _status(self, record: Record) -> str:
        return self.state_of(self.KIND.id_of(record))

    def detail(self, record: "Member") -> tuple[str, Sequence[Section]]:
        groups: RecordList[Group] = self.related("groups of", record.key)
        policies: RecordList[Policy] = self.related("policies of", record.key)
        facts = [("Type", type_text(record.member_type)), ("Status", self.state_of(record.key) or "—")]
        return record.member_name or record.member_id, [
            ("", [*facts, ("Added", time_text(record.added_at))]),
            ("In groups", record_names(groups.records, lambda group: group.name, groups.known, "none")),
            (
                "Directly attached policies",
                record_names(policies.records, lambda policy: policy.name, policies.known, "none"),
            ),
            ("ID", [("", record.member_id)]),
        ]

    # Actions

    @property
    def group(self) -> "Group | Subject":
        """The open group; only id and name if the list of groups is not loaded."""
        assert self.subject is not None
        groups: RecordList[Group] = self.workspace.collections.get("groups", self.tenant_id)
        return next((group for group in groups.records if group.id == self.subject.id), self.subject)

    def do_access(self, argument: str = "") -> None:
        member = next((row for row in self.records() if row.key == argument), self.record)
        if member is not None:
            name = member.member_name or member.member_id
            self.post_message(Navigate("access", Subject(self.tenant_id, member.key, name)))

    async def do_add(self) -> None:
        from tui.iam import changes

        await changes.add_members(self, self.group)

    async def do_remove(self) -> None:
        from tui.iam import changes

        members = [member.principal for member in self.table.selected_records]
        if members:
            await changes.remove_members(self, self.group, members)
