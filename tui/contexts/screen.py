"""The contexts screen: use, create, edit and delete contexts, sign in and out."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import ClassVar

from textual.binding import BindingType

from client.tables.columns import CONTEXT, Column, Record
from tui.contexts import sign_in
from tui.shell import keymap
from tui.shell.list_screen import ListScreen
from tui.shell.navigator import frame_of
from tui.shell.routes import UndoCleared
from tui.state import contexts
from tui.state.context_state import credential_words
from tui.state.contexts import ContextSummary
from tui.state.refresh import Topic, Update
from tui.widgets.detail import Section
from tui.widgets.dialog import Confirm
from tui.widgets.form import Field, Form, show_until_saved
from tui.widgets.record_table import Tones


class Contexts(ListScreen[ContextSummary]):
    """Contexts of the config file. Listing and editing them sends no requests to a platform."""

    NAME = "contexts"
    TITLE = "Contexts"
    KIND = CONTEXT
    PRIMARY = "contexts.use"
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("contexts")]

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in CONTEXT.columns}
        name = by_key["name"]
        return (
            name._replace(
                title="  Name",
                cell=lambda record: ("► " if record["inUse"] else "  ") + str(record["name"]),
                sort=lambda record: str(record["name"]).casefold(),
            ),
            by_key["api_endpoint"]._replace(cell=lambda record: self._endpoint(record["api_endpoint"])),
            by_key["credential"]._replace(cell=_credential_cell),
            by_key["region"],
            by_key["read_only"],
        )

    def tones(self) -> Tones:
        return {
            "name": lambda record: "mark" if record["inUse"] else None,
            "credential": lambda record: "good" if record["credential"] != "none" else "dim",
            "read_only": lambda record: "warning" if record["read_only"] else "dim",
        }

    def records(self) -> Sequence[ContextSummary]:
        return contexts.summaries(self.workspace.connection)

    def changed(self, update: Update) -> None:
        if update in (Topic.CONTEXT, Topic.CONTEXTS, Topic.IDENTITY):
            self.show()

    def detail(self, record: ContextSummary) -> tuple[str, Sequence[Section]]:
        facts = [
            ("Endpoint", self._endpoint(record.api_endpoint)),
            ("Region", record.region or "—"),
            ("Read-only", "yes" if record.read_only else "no"),
            ("Credential", _credential_text(record.credential, record.is_local, record.session_ended)),
        ]
        if record.in_use and self.workspace.who:
            facts.append(("Signed in as", self.workspace.who))
        facts.append(("Tenant", record.tenant or "the default"))
        sections: list[Section] = [("", facts)]
        if record.in_use:
            sections.append(("", [("", "This is the current context.")]))
        return record.name, sections

    def _endpoint(self, endpoint: str) -> str:
        return contexts.homely(endpoint, self.workspace.connection.environ)

    @property
    def _selected_name(self) -> str:
        return self.record.name if self.record is not None else ""

    # Actions

    async def do_use(self, argument: str = "") -> None:
        name = argument or self._selected_name
        if name and name != self.workspace.context:
            await self.workspace.move_to(name)

    async def do_edit(self) -> None:
        record = self.record
        if record is None:
            return
        name = record.name

        def build(values: Mapping[str, str], problem: str) -> Form:
            fields = [
                Field(
                    "endpoint",
                    "Endpoint",
                    values["endpoint"],
                    f"empty: {self._default()}",
                    check=lambda text: contexts.endpoint_problem(text) if text.strip() else None,
                ),
                Field("region", "Region", values["region"], "empty: none"),
            ]
            return Form(f"Edit context {name}", fields, problem=problem)

        async def save(values: Mapping[str, str]) -> None:
            connection = self.workspace.connection
            notices = await asyncio.to_thread(contexts.change, connection, name, values["endpoint"], values["region"])
            await self._changed()
            self.app.notify(f"Saved context {name}", markup=False)
            for notice in notices:
                self.app.notify(notice, severity="warning", markup=False)

        initial = {"endpoint": record.api_endpoint, "region": record.region}
        await show_until_saved(self.app.push_screen_wait, build, initial, save)

    def _default(self) -> str:
        return self._endpoint(contexts.default_endpoint(self.workspace.connection))

    async def do_create(self) -> None:
        def build(values: Mapping[str, str], problem: str) -> Form:
            fields = [
                Field("name", "Name", values["name"], "work", check=_require_name),
                Field(
                    "endpoint",
                    "Endpoint",
                    values["endpoint"],
                    "https://api.example.com/api",
                    check=_check_endpoint,
                ),
                Field("region", "Region", values["region"], "none"),
            ]
            return Form("Create a context", fields, save="Create", note="Sign in after saving", problem=problem)

        async def save(values: Mapping[str, str]) -> None:
            name = values["name"]
            await asyncio.to_thread(contexts.add, self.workspace.connection, name, values["endpoint"], values["region"])
            await self._changed()
            self.select_new(name)
            label = frame_of(self).keys.label
            steps = (("contexts.sign_in", "sign in"), ("contexts.use", "use"))
            hints = ", ".join(f"{label(action)} to {verb}" for action, verb in steps if label(action))
            self.app.notify(f"Saved context {name}" + (f" · {hints}" if hints else ""), markup=False)

        await show_until_saved(self.app.push_screen_wait, build, {"name": "", "endpoint": "", "region": ""}, save)

    async def do_delete(self) -> None:
        record = self.record
        if record is None:
            return
        name = record.name
        kinds = self.workspace.connection.config.contexts[name].credentials.kinds
        labels = [credential_words(kind) for kind in kinds]
        facts = [
            ("Context", name),
            ("Endpoint", self._endpoint(record.api_endpoint)),
            ("Deletes", ", ".join(["endpoint", "region", "selected tenant", *(f"stored {kind}" for kind in labels)])),
            ("Effect", "permanently removed from this machine"),
        ]
        if "session" in labels:
            key = frame_of(self).keys.label("contexts.sign_out")
            facts.append(("Session", "stays valid until it expires" + (f"; {key} to sign out first" if key else "")))
        if not await self.app.push_screen_wait(Confirm("Delete this context?", facts, yes="Delete")):
            return
        for notice in await asyncio.to_thread(contexts.remove, self.workspace.connection, name):
            self.app.notify(notice, severity="warning", markup=False)
        self.workspace.state.contexts.pop(name, None)
        await self._changed()
        self.app.notify(f"Deleted context {name}", markup=False)

    async def do_sign_in(self, argument: str = "") -> None:
        name = argument or self._selected_name
        if await sign_in.sign_in(self.app, self.workspace, name):
            self.post_message(UndoCleared("changing contexts"))

    async def do_sign_out(self, argument: str = "") -> None:
        name = argument or self._selected_name
        record = next((record for record in self.records() if record.name == name), None)
        facts = [
            ("Context", name),
            ("Endpoint", self._endpoint(record.api_endpoint) if record is not None else "no such context"),
            ("Effect", "the session ends on the platform and is removed here"),
        ]
        if await self.app.push_screen_wait(Confirm("Sign out?", facts, yes="Sign out")):
            is_current = name == self.workspace.context
            with self.workspace.ending_session() if is_current else nullcontext():
                await sign_in.sign_out(self.app, self.workspace, name)
            self.post_message(UndoCleared("changing contexts"))

    async def _changed(self) -> None:
        self.post_message(UndoCleared("changing contexts"))
        await self.workspace.reload_config()


def _require_name(name: str) -> str | None:
    return None if name.strip() else "a name is required"


def _check_endpoint(endpoint: str) -> str | None:
    if not endpoint.strip():
        return "Enter an endpoint that starts with https:// or unix:"
    return contexts.endpoint_problem(endpoint)


def _credential_text(kind: str, local: bool, session_ended: bool) -> str:
    return "session ended" if session_ended else credential_words(kind, local)


def _credential_cell(record: Record) -> str:
    return _credential_text(record["credential"], record["local"], record["ended"])
