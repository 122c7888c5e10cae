"""The versions of a policy: difference to the newest version in text and effect, and rollback."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from client.api import analysis, policies
from client.errors import FrostError
from client.tables.columns import Column, Record, time_text
from client.tables.iam import VERSION
from tui.iam import changes
from tui.shell import keymap
from tui.shell.remote_list_screen import ChildListScreen
from tui.shell.routes import UndoCleared
from tui.widgets.detail import Section
from tui.widgets.policy_text import document_text, rules
from tui.widgets.record_table import Tones


class Versions(ChildListScreen):
    """Versions of a policy, newest first. The newest is in force."""

    NAME = "versions"
    TITLE = "Versions"
    KIND = VERSION
    PRIMARY = "versions.difference"
    LIST_NAME = "versions"
    EMPTY_TEXT = "The platform knows no version of it."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("versions")]

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in VERSION.columns}
        version = by_key["version"]._replace(title="  Version", cell=_numbered, align="left")
        columns = [by_key[key] for key in ("changedAt", "changedByName", "change")]
        return (version, *columns, *(by_key[key]._replace(wide=True) for key in ("changed", "rules")))

    def tones(self) -> Tones:
        return {"changedAt": lambda record: "dim", "version": lambda record: "mark" if record.get("newest") else None}

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        suffix = " · in force" if record.get("newest") else ""
        facts = [
            ("Changed", time_text(record.get("changedAt"))),
            ("By", str(record.get("changedByName") or record.get("changedBy") or "—")),
            ("What", _change_text(record)),
        ]
        if record.get("rolledBackTo") is not None:
            facts.append(("Rolled back to", str(record["rolledBackTo"])))
        texts = [("Name", str(record.get("name", ""))), ("Description", str(record.get("description") or "—"))]
        return f"Version {record['version']}{suffix}", [("", facts), ("", texts), *rules(record.get("document"))]

    # Actions

    @property
    def newest(self) -> Record | None:
        """The version in force."""
        return next((row for row in self.records() if row.get("newest")), None)

    async def do_difference(self, argument: str = "") -> None:
        from tui.iam.difference import Difference

        selected = self._version(argument)
        old, new = compared_versions(self.records(), selected)
        if selected is not None and old is None:
            self.frame.toast("There is only this version", "information")
        if old is None or new is None:
            return
        policy, number, text = str(old["policyId"]), int(old["version"]), document_text(new["document"])
        compare = {"policyId": policy, "version": number}
        tenant_id = self.tenant_id
        # Without a current time, constraints on the time make an operation conditional, as others do.
        coverage = await self.workspace.ask(
            analysis.coverage(tenant_id, text, facts={"currentTime": None}, compare=compare)
        )
        title = f"Version {number} to {new['version']}"
        self.app.push_screen(Difference(title, document_text(old["document"]), text, coverage["targets"][0]))

    async def do_roll_back(self) -> None:
        old, new, tenant_id = self.record, self.newest, self.tenant_id
        if old is None or new is None:
            return
        policy, number = str(old["policyId"]), int(old["version"])
        change = {"change": "updatePolicy", "policyId": policy, "documentText": document_text(old["document"])}
        facts = [
            ("Policy", self.subject.name if self.subject else policy),
            (
                "To",
                f"the document of version {number}, as version {int(new['version']) + 1}; name and description stay",
            ),
        ]
        if not await changes.confirm_effect(self, f"Roll back to version {number}?", facts, [change], yes="Roll back"):
            return
        version = int(new["version"])
        try:
            await self.workspace.ask(policies.roll_back(tenant_id, policy, number, version))
        except FrostError as error:
            self.show_error(error, f"{changes.stale_text(error)} " if error.code == "STALE_VERSION" else "")
        else:
            self.post_message(UndoCleared("rolling back a version"))
            self.app.notify(f"Rolled back to version {number}", markup=False)
        self.workspace.refresh()

    def _version(self, argument: str) -> Record | None:
        return next((row for row in self.records() if str(row["version"]) == argument), self.record)


def compared_versions(versions: Sequence[Record], selected: Record | None) -> tuple[Record | None, Record | None]:
    """Return the selected version and the newest or, if the newest is selected, the one before it and the newest."""
    newest = next((row for row in versions if row.get("newest")), None)
    if selected is None or newest is None or selected["version"] != newest["version"]:
        return selected, newest
    return next((row for row in versions if int(row["version"]) == int(newest["version"]) - 1), None), newest


def _numbered(record: Record) -> str:
    """Return the version number; `►` marks the version in force."""
    return f"{'►' if record.get('newest') else ' '} {record['version']}"


def _change_text(record: Record) -> str:
    changed = ", ".join(map(str, record.get("changed") or ()))
    return "made" if record.get("change") == "create" else changed or str(record.get("change", ""))
