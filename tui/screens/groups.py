"""The groups place: keys and workload identities that are given policies together."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.binding import BindingType

from client.errors import FrostError
from client.records import Column, Record, time_text
from client.records_iam import GROUP
from tui import keymaps
from tui.effects import counted
from tui.history import Subject
from tui.messages import Lasting, Travel
from tui.policy_text import names
from tui.screens import changing
from tui.screens.collected import Collected
from tui.screens.picking import pick_policies
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones


class Groups(Collected):
    """Groups with their members and policies; opened, the members are a place of their own."""

    NAME = "groups"
    TITLE = "Groups"
    KIND = GROUP
    PRIMARY = "groups.open"
    ROWS = "groups"
    BESIDE = ("members", "policies of")
    NOTHING = "There is no group yet; n makes one."
    BINDINGS: ClassVar[list[BindingType]] = [*keymaps.bindings("groups")]

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in GROUP.columns}
        wanted = ("name", "memberCount", "policyCount", "description", "updatedAt")
        return tuple(by_key[key]._replace(wide=key == "updatedAt") for key in wanted)

    def tones(self) -> Tones:
        return {"description": lambda record: "dim", "updatedAt": lambda record: "dim"}

    def beside_of(self, name: str, record: Record) -> str:
        return f"group:{record['id']}" if name == "policies of" else str(record["id"])

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        members = self.beside("members", self.beside_of("members", record))
        policies = self.beside("policies of", self.beside_of("policies of", record))
        sections: list[Section] = [("", [("", str(record["description"]))])] if record.get("description") else []
        return str(record["name"]), [
            *sections,
            (
                _headed("Members", record.get("memberCount")),
                names(members.records, "memberName", members.known, "none"),
            ),
            (_headed("Policies", record.get("policyCount")), names(policies.records, "name", policies.known, "none")),
            ("", [("Created", time_text(record.get("createdAt"))), ("Updated", time_text(record.get("updatedAt")))]),
            ("Id", [("", str(record["id"]))]),
        ]

    # Actions

    async def do_open(self, argument: str = "") -> None:
        group = await self.named(argument)
        if group is not None:
            self.post_message(Travel("members", Subject(self.tenant_id, str(group["id"]), str(group["name"]))))

    async def do_create(self, argument: str = "") -> None:
        tenant_id = self.tenant_id

        async def save(values: Mapping[str, str]) -> None:
            made = (await self.workspace.ask(lambda client: client.groups.create(tenant_id, **values))).wire()
            self.set_filter("")
            self.workspace.collections.put("groups", tenant_id, made)
            self.post_message(Lasting("creating a group"))
            self.select(str(made["id"]))
            self.read(quiet=True)

        await changing.fill_in(self, "New group", {"name": argument}, save, button="Create")

    async def do_edit(self) -> None:
        group, tenant_id = self.record, self.tenant_id
        if group is None:
            return

        async def save(values: Mapping[str, str]) -> None:
            assert group is not None
            changed = {name: value for name, value in values.items() if value != group[name]}
            if changed:
                record, version = str(group["id"]), int(group["version"])
                made = await self.workspace.ask(
                    lambda client: client.groups.update(tenant_id, record, version=version, **changed)
                )
                self.workspace.collections.put("groups", tenant_id, made.wire())
                self.post_message(Lasting("editing a group"))

        async def again() -> Record:
            nonlocal group
            assert group is not None
            record = str(group["id"])
            group = (await self.workspace.ask(lambda client: client.groups.get(tenant_id, record))).wire()
            self.workspace.collections.put("groups", tenant_id, group)
            return group

        await changing.fill_in(self, "Edit group", changing.texts(group), save, again=again)

    async def do_add(self) -> None:
        if self.record is not None:
            await changing.add_members(self, self.record)

    async def do_attach(self) -> None:
        group = self.record
        if group is None:
            return
        title = f"Attach a policy to {group['name']}"
        policies = await pick_policies(self, title, str(group["id"]), attached=False)
        for policy in policies or ():
            await changing.attach(self, policy, [as_attachee(group)])

    async def do_detach(self) -> None:
        group = self.record
        if group is None:
            return
        title = f"Detach a policy from {group['name']}"
        chosen = await pick_policies(self, title, str(group["id"]), attached=True)
        for policy in chosen or ():
            await changing.detach(self, policy, [as_attachee(group)])

    async def do_delete(self) -> None:
        group, tenant_id = self.record, self.tenant_id
        if group is None:
            return
        facts = [("Group", f"{group['name']}  {group['id']}"), ("Goes with it", _goes(group))]
        change = {"change": "deleteGroup", "groupId": str(group["id"])}
        if not await changing.agreed(self, "Delete group?", facts, [change], yes="Delete", destructive=True):
            return
        identifier, version = str(group["id"]), int(group["version"])
        try:
            await self.workspace.ask(lambda client: client.groups.delete(tenant_id, identifier, version))
        except FrostError as error:
            if error.code != "STALE_VERSION":
                raise
            self.tell(error, f"{changing.stale_words(error)} Nothing was deleted. ")
            self.read()
            return
        self.workspace.collections.remove("groups", tenant_id, identifier)
        self.post_message(Lasting("deleting a group"))
        self.app.notify(f"Deleted group {group['name']}", markup=False)
        self.workspace.refresh()


def as_attachee(group: Record) -> Record:
    """A group as what a policy is attached to."""
    return {"type": "group", "id": group["id"], "name": group["name"]}


def _goes(group: Record) -> str:
    members = counted(int(group.get("memberCount", 0)), "membership", "memberships")
    return f"{members}, {counted(int(group.get('policyCount', 0)), 'attachment', 'attachments')}; for good"


def _headed(title: str, count: object) -> str:
    return f"{title}  {count:,}" if isinstance(count, int) else title
