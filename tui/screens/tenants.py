"""The tenants place: every tenant the caller may use; use, create with live provisioning, rename."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from client.errors import FrostError
from client.records import TENANT, Column, Record, time_text
from client.text import cut, safe
from client.waiting import FINAL
from tui import keymaps, tenant_table
from tui.messages import Lasting, Travel, Undoable
from tui.screens.place import Place
from tui.tenant_table import share, status_text
from tui.widgets.detail import Detail, Section
from tui.widgets.record_table import Tones
from tui.widgets.steps import Steps

LONGEST_NAME = 128


def check_name(name: str) -> str | None:
    """What is wrong with a display name, in the words of the service's rule; None when it may be sent."""
    if not name.strip():
        return "a name is needed"
    if len(name.strip()) > LONGEST_NAME:
        return f"a name has at most {LONGEST_NAME} characters"
    return None


class Tenants(Place):
    """The first place: where one works is chosen here."""

    NAME = "tenants"
    TITLE = "Tenants"
    KIND = TENANT
    PRIMARY = "tenants.use"
    BINDINGS: ClassVar[list[BindingType]] = [*keymaps.bindings("tenants")]
    DEFAULT_CSS = """
    Tenants .steps--heading { height: auto; color: $text-muted; text-style: bold; }
    Tenants Steps { margin-bottom: 1; }
    """

    def on_mount(self) -> None:
        super().on_mount()
        if self.workspace.tenant_id:
            self.table.select(self.workspace.tenant_id)

    def columns(self) -> Sequence[Column]:
        return tenant_table.columns(self.workspace)

    def tones(self) -> Tones:
        return tenant_table.tones(self.workspace)

    def empty(self) -> str:
        if self.workspace.tenants_state == "remembered":
            return "Asking the platform …"
        if self.workspace.tenants_state == "failed":
            return self.workspace.tenants_error
        return "You have no tenant yet; n creates one."

    def records(self) -> Sequence[Record]:
        return self.workspace.tenants

    def state_words(self) -> str:
        return {"remembered": "refreshing", "failed": "not refreshed, r tries again"}.get(
            self.workspace.tenants_state, ""
        )

    def changed(self, topic: str) -> None:
        if topic in ("tenants", "tenant", "context"):
            self.show()
        if topic in ("operations", "context"):
            self.show_detail()

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        quota = record.get("tightestQuota")
        by_key = {column.key: column for column in TENANT.columns}
        facts = [
            ("Status", status_text(record)),
            ("Slug", str(record.get("slug", ""))),
            ("Organization", str(record.get("organizationName", ""))),
            ("Your role", str(record.get("role", ""))),
            ("Default tags", by_key["defaultTagCount"].text(record)),
            ("Tightest quota", by_key["tightestQuota"].text(record) + (f"  {share(record):.0%}" if quota else "")),
        ]
        times = [("Created", time_text(record.get("createdAt"))), ("Updated", time_text(record.get("updatedAt")))]
        return str(record.get("displayName", "")), [
            ("", facts),
            ("", times),
            ("Id", [("", str(record["id"]))]),
        ]

    def show_detail(self) -> None:
        super().show_detail()
        operation = self.workspace.provisioning.of(str((self.record or {}).get("id")))
        if not self.query(Steps):
            if operation is None:
                return
            heading = Static("", classes="steps--heading", markup=False)
            # Above what is known of every tenant: on a small screen nobody scrolls down to see it move.
            self.query_one(Detail).mount(heading, Steps(), before=".detail--body")
        heading, steps = self.query_one(".steps--heading", Static), self.query_one(Steps)
        heading.display = steps.display = operation is not None
        if operation is not None:
            over = operation.get("status") in FINAL
            words = str(operation.get("status")) if over else f"{operation.get('progress') or 0:.0f}%"
            heading.update(Content(safe(f"Provisioning  {words}")))
            steps.show(operation.get("steps", ()))

    # Actions

    async def do_use(self, argument: str = "") -> None:
        tenant = await self._named(argument)
        if tenant is not None:
            await self.workspace.use_tenant(str(tenant["id"]))
            if tenant.get("status") == "provisioning":
                self.app.notify("It is still being provisioned; most of it cannot be used yet.", markup=False)

    async def do_default_tags(self, argument: str = "") -> None:
        tenant = await self._named(argument)
        if tenant is not None:
            await self.workspace.use_tenant(str(tenant["id"]))
            self.post_message(Travel("default-tags"))

    async def do_create(self, argument: str = "") -> None:
        from tui.widgets.form import Field, Form

        choices = [(str(org["id"]), str(org["name"])) for org in self.workspace.creatable]
        if not choices:
            link = self.workspace.link
            unknown = "The platform has not said yet where you may create tenants; try again."
            self.app.notify(f"{link.why}; r signs in" if link.state == "signed_out" else unknown, markup=False)
            return
        fields = [Field("name", "Display name", argument, "Web Shop", check=check_name)]
        if len(choices) > 1:
            preferred = str((self.workspace.tenant or {}).get("organizationId", choices[0][0]))
            fields.append(Field("organization", "Organization", preferred, choices=choices))
        title = "Create a tenant" if len(choices) > 1 else f"Create a tenant in {cut(safe(choices[0][1]), 40)}"
        values = await self.app.push_screen_wait(
            Form(title, fields, save="Create", note="Provisioning is shown step by step · Esc cancels")
        )
        if values is None:
            return
        made = await self.workspace.create_tenant(values.get("organization", choices[0][0]), values["name"].strip())
        self.post_message(Lasting("creating a tenant"))
        self.set_filter("")
        self.table.select(str(made["id"]))
        self.show_detail()
        if not self.screen.has_class("-wide") and not self.has_class("-detail"):
            self.do_detail()  # where there is no room beside the list, the steps are what one wants to see

    async def do_rename(self, argument: str = "") -> None:
        from tui.widgets.form import Field, Form

        tenant = self.record
        if tenant is None:
            return
        before = str(tenant["displayName"])
        if argument:
            name = argument
        else:
            form = Form("Rename tenant", [Field("name", "Display name", before, check=check_name)])
            values = await self.app.push_screen_wait(form)
            if values is None:
                return
            name = values["name"].strip()
        if name != before:
            await self.rename(str(tenant["id"]), before, name)

    async def rename(self, tenant_id: str, before: str, name: str) -> None:
        """Rename at once and offer the way back (reversible actions do not ask)."""
        await self.workspace.rename_tenant(tenant_id, name)

        async def undo() -> None:
            await self.workspace.rename_tenant(tenant_id, before)

        self.post_message(Undoable(f"Renamed {before} to {name}", undo, f"{name} is called {before} again"))

    async def _named(self, argument: str) -> Record | None:
        """The tenant meant by the argument of the `:` line, or the one under the cursor."""
        if not argument:
            return self.record
        from client.tenancy import AMBIGUOUS, find

        try:
            return find(self.workspace.tenants, argument)
        except FrostError as error:
            if error.code != AMBIGUOUS:
                raise
            return await self._one_of(error, argument)

    async def _one_of(self, ambiguous: FrostError, argument: str) -> Record | None:
        """Let one of the tenants be chosen that all have the name."""
        from tui.widgets.menu import Entry, Menu

        details = ambiguous.details or {}
        found = details.get("tenants", [])
        entries = [
            Entry(
                str(one["id"]), f"{one['displayName']} · {one['slug']} · {one['organizationName']}", note=str(one["id"])
            )
            for one in found
        ]
        more = details.get("count", 0) - len(found)
        foot = f"{more} more have that name: use its id · Esc leaves" if more > 0 else "Enter uses it · Esc leaves"
        chosen = await self.app.push_screen_wait(Menu(f"Which {cut(safe(argument), 40)}?", entries, foot=foot))
        return self.workspace.find(chosen) if chosen is not None else None
