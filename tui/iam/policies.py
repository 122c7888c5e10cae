"""The screens of policies, of a policy's attachments, and of its versions, with rollback."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from client.api import analysis, policies
from client.api import policies as policy_calls
from client.errors import FrostError
from client.tables.columns import Column, Record, time_text
from client.tables.iam import ATTACHMENT, POLICY, VERSION
from client.texts.effects import counted
from tui.shell import keymap
from tui.shell.remote_list_screen import ChildListScreen, RemoteListScreen
from tui.shell.routes import Navigate, Subject, UndoCleared
from tui.state.refresh import ListChanged, Update
from tui.widgets.detail import Section
from tui.widgets.policy_text import (
    author_name,
    author_text,
    document_text,
    kind_text,
    principal_names,
    record_names,
    rules,
    type_text,
)
from tui.widgets.record_table import Tones

if TYPE_CHECKING:
    from client.models.iam import Attachment, ListedVersion, Member, Policy
    from tui.iam.editor.screen import PolicyEditor
    from tui.state.list_store import RecordList


class Policies(RemoteListScreen["Policy"]):
    """Policies of a tenant. Enter opens the editor, which evaluates a document before saving."""

    NAME = "policies"
    TITLE = "Policies"
    KIND = POLICY
    PRIMARY = "policies.edit"
    LIST_NAME = "policies"
    RELATED = ("attachments",)
    EMPTY_TEXT = "No policies yet."
    EMPTY_ACTION = "policies.create"
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("policies")]
    folded: bool | None = None
    """Whether the details fold the rules; None until the user chooses."""
    _editor: "PolicyEditor | None" = None

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in POLICY.columns}
        author = by_key["author"]._replace(cell=author_text, sort=lambda record: author_text(record).casefold())
        wide = [by_key[key]._replace(wide=True) for key in ("rules", "updatedAt")]
        attached = by_key["attachmentCount"]._replace(title="Attached")
        return (by_key["name"], author, by_key["version"], attached, *wide)

    def tones(self) -> Tones:
        return {
            "attachmentCount": lambda record: None if record.get("attachmentCount") else "dim",
            "author": lambda record: "warning" if record.get("orphaned") else None,
            "updatedAt": lambda record: "dim",
        }

    def detail(self, record: "Policy") -> tuple[str, Sequence[Section]]:
        attached: RecordList[Attachment] = self.related("attachments", record.id)
        facts = [("Version", str(record.version)), ("Author", author_name(record.wire()))]
        if record.orphaned:
            facts.append(("Effect", "none: the author has no permissions here any more"))
        facts.append(("Updated", time_text(record.updated_at)))
        sections: list[Section] = [("", [("", record.description)])] if record.description else []
        return record.name, [
            *sections,
            ("", facts),
            *rules(record.document, self.folded),
            ("Attached to", _attachees(attached, "none, so the policy has no effect")),
            ("ID", [("", record.id)]),
        ]

    def changed(self, update: Update) -> None:
        super().changed(update)
        editor = self._editor
        if editor is not None and editor.is_mounted and update == ListChanged(self.LIST_NAME):
            editor.show_newest(self.workspace.collections.get(self.LIST_NAME, editor.tenant_id).records)

    # Actions

    async def do_edit(self, argument: str = "") -> None:
        policy = await self.named(argument)
        if policy is not None:
            await self._open_editor(policy)

    async def do_create(self, argument: str = "") -> None:
        await self._open_editor(None, argument)

    async def _open_editor(self, policy: "Policy | None", name: str = "") -> None:
        """Open the editor, then select the policy that it saved, if any."""
        from tui.iam.editor.screen import PolicyEditor

        tenant_id = self.tenant_id
        collections = self.workspace.collections
        if collections.get("catalogue", tenant_id).state == "unread":
            collections.read("catalogue", tenant_id)
        catalogue = collections.get("catalogue", tenant_id).records
        editor = PolicyEditor(self.workspace, self.frame.keys, policy=policy, name=name, catalogue=catalogue)
        editor.newest_version = policy.version if policy is not None else 0
        self._editor = editor
        saved = await self.app.push_screen_wait(editor)
        self._editor = None
        if saved is not None:
            self.post_message(UndoCleared("saving a policy"))
            self.workspace.collections.put("policies", tenant_id, saved)
            self.select(saved.id)
        self.workspace.refresh()

    def do_fold(self) -> None:
        if self.record is not None:
            folded = rules(self.record.document, self.folded)[0][0].endswith("folded")
            self.folded = not folded
            self.show_detail()

    async def do_attachments(self, argument: str = "") -> None:
        await self._inside("attachments", argument)

    async def do_versions(self, argument: str = "") -> None:
        await self._inside("versions", argument)

    async def _inside(self, screen: str, argument: str) -> None:
        policy = await self.named(argument)
        if policy is not None:
            self.post_message(Navigate(screen, Subject(self.tenant_id, policy.id, policy.name)))

    async def do_attach(self) -> None:
        from tui.iam import changes
        from tui.iam.pickers import pick_attachees

        policy, tenant_id = self.record, self.tenant_id
        if policy is not None:
            attachees = await pick_attachees(self, policy)
            if attachees:
                await changes.attach(self, tenant_id, policy, attachees)

    async def do_rename(self) -> None:
        from tui.iam import changes

        policy, tenant_id, ask = self.record, self.tenant_id, self.workspace.ask
        if policy is not None:
            await changes.edit_texts(
                self,
                "Rename or describe policy",
                policy,
                update=lambda identifier, version, changed: ask(
                    policy_calls.update(tenant_id, identifier, version=version, **changed)
                ),
                get=lambda identifier: ask(policy_calls.get(tenant_id, identifier)),
                noun="policy",
            )

    async def do_delete(self) -> None:
        from tui.iam import changes

        policy, tenant_id, ask = self.record, self.tenant_id, self.workspace.ask
        if policy is None:
            return
        attachments = counted(policy.attachment_count, "attachment", "attachments")
        await changes.delete(
            self,
            policy,
            "policy",
            [("Also deletes", f"{attachments} and all versions, permanently")],
            {"change": "deletePolicy", "policyId": policy.id},
            lambda identifier, version: ask(policy_calls.delete(tenant_id, identifier, version)),
        )


def _attachees(attached: "RecordList[Attachment]", nothing: str) -> list[tuple[str, str]]:
    return principal_names([attachment.attachee for attachment in attached.records], attached.known, nothing)


class Attachments(ChildListScreen["Attachment"]):
    """Groups, keys and identities that a policy is attached to."""

    NAME = "attachments"
    TITLE = "Attachments"
    KIND = ATTACHMENT
    PRIMARY = "attachments.open"
    LIST_NAME = "attachments"
    RELATED = ("policies of", "members")
    EMPTY_TEXT = "Not attached: the policy has no effect."
    EMPTY_ACTION = "attachments.attach"
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("attachments")]

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in ATTACHMENT.columns}
        kind, identifier = by_key["attacheeType"]._replace(cell=kind_text), by_key["attacheeId"]._replace(wide=True)
        return (by_key["attacheeName"], kind, by_key["attachedAt"], identifier)

    def tones(self) -> Tones:
        return {"attacheeType": lambda record: "dim", "attachedAt": lambda record: "dim"}

    def related_key(self, name: str, record: "Attachment") -> str:
        return record.attachee_id if name == "members" else record.key

    def detail(self, record: "Attachment") -> tuple[str, Sequence[Section]]:
        policies: RecordList[Policy] = self.related("policies of", record.key)
        kind = type_text(record.attachee_type)
        sections: list[Section] = [("", [("Type", kind), ("Attached", time_text(record.attached_at))])]
        if record.attachee_type == "group":
            members: RecordList[Member] = self.related("members", record.attachee_id)
            listed = principal_names([member.principal for member in members.records], members.known, "none")
            sections.append(("Members", listed))
        listed = record_names(policies.records, lambda policy: policy.name, policies.known, "none")
        sections.append(("All attached policies", listed))
        return record.attachee_name or record.attachee_id, [*sections, ("ID", [("", record.attachee_id)])]

    # Actions

    @property
    def policy(self) -> Subject:
        """The open policy."""
        assert self.subject is not None
        return self.subject

    def do_open(self, argument: str = "") -> None:
        record = next((row for row in self.records() if row.key == argument), self.record)
        if record is None:
            return
        name = record.attachee_name or record.attachee_id
        if record.attachee_type == "group":
            self.post_message(Navigate("members", Subject(self.tenant_id, record.attachee_id, name)))
        else:
            self.post_message(Navigate("access", Subject(self.tenant_id, record.key, name)))

    async def do_attach(self) -> None:
        from tui.iam import changes
        from tui.iam.pickers import pick_attachees

        policy, tenant_id = self.policy, self.tenant_id
        attachees = await pick_attachees(self, policy)
        if attachees:
            await changes.attach(self, tenant_id, policy, attachees)

    async def do_detach(self) -> None:
        from tui.iam import changes

        attachees = [attachment.attachee for attachment in self.table.selected_records]
        if attachees:
            await changes.detach(self, self.tenant_id, self.policy, attachees)


class Versions(ChildListScreen["ListedVersion"]):
    """Versions of a policy, newest first. The newest is in force."""

    NAME = "versions"
    TITLE = "Versions"
    KIND = VERSION
    PRIMARY = "versions.difference"
    LIST_NAME = "versions"
    EMPTY_TEXT = "No versions."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("versions")]

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in VERSION.columns}
        version = by_key["version"]._replace(title="  Version", cell=_version_text, align="left")
        columns = [by_key[key] for key in ("changedAt", "changedByName", "change")]
        return (version, *columns, *(by_key[key]._replace(wide=True) for key in ("changed", "rules")))

    def tones(self) -> Tones:
        return {"changedAt": lambda record: "dim", "version": lambda record: "mark" if record.get("newest") else None}

    def detail(self, record: "ListedVersion") -> tuple[str, Sequence[Section]]:
        suffix = " · current" if record.newest else ""
        facts = [
            ("When", time_text(record.changed_at)),
            ("By", record.changed_by_name or record.changed_by or "—"),
            ("Change", str(record.change) if record.rolled_back_to is None else f"rollback to {record.rolled_back_to}"),
            ("Changed", ", ".join(record.changed) or "—"),
        ]
        texts = [("Name", record.name), ("Description", record.description or "—")]
        return f"Version {record.version}{suffix}", [("", facts), ("", texts), *rules(record.document)]

    # Actions

    @property
    def newest(self) -> "ListedVersion | None":
        """The version in force."""
        return next((row for row in self.records() if row.newest), None)

    async def do_difference(self, argument: str = "") -> None:
        from tui.iam.effects import Difference

        selected = self._version(argument)
        old, new = compared_versions(self.records(), selected)
        if selected is not None and old is None:
            self.frame.toast("This is the only version", "information")
        if old is None or new is None:
            return
        compare = {"policyId": old.policy_id, "version": old.version}
        tenant_id = self.tenant_id
        # Without a current time, constraints on the time make an operation conditional, as others do.
        coverage = await self.workspace.ask(
            analysis.coverage(
                tenant_id, policies.compact_text(new.document), facts={"currentTime": None}, compare=compare
            )
        )
        title = f"Version {old.version} to {new.version}"
        older, newer = document_text(old.document), document_text(new.document)
        self.app.push_screen(Difference(title, older, newer, coverage.targets[0]))

    async def do_roll_back(self) -> None:
        from tui.iam import changes

        old, new, tenant_id = self.record, self.newest, self.tenant_id
        if old is None or new is None:
            return
        policy, number = old.policy_id, old.version
        change = {"change": "updatePolicy", "policyId": policy, "documentText": policies.compact_text(old.document)}
        facts = [
            ("Policy", self.subject.name if self.subject else policy),
            (
                "To",
                f"the document of version {number}, as version {new.version + 1}; keeps name and description",
            ),
        ]
        question = f"Roll back to version {number}?"
        if not await changes.confirm_effect(self, tenant_id, question, facts, [change], yes="Roll back"):
            return
        try:
            await self.workspace.ask(policies.roll_back(tenant_id, policy, number, new.version))
        except FrostError as error:
            self.show_error(error, f"{changes.stale_text(error)} " if error.code == "STALE_VERSION" else "")
        else:
            self.post_message(UndoCleared("rolling back a version"))
            self.app.notify(f"Rolled back to version {number}", markup=False)
        self.workspace.refresh()

    def _version(self, argument: str) -> "ListedVersion | None":
        return next((row for row in self.records() if str(row.version) == argument), self.record)


def compared_versions(
    versions: "Sequence[ListedVersion]", selected: "ListedVersion | None"
) -> "tuple[ListedVersion | None, ListedVersion | None]":
    """Return the selected version and the newest or, if the newest is selected, the one before it and the newest."""
    newest = next((row for row in versions if row.newest), None)
    if selected is None or newest is None or selected.version != newest.version:
        return selected, newest
    return next((row for row in versions if row.version == newest.version - 1), None), newest


def _version_text(record: Record) -> str:
    """Return the version number; `►` marks the version in force."""
    return f"{'►' if record.get('newest') else ' '} {record['version']}"
