"""The tenants screen: use, create with live provisioning, rename."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Static

from client.errors import FrostError
from client.operations import FINAL
from client.tables.columns import TENANT, UNKNOWN, Column, Record, tightest_share, tightest_text, time_text
from client.tables.quotas import percent_text, quota_tone
from client.text import cut, safe
from tui.shell import actions, keymap
from tui.shell.bars import STATUS_SIGNS
from tui.shell.list_screen import NO_TENANTS, ListScreen
from tui.shell.navigator import frame_of
from tui.shell.routes import Navigate, UndoAvailable, UndoCleared
from tui.state.refresh import Topic, Update
from tui.state.workspace import Workspace
from tui.widgets.detail import Detail, Section
from tui.widgets.record_table import Tones

if TYPE_CHECKING:
    from client.models.tenants import Step
    from tui.state.preferences import TenantRecord
    from tui.widgets.picker import Menu

# Sign and tone of each state. An unknown state is shown as received, without them.
SIGNS = {
    "completed": ("✓", "$text-success"),
    "running": ("►", "$text-accent"),
    "retrying": ("!", "$text-warning"),
    "failed": ("×", "$text-error"),
    "pending": ("·", "$text-muted"),
}


class Steps(Static):
    """The steps of a provisioning operation."""

    DEFAULT_CSS = "Steps { height: auto; }"

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__("", id=id, classes=classes, markup=False)

    def show(self, steps: "Sequence[Step]") -> None:
        names = [safe(step.name.replace("_", " ")) for step in steps]
        longest = max(map(len, names), default=0)
        self.update(
            Content("\n").join(_line(step, f"{name:<{longest}}") for step, name in zip(steps, names, strict=True))
        )


def _line(step: "Step", name: str) -> Content:
    sign, tone = SIGNS.get(step.status, (" ", "$foreground"))
    text = safe(step.status)
    if step.status in ("retrying", "failed") and step.attempts:
        text += f", attempt {step.attempts}"
    parts = [(f"{sign} ", tone), (name, "$foreground"), (f"  {text}", tone)]
    if step.error and step.status != "completed":
        parts.append((f"  {safe(step.error)}", "$text-muted"))
    return Content.assemble(*parts)


def status_text(status: str) -> str:
    """Return a status with its sign."""
    return f"{STATUS_SIGNS.get(status, ('?', ''))[0]} {status}"


def share(record: Record) -> float:
    """Return the used share of the tightest quota, 0 if unknown."""
    return tightest_share(record) or 0.0


def _share_text(record: Record) -> str:
    quota = record.get("tightestQuota")
    return f"{_percent(quota)} {quota.get('title') or quota.get('resourceType', '')}" if quota else ""


def _percent(quota: Mapping[str, Any]) -> str:
    used = quota.get("used")
    return UNKNOWN if used is None else percent_text(used, quota.get("limit") or 0)


def _tightest_figures(tenant: "TenantRecord") -> str:
    record = tenant.wire()
    text, quota = tightest_text(record, "title"), record.get("tightestQuota")
    return f"{text}  {_percent(quota)}" if quota else text


def columns(workspace: Workspace) -> Sequence[Column]:
    """Return the columns, most important first. `►` marks the current tenant."""
    by_key = {column.key: column for column in TENANT.columns}
    keys = ("displayName", "organizationName", "defaultTagCount", "tightestQuota", "slug")
    name, organization, tags, quota, slug = (by_key[key] for key in keys)

    def mark(record: Record) -> str:
        return ("► " if record["id"] == workspace.tenant_id else "  ") + name.text(record)

    return (
        name._replace(title="  Name", cell=mark, sort=lambda record: name.text(record).casefold()),
        by_key["status"]._replace(cell=lambda record: status_text(str(record.get("status", "")))),
        organization,
        # The share is first, so that it is visible if the cell is cut.
        quota._replace(title="Fullest quota", wide=False, cell=_share_text),
        tags._replace(wide=True),
        slug._replace(wide=True),
    )


def tones(workspace: Workspace) -> Tones:
    """Words or signs repeat the meaning of each tone."""
    return {
        "displayName": lambda record: "mark" if record["id"] == workspace.tenant_id else None,
        "status": lambda record: {"active": "good", "provisioning": "warning"}.get(str(record.get("status"))),
        "tightestQuota": lambda record: quota_tone(share(record)),
        "slug": lambda record: "dim",
    }


class Tenants(ListScreen["TenantRecord"]):
    """The first screen, where the user chooses the current tenant."""

    NAME = "tenants"
    TITLE = "Tenants"
    KIND = TENANT
    PRIMARY = "tenants.use"
    UPDATES = frozenset((Topic.TENANTS, Topic.TENANT, Topic.CONTEXT, Topic.IDENTITY, Topic.OPERATIONS))
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("tenants")]
    DEFAULT_CSS = """
    Tenants .steps--heading { height: auto; color: $text-muted; text-style: bold; }
    Tenants Steps { margin-bottom: 1; }
    """

    def select_first(self) -> None:
        if self.workspace.tenant_id:
            self.table.select(self.workspace.tenant_id)

    def columns(self) -> Sequence[Column]:
        return columns(self.workspace)

    def tones(self) -> Tones:
        return tones(self.workspace)

    def empty(self) -> str:
        if self.workspace.tenants_state == "remembered":
            return "Loading …"
        if self.workspace.tenants_state in ("failed", "refused"):
            return self.workspace.tenants_error
        frame = frame_of(self)
        if actions.BY_ID["tenants.create"].disabled_reason(frame.action_context()):
            return NO_TENANTS
        key = frame.keys.label("tenants.create")
        return f"You have no tenants yet; {key} to create one." if key else "You have no tenants yet."

    def records(self) -> "Sequence[TenantRecord]":
        return self.workspace.tenants

    @property
    def known(self) -> bool:
        return self.workspace.tenants_state == "fresh"

    def freshness_text(self) -> str:
        return {"remembered": "refreshing", "failed": "not refreshed"}.get(self.workspace.tenants_state, "")

    def changed(self, update: Update) -> None:
        if update is not Topic.OPERATIONS:
            self.show()
        if update in (Topic.OPERATIONS, Topic.CONTEXT):
            self.show_detail()

    def detail(self, record: "TenantRecord") -> tuple[str, Sequence[Section]]:
        by_key = {column.key: column for column in TENANT.columns}
        facts = [
            ("Status", status_text(record.status)),
            ("Slug", record.slug),
            ("Organization", record.organization_name),
            ("Your role", record.role),
            ("Default tags", by_key["defaultTagCount"].text(record.wire())),
            ("Fullest quota", _tightest_figures(record)),
        ]
        times = [("Created", time_text(record.created_at)), ("Updated", time_text(record.updated_at))]
        return record.display_name, [("", facts), ("", times), ("ID", [("", record.id)])]

    def show_detail(self) -> None:
        super().show_detail()
        tenant = self.record
        operation = self.workspace.provisioning.of(tenant.id) if tenant is not None else None
        if not self.query(Steps):
            if operation is None:
                return
            heading = Static("", classes="steps--heading", markup=False)
            # Above the other details, so that progress is visible on a small screen without scrolling.
            self.query_one(Detail).mount(heading, Steps(), before=".detail--body")
        heading, steps = self.query_one(".steps--heading", Static), self.query_one(Steps)
        heading.display = steps.display = operation is not None
        if operation is not None:
            progress = operation.status if operation.status in FINAL else f"{operation.progress:.0f}%"
            heading.update(Content(safe(f"Provisioning  {progress}")))
            steps.show(operation.steps)

    # Actions

    async def do_use(self, argument: str = "") -> None:
        tenant = await self._named(argument)
        if tenant is not None:
            await self.workspace.use_tenant(tenant.id)
            if tenant.status == "provisioning":
                self.app.notify("Provisioning is in progress; most features are not available yet.", markup=False)

    async def do_default_tags(self, argument: str = "") -> None:
        tenant = await self._named(argument)
        if tenant is not None:
            await self.workspace.use_tenant(tenant.id)
            self.post_message(Navigate("default-tags"))

    async def do_create(self, argument: str = "") -> None:
        from tui.widgets.form import Field, Form, check_name, show_until_saved

        choices = [(organization.id, organization.name) for organization in self.workspace.creatable]
        if not choices:
            link = self.workspace.link
            reason = "Still loading your organizations; try again."
            if link.state == "signed_out":
                key = frame_of(self).keys.label("app.refresh")
                reason = f"{link.why}; {key} to sign in" if key else link.why
            self.app.notify(reason, markup=False)
            return
        tenant = self.workspace.tenant
        preferred = tenant.organization_id if tenant is not None else ""
        if preferred not in dict(choices):
            preferred = choices[0][0]
        title = "Create a tenant" if len(choices) > 1 else f"Create a tenant in {cut(safe(choices[0][1]), 40)}"

        def build(values: Mapping[str, str], problem: str) -> Form:
            fields = [Field("name", "Display name", values["name"], "for example: Web Shop", check=check_name)]
            if len(choices) > 1:
                fields.append(Field("organization", "Organization", values["organization"], choices=choices))
            return Form(title, fields, save="Create", note="Shows the provisioning steps", problem=problem)

        async def save(values: Mapping[str, str]) -> None:
            await self._create(values.get("organization", choices[0][0]), values["name"])

        initial = {"name": argument, "organization": preferred}
        await show_until_saved(self.app.push_screen_wait, build, initial, save, creates="tenant")

    async def _create(self, organization_id: str, name: str) -> None:
        """Create a tenant, select it and show its provisioning."""
        tenant = await self.workspace.create_tenant(organization_id, name)
        self.post_message(UndoCleared("creating a tenant"))
        self.select_new(tenant.id)
        self.show_detail()
        if not self.screen.has_class("-wide") and not self.has_class("-detail"):
            self.do_detail()  # without room for the details next to the list, show the steps in its place

    async def do_rename(self, argument: str = "") -> None:
        from tui.widgets.form import Field, Form, check_name, show_until_saved

        tenant = self.record
        if tenant is None:
            return
        tenant_id, before = tenant.id, tenant.display_name
        if argument:
            await self.rename(tenant_id, before, argument)
            return

        def build(values: Mapping[str, str], problem: str) -> Form:
            fields = [Field("name", "Display name", values["name"], check=check_name)]
            return Form("Rename tenant", fields, problem=problem)

        await show_until_saved(
            self.app.push_screen_wait,
            build,
            {"name": before},
            lambda values: self.rename(tenant_id, before, values["name"]),
        )

    async def rename(self, tenant_id: str, before: str, name: str) -> None:
        """Rename a tenant and offer undo. Reversible actions need no confirmation."""
        if name == before:
            return
        await self.workspace.rename_tenant(tenant_id, name)

        async def undo() -> None:
            await self.workspace.rename_tenant(tenant_id, before)

        self.post_message(UndoAvailable(f"Renamed {before} to {name}", undo, f"{name} is named {before} again"))

    async def _named(self, argument: str) -> "TenantRecord | None":
        """Return the tenant that the argument names, or the selected one."""
        return await named(self.app, self.workspace, argument) if argument else self.record


async def named(app: App[Any], workspace: Workspace, name: str) -> "TenantRecord | None":
    """Return the tenant with a name, slug or id. The user chooses one of several; None if they choose none.

    Raises:
        FrostError: No tenant has the name.
    """
    from client.name_lookup import AMBIGUOUS
    from client.tenancy import find

    try:
        return workspace.find(find([tenant.wire() for tenant in workspace.tenants], name)["id"])
    except FrostError as error:
        if error.code != AMBIGUOUS:
            raise
        chosen = await app.push_screen_wait(_choice(error, name))
        return workspace.find(chosen) if chosen is not None else None


def _choice(ambiguous: FrostError, name: str) -> "Menu":
    """Return the menu of the tenants with the same name."""
    from tui.widgets.picker import Entry, Menu

    details = ambiguous.details or {}
    tenants = details.get("tenants", [])
    entries = [
        Entry(
            str(tenant["id"]),
            f"{tenant['displayName']} · {tenant['slug']} · {tenant['organizationName']}",
            note=str(tenant["id"]),
        )
        for tenant in tenants
    ]
    more = details.get("count", 0) - len(tenants)
    foot = f"{more} more with this name: use the ID · Esc close" if more > 0 else "Enter use · Esc close"
    return Menu(f"Which {cut(safe(name), 40)}?", entries, foot=foot)
