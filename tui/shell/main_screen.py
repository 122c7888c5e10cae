"""The main screen: header, navigation, prompt, footer, and the actions that work everywhere."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.worker import Worker

from client.errors import FrostError
from client.text import safe
from tui.shell import actions, keymap, routes
from tui.shell.action import NOTHING_SELECTED, load
from tui.shell.bars import Footer, Header, Key, Navigation, TooSmall, header_state
from tui.shell.list_screen import ListScreen
from tui.shell.navigator import Navigator
from tui.shell.routes import Navigate, RunAction, SignInRequired, Subject, UndoAvailable, UndoCleared
from tui.state import contexts
from tui.state.notices import Severity
from tui.state.refresh import Topic, Update
from tui.state.workspace import Workspace
from tui.terminal.textual_patches import Row

if TYPE_CHECKING:
    from textual.notifications import Notification

    from tui.shell.command_prompt import CommandPrompt
    from tui.state.preferences import TenantRecord

LONGEST_LINE, MOST_LINES = 200, 5  # of a toast
ALWAYS = ("app.help", "app.quit")  # always in the footer


class MainScreen(Navigator):
    """The Textual screen behind dialogs and the policy editor. It shows one of the application's screens at a time."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *keymap.bindings(actions.ANYWHERE),
        *(
            Binding(str(number), f"go('{route.name}')", route.title, show=False, id=f"screens.{route.name}")
            for number, route in enumerate(routes.ROUTES[: routes.DIGITS], 1)
        ),
        Binding("escape", "back", "Back", show=False, id="app.back"),
        Binding("ctrl+c", "app.interrupt", show=False),
    ]
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (72, "-normal"), (110, "-wide")]  # noqa: RUF012  (declared on the base class)
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-tall")]  # noqa: RUF012

    DEFAULT_CSS = """
    MainScreen {
        background: $background;
        & > #body { height: 1fr; }
        &.-narrow Navigation { display: none; }
        &.-zoom Navigation { display: none; }
        &.-wide ListScreen > Detail { display: block; width: 38%; min-width: 40; border-left: solid $border; }
        &.-wide ListScreen > Detail:focus { border-left: thick $accent; }
        &.-wide ListScreen > .screen--list { display: block; }
        &.-wide ListScreen.-single > Detail { display: none; }
        &.-wide ListScreen.-single.-detail > Detail { display: block; width: 1fr; border-left: none; }
        &.-wide ListScreen.-single.-detail > .screen--list { display: none; }
        &.-wide ListScreen.-zoom-list > Detail { display: none; }
        &.-wide ListScreen.-zoom-detail > .screen--list { display: none; }
        &.-wide ListScreen.-zoom-detail > Detail { width: 1fr; border-left: none; }
        &.-tiny > *, &.-flat > * { display: none; }
        &.-tiny > TooSmall, &.-flat > TooSmall { display: block; }
    }
    """

    def __init__(
        self,
        workspace: Workspace,
        keys: keymap.Keys,
        withdraw: Callable[[Callable[["Notification"], bool]], None],
        hold_keys: Callable[[asyncio.Event], None],
    ) -> None:
        """Create the main screen.

        Args:
            withdraw: Removes the messages that match a predicate.
            hold_keys: Queues keys until a dialog has the focus or the event is set.
        """
        super().__init__(workspace, keys)
        self._withdraw = withdraw
        self._hold_keys = hold_keys
        self.undoable: UndoAvailable | None = None
        self.lasting = ""
        self._offer = self._refusal = ""  # texts of messages that the next action removes
        self._done_in = ""  # the tenant in use at the time of the reversible change
        self._identified = False  # whether the principal of this run is known

    def compose(self) -> ComposeResult:
        state = self.workspace.state
        name = state.screen if state.screen_of in ("", self.workspace.who) else ""
        self.current = self.make(name if name in routes.NAMES else routes.NAMES[0])
        # Textual sets these at the first resize, which would lay out and paint everything a second time.
        # The styles of all widgets are computed after this.
        sizes = (
            _fitting(self.app.size.width, self.HORIZONTAL_BREAKPOINTS),
            _fitting(self.app.size.height, self.VERTICAL_BREAKPOINTS),
        )
        self.add_class(*sizes, update=False)
        yield Header()
        with Row(id="body"):
            yield Navigation([(route.name, route.title) for route in routes.ROUTES], self.current.NAME)
            yield self.current
        yield Footer()
        if "-tiny" in sizes or "-flat" in sizes:
            yield TooSmall()

    def on_mount(self) -> None:
        self.history.visit(self.view())
        self.show_header()
        self.show_keys()

    def watch_focused(self, focused: Widget | None) -> None:
        """Restore the focus after a hidden list or a click on an empty area lost it. Without it, no key of the list
        works.
        """
        if focused is None and self.is_mounted:
            self.call_after_refresh(self._regain_focus)

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        if self.is_mounted:
            self.show_header()  # the connection may have changed behind the editor

    def on_resize(self) -> None:
        self.call_after_refresh(self._regain_focus)

    def _regain_focus(self) -> None:
        hidden = self.has_class("-tiny") or self.has_class("-flat")
        # If the terminal window is inactive, Textual restores the focus with it.
        if self.focused is None and self.current is not None and not hidden and self.app.app_focus:
            self.current.take_focus()

    def mount_deferred(self) -> None:
        """Mount the widgets that the first frame does not need."""
        from tui.shell.command_line import candidates
        from tui.shell.command_prompt import CommandPrompt

        prompt = CommandPrompt(
            lambda line: candidates(self.workspace, line, self.action_context()), self.workspace.state.lines
        )
        self.mount(prompt, before="Footer")
        if not self.query(TooSmall):
            self.mount(TooSmall())

    # Around the screen

    def action_context(self) -> actions.ActionContext:
        """Return the state that decides which actions are available."""
        workspace = self.workspace
        return actions.ActionContext(
            screen=self.current.NAME if self.current is not None else "",
            subject=self.current.subject.id if self.current is not None and self.current.subject is not None else "",
            record=self.current.record if self.current is not None else None,
            context_name=workspace.context,
            tenant="" if workspace.tenant_missing else workspace.tenant_id,
            tenant_before=workspace.tenant_before,
            config_flag=workspace.connection.config.path if workspace.connection.config.explicit else None,
            tenant_flag=workspace.tenant_id if workspace.tenant_source in ("flag", "here") else None,
            read_only=workspace.read_only,
            keyed=workspace.keyed,
            scopes=workspace.scopes,
            role=workspace.tenant.role if workspace.tenant is not None else "",
            creatable=tuple(organization.id for organization in workspace.creatable),
            identity_known=workspace.me is not None,
            draft=self.current.draft if self.current is not None else None,
            applying=workspace.applies.goes_on(workspace.tenant_id),
            undo=self._undo_description(),
            lasting=self.lasting,
            earlier=self.history.earlier is not None,
            later=self.history.later is not None,
            browser=self.app.is_web,
        )

    def _undo_description(self) -> str:
        """Return the change that undo would revert: an unsaved edit on this screen, else the last change."""
        here = self.current.undo_description if self.current is not None else ""
        return here or (self.undoable.description if self.undoable else "")

    def show_keys(self) -> None:
        """Update the footer for the screen and the record under the cursor. An empty list has no keys for a record."""
        context = self.action_context()
        here = actions.of_scope(context.screen, "list", "app")
        visible = [action for action in here if action.footer_label and self.keys.of(action.id)]
        reasons = {action.id: action.disabled_reason(context) for action in visible}
        if self.current is not None and self.current.known and not self.current.records():
            visible = [action for action in visible if reasons[action.id] != NOTHING_SELECTED]
        self.query_one(Footer).show(
            [
                Key(a.id, self.keys.label(a.id), a.footer_label, not reasons[a.id], always=a.id in ALWAYS)
                for a in visible
            ]
        )

    def show_header(self) -> None:
        """Update the header."""
        self.query_one(Header).show(header_state(self.workspace, self.keys.label("app.refresh")))

    def changed(self, update: Update) -> None:
        """Handle an update of the workspace: notify all open screens, then update header and footer."""
        if not self.is_mounted:
            return
        if update is Topic.CONTEXT or (update is Topic.TENANT and self._done_in != self.workspace.tenant_id):
            self.undoable, self.lasting = None, ""
            self._end_offer()
        for screen in self.query(ListScreen):
            if screen.UPDATES is None or update in screen.UPDATES:
                screen.changed(update)
        if update is Topic.IDENTITY and not self._identified:
            self._identified = True
            self.open_own_first()
        self.show_header()
        if update is not Topic.LINK:  # no action depends on the connection
            self.show_keys()

    def toast(self, text: str, severity: Severity = "information") -> str:
        """Show a message and return its text as shown. Control characters are made visible."""
        lines = "\n".join(safe(line, LONGEST_LINE) for line in text.split("\n")[:MOST_LINES])
        self.app.notify(lines, severity=severity, markup=False)
        return lines

    def _end_offer(self) -> None:
        """Remove the message that offers undo, which is outdated."""
        offer, self._offer = self._offer, ""
        self._withdraw(lambda one: one.message == offer)

    @on(ListScreen.Moved)
    def _moved(self) -> None:
        self.show_keys()

    @on(RunAction)
    def _run_requested(self, event: RunAction) -> None:
        self.perform(event.action, event.argument)

    @on(Footer.Pressed)
    def _pressed(self, event: Footer.Pressed) -> None:
        self.perform(event.action)

    @on(UndoAvailable)
    def _undoable(self, event: UndoAvailable) -> None:
        self.undoable, self.lasting, self._done_in = event, "", self.workspace.tenant_id
        key = self.keys.label("app.undo")
        self._end_offer()
        self._offer = self.toast(event.description + (f" · {key} to undo" if key else ""))
        self.show_keys()

    @on(UndoCleared)
    def _lasting(self, event: UndoCleared) -> None:
        self.undoable, self.lasting, self._done_in = None, event.description, self.workspace.tenant_id
        self._end_offer()
        self.show_keys()

    # Running actions

    def perform(self, action_id: str, argument: str = "") -> None:
        """Run an action, or show why it is disabled. Keys, palette, menus, clicks and the `:` line all use it."""
        action = actions.BY_ID[action_id]
        context = self.action_context()
        if argument and action.accepts_record_argument:  # the argument selects the record, not the cursor
            context = context._replace(record=None, record_by_name=True)
        if reason := action.disabled_reason(context):
            self._refusal = self.toast(f"{action.title}: {reason}", "warning")
            return
        refusal, self._refusal = self._refusal, ""
        # Only errors may cover a dialog.
        self._withdraw(lambda one: one.message == refusal or (action.opens_dialog and one.severity != "error"))
        target = self if action.scope == actions.ANYWHERE else self.current
        ended = asyncio.Event()
        if action.opens_dialog:
            self._hold_keys(ended)
        handler = partial(action.run, target, argument)
        if action.is_async:
            work = partial(_run, contexts.begin_action(action.title, self.workspace.connection), handler, ended)
            _: Worker[None] = self.app.run_worker(work, group=action_id, exit_on_error=False)
        else:
            handler()

    def action_perform(self, action_id: str) -> None:
        self.perform(action_id)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        # While the user types into an input, keys with a character are text.
        if action == "perform" and self.focused is not None and self.focused.has_class("-line-input"):
            return not any(map(keymap.typed, self.keys.of(str(parameters[0]))))
        return super().check_action(action, parameters)

    def use_tenant(self, tenant_id: str) -> None:
        """Switch to a tenant. The view does not change."""
        # Not exclusive: the thread of a cancelled switch would still write its tenant to the file.
        switch = partial(self.workspace.use_tenant, tenant_id)
        _: Worker[None] = self.app.run_worker(switch, group="use tenant", exit_on_error=False)

    async def do_switch_tenant(self, name: str = "") -> None:
        """Switch to the tenant with a name, slug or id; without one, ask for it."""
        if name:
            tenant: TenantRecord | None = await load("tui.tenants.screen:named")(self.app, self.workspace, name)
            chosen = tenant.id if tenant is not None else None
        else:
            chosen = await self.app.push_screen_wait(load("tui.tenants.switcher:switcher")(self.workspace))
        if chosen is not None:
            await self.workspace.use_tenant(chosen)

    async def do_previous_tenant(self) -> None:
        await self.workspace.use_tenant(self.workspace.tenant_before)

    async def do_palette(self) -> None:
        from tui.shell.palette import Palette, entries

        chosen = await self.app.push_screen_wait(Palette(partial(entries, self)))
        if chosen is not None:
            chosen.run()

    def do_command_line(self) -> None:
        from tui.shell.command_prompt import CommandPrompt

        self.query_one(CommandPrompt).open()

    def do_help(self) -> None:
        from tui.shell.palette import Help, lines

        self._withdraw(lambda _: True)  # messages would cover the help
        context = self.action_context()
        reasons = {action.id: action.disabled_reason(context) for action in actions.ACTIONS}
        assert self.current is not None
        self.app.push_screen(Help(lines(self.current.NAME, self.current.TITLE, self.keys, reasons)))

    async def do_menu(self) -> None:
        from tui.widgets.picker import Entry, Menu

        context = self.action_context()
        entries = [
            Entry(
                action.id,
                action.title,
                self.keys.label(action.id),
                action.command_line(context),
                action.disabled_reason(context),
                self.keys.of(action.id),
            )
            for action in actions.of_scope(context.screen)
        ]
        foot = "Enter or its key: run · Esc close"
        chosen = await self.app.push_screen_wait(Menu("Actions", entries, foot=foot))
        if chosen is not None:
            self.perform(chosen)

    async def do_copy(self) -> None:
        from tui.shell.clipboard import copy

        await copy(self)

    async def do_refresh(self) -> None:
        if not await self.workspace.invalidate_credential():
            self.app.post_message(SignInRequired())
        elif self.current is not None:
            self.current.read()

    async def do_undo(self) -> None:
        if self.current is not None and self.current.undo_description:
            self.current.undo()
            return
        undoable, self.undoable, offer = self.undoable, None, self._offer
        if undoable is None:
            return
        try:
            await undoable.undo()
        except FrostError:
            if self.undoable is None and self._offer == offer:  # no newer change, and the same tenant and context
                self.undoable = undoable
            raise
        if self.undoable is None:
            self._end_offer()
        self.toast(f"Undone: {undoable.undone}")

    def do_activity(self) -> None:
        from tui.shell.action import target_of

        assert self.current is not None
        context = self.action_context()
        record = context.fields
        subject = self.current.subject
        own = context.screen in ("versions", "default-tags", "tag-versions", "apply-runs")
        name = (subject.name if subject else self.workspace.name_of(context.tenant)) if own else ""
        name = name or str(record.get("targetName") or record.get(self.current.KIND.name_key) or "")
        target = target_of(context)
        self.post_message(Navigate("activity-of", Subject(context.tenant, target, name or target)))

    def do_theme(self) -> None:
        from tui.terminal import themes

        self.app.theme = self.workspace.state.theme = themes.other(self.app.theme)

    def do_who_am_i(self) -> None:
        state = header_state(self.workspace)
        self.toast(f"{state.who or 'not signed in'} · {state.how}\n{self.workspace.context}: {self.workspace.endpoint}")

    def do_quit(self) -> None:
        if self.current is not None and self.current.has_class("-detail"):
            self.current.escape()
        else:
            self.app.exit()

    # The `:` line

    def on_command_prompt_closed(self) -> None:
        if self.current is not None:
            self.current.focus_list()

    async def on_command_prompt_entered(self, event: "CommandPrompt.Entered") -> None:
        from tui.shell.command_line import run

        self.workspace.state.lines = event.lines
        await run(self, event.line)


def _fitting(cells: int, breakpoints: list[tuple[int, str]]) -> str:
    """Return the class of the widest breakpoint that fits."""
    return max((start, name) for start, name in breakpoints if start <= cells)[1]


async def _run(action: contexts.RunningAction, handler: Callable[[], Awaitable[None]], ended: asyncio.Event) -> None:
    try:
        await contexts.run_as(action, handler)
    finally:
        ended.set()
