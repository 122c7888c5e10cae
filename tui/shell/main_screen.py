"""The main screen: header, navigation, prompt, footer, and the actions that work everywhere."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.worker import Worker

from client.errors import FrostError
from client.text import safe
from tui.shell import actions, keymap, routes
from tui.shell.footer import Footer, Key, Navigation, TooSmall
from tui.shell.header import Header, facts
from tui.shell.history import Subject
from tui.shell.list_screen import Place
from tui.shell.messages import Lasting, Perform, SignInWanted, Travel, Undoable
from tui.shell.navigator import Travelling
from tui.state.notices import Severity
from tui.state.workspace import Workspace
from tui.terminal.textual_patches import Row

if TYPE_CHECKING:
    from textual.notifications import Notification

    from tui.shell.command_prompt import CommandPrompt

OPENING_SECONDS, OPENING_LOOKS = 0.3, 60  # how long keys wait for a dialog, and number of checks
LONGEST_LINE, MOST_LINES = 200, 5  # of a toast
ALWAYS = ("app.help", "app.quit")  # always in the footer


class FrameScreen(Travelling):
    """The Textual screen behind dialogs and the policy editor. It shows one of the application's screens at a time."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *keymap.bindings(actions.ANYWHERE),
        *(
            Binding(str(number), f"go('{door.name}')", door.title, show=False, id=f"places.{door.name}")
            for number, door in enumerate(routes.DOORS[: routes.DIGITS], 1)
        ),
        Binding("escape", "back", "Back", show=False, id="app.back"),
        Binding("ctrl+c", "app.interrupt", show=False),
    ]
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (72, "-normal"), (110, "-wide")]  # noqa: RUF012  (declared on the base class)
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-tall")]  # noqa: RUF012

    DEFAULT_CSS = """
    FrameScreen {
        background: $background;
        & > #body { height: 1fr; }
        &.-narrow Navigation { display: none; }
        &.-zoom Navigation { display: none; }
        &.-wide Place > Detail { display: block; width: 40; border-left: solid $border; }
        &.-wide Place > .place--list { display: block; }
        &.-wide Place.-zoom-list > Detail { display: none; }
        &.-wide Place.-zoom-detail > .place--list { display: none; }
        &.-wide Place.-zoom-detail > Detail { width: 1fr; border-left: none; }
        &.-tiny > *, &.-flat > * { display: none; }
        &.-tiny > TooSmall, &.-flat > TooSmall { display: block; }
    }
    """

    def __init__(
        self,
        workspace: Workspace,
        keys: keymap.Keys,
        withdraw: Callable[[Callable[["Notification"], bool]], None],
    ) -> None:
        """`withdraw` removes the messages that match a predicate."""
        super().__init__(workspace, keys)
        self._withdraw = withdraw
        self.undoable: Undoable | None = None
        self.lasting = ""
        self._offer = self._refusal = ""  # texts of messages that the next action removes
        self._done_in = ""  # the tenant in use at the time of the reversible change

    def compose(self) -> ComposeResult:
        wanted = self.workspace.state.place
        self.place = self.make(wanted if wanted in routes.NAMES else routes.NAMES[0])
        # Textual sets these at the first resize, which would lay out and paint everything a second time.
        self.add_class(_fitting(self.app.size.width, self.HORIZONTAL_BREAKPOINTS))
        self.add_class(_fitting(self.app.size.height, self.VERTICAL_BREAKPOINTS))
        yield Header()
        with Row(id="body"):
            yield Navigation([(door.name, door.title) for door in routes.DOORS], self.place.NAME)
            yield self.place
        yield Footer()
        yield TooSmall()

    def on_mount(self) -> None:
        assert self.place is not None
        self.place.restore_sort(self.workspace.state.sort.get(self.place.NAME, []))
        self.history.visit(self.view())
        self.show_facts()
        self.show_keys()

    def watch_focused(self, focused: Widget | None) -> None:
        """Restore the focus after a hidden list or a click on an empty area lost it. Without it, no key of the list
        works.
        """
        if focused is None and self.is_mounted:
            self.call_after_refresh(self._regain_focus)

    def on_resize(self) -> None:
        self.call_after_refresh(self._regain_focus)

    def _regain_focus(self) -> None:
        hidden = self.has_class("-tiny") or self.has_class("-flat")
        # If the terminal window is inactive, Textual restores the focus with it.
        if self.focused is None and self.place is not None and not hidden and self.app.app_focus:
            self.place.take_focus()

    def furnish(self) -> None:
        """Mount the widgets that the first frame does not need."""
        from tui.shell.command_line import candidates
        from tui.shell.command_prompt import CommandPrompt

        prompt = CommandPrompt(
            lambda line: candidates(self.workspace, line, self.situation()), self.workspace.state.lines
        )
        self.mount(prompt, before="Footer")
        for place in self.query(Place):
            place.heading.furnish()

    # Around the screen

    def situation(self) -> actions.Situation:
        """Return the state that decides which actions are available."""
        workspace = self.workspace
        return actions.Situation(
            place=self.place.NAME if self.place is not None else "",
            subject=self.place.subject.id if self.place is not None and self.place.subject is not None else "",
            record=self.place.record if self.place is not None else None,
            context=workspace.context,
            tenant=workspace.tenant_id,
            tenant_before=workspace.tenant_before,
            read_only=workspace.read_only,
            keyed=workspace.keyed,
            scopes=workspace.scopes,
            role=str((workspace.tenant or {}).get("role", "")),
            creatable=tuple(str(organization["id"]) for organization in workspace.creatable),
            identity_known=workspace.me is not None,
            draft=self.place.draft if self.place is not None else None,
            applying=workspace.applies.goes_on(workspace.tenant_id),
            undo=self._undo_words(),
            lasting=self.lasting,
            earlier=self.history.earlier is not None,
            later=self.history.later is not None,
        )

    def _undo_words(self) -> str:
        """Return what undo would revert: an unsaved edit on this screen, else the last change."""
        here = self.place.undo_words if self.place is not None else ""
        return here or (self.undoable.words if self.undoable else "")

    def show_keys(self) -> None:
        """Update the footer for the screen and the record under the cursor."""
        situation = self.situation()
        here = actions.of_scope(situation.place, "list", "app")
        wanted = [action for action in here if action.word and self.keys.of(action.id)]
        self.query_one(Footer).show(
            [Key(a.id, self.keys.label(a.id), a.word, not a.reason(situation), always=a.id in ALWAYS) for a in wanted]
        )

    def show_facts(self) -> None:
        """Update the header."""
        self.query_one(Header).show(facts(self.workspace))

    def changed(self, topic: str) -> None:
        """Handle a change of the workspace: notify all open screens, then update header and footer."""
        if not self.is_mounted:
            return
        if topic == "context" or (topic == "tenant" and self._done_in != self.workspace.tenant_id):
            self.undoable, self.lasting = None, ""
            self._end_offer()
        for place in self.query(Place):
            place.changed(topic)
        self.show_facts()
        self.show_keys()

    def toast(self, words: str, severity: Severity = "information") -> str:
        """Show a message and return its text as shown. Control characters are made visible."""
        lines = "\n".join(safe(line, LONGEST_LINE) for line in words.split("\n")[:MOST_LINES])
        self.app.notify(lines, severity=severity, markup=False)
        return lines

    def _end_offer(self) -> None:
        """Remove the message that offers undo, which is outdated."""
        offer, self._offer = self._offer, ""
        self._withdraw(lambda one: one.message == offer)

    @on(Place.Moved)
    def _moved(self) -> None:
        self.show_keys()

    @on(Perform)
    def _asked(self, event: Perform) -> None:
        self.perform(event.action, event.argument)

    @on(Footer.Pressed)
    def _pressed(self, event: Footer.Pressed) -> None:
        self.perform(event.action)

    @on(Undoable)
    def _undoable(self, event: Undoable) -> None:
        self.undoable, self.lasting, self._done_in = event, "", self.workspace.tenant_id
        key = self.keys.label("app.undo")
        self._end_offer()
        self._offer = self.toast(event.words + (f" · {key} takes it back" if key else ""))
        self.show_keys()

    @on(Lasting)
    def _lasting(self, event: Lasting) -> None:
        self.undoable, self.lasting, self._done_in = None, event.words, self.workspace.tenant_id
        self._end_offer()
        self.show_keys()

    # Running actions

    def perform(self, action_id: str, argument: str = "") -> Worker[None] | None:
        """Run an action, or show why it is disabled. Keys, palette, menus, clicks and the `:` line all use it."""
        action = actions.BY_ID[action_id]
        situation = self.situation()
        named = bool(argument) and action.of_named  # the argument selects the record, not the cursor
        reason = (situation.read_only if action.writes else "") if named else action.reason(situation)
        if reason:
            self._refusal = self.toast(f"{action.title}: {reason}", "warning")
            return None
        refusal, self._refusal = self._refusal, ""
        # Only errors may cover a dialog.
        self._withdraw(lambda one: one.message == refusal or (action.dialog and one.severity != "error"))
        target = self if action.scope == actions.ANYWHERE else self.place
        method = getattr(target, action.method)
        result = method(argument) if argument else method()
        if inspect.isawaitable(result):
            return self.app.run_worker(_finish(result), group=action_id, exit_on_error=False)
        return None

    async def action_perform(self, action_id: str) -> None:
        """Run the action of a key. If it opens a dialog, wait until the dialog has the focus: the next key is meant for
        it.
        """
        worker = self.perform(action_id)
        if actions.BY_ID[action_id].dialog:
            for _ in range(OPENING_LOOKS):
                await asyncio.sleep(OPENING_SECONDS / OPENING_LOOKS)
                over = self.app.screen is not self and self.app.focused is not None
                if over or (worker is not None and worker.is_finished):
                    return

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

    async def do_switch_tenant(self) -> None:
        chosen = await self.app.push_screen_wait(routes.load("tui.tenants.switcher:switcher")(self.workspace))
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
        from tui.shell.help import Help, lines

        self._withdraw(lambda _: True)  # messages would cover the help
        situation = self.situation()
        reasons = {action.id: action.reason(situation) for action in actions.ACTIONS}
        assert self.place is not None
        self.app.push_screen(Help(lines(self.place.NAME, self.place.TITLE, self.keys, reasons)))

    async def do_menu(self) -> None:
        from tui.widgets.menu import Entry, Menu

        situation = self.situation()
        entries = [
            Entry(
                action.id, action.title, self.keys.label(action.id), action.command(situation), action.reason(situation)
            )
            for action in actions.of_scope(situation.place)
        ]
        foot = "Enter or its key runs it · Esc leaves"
        chosen = await self.app.push_screen_wait(Menu("Actions", entries, foot=foot))
        if chosen is not None:
            self.perform(chosen)

    async def do_copy(self) -> None:
        from tui.shell.clipboard import copy

        await copy(self)

    async def do_refresh(self) -> None:
        if not await self.workspace.invalidate_credential():
            self.app.post_message(SignInWanted())
        elif self.place is not None:
            self.place.read()

    async def do_undo(self) -> None:
        if self.place is not None and self.place.undo_words:
            self.place.undo()
            return
        undoable, self.undoable = self.undoable, None
        if undoable is None:
            return
        try:
            await undoable.undo()
        except FrostError:
            self.undoable = undoable
            raise
        self._end_offer()
        self.toast(f"Taken back: {undoable.back}")

    def do_activity(self) -> None:
        from tui.shell.audit_target import thing

        assert self.place is not None
        situation, record = self.situation(), self.place.record or {}
        subject = self.place.subject
        own = situation.place in ("versions", "default-tags", "tag-versions", "apply-runs")
        name = (subject.name if subject else self.workspace.name_of(situation.tenant)) if own else ""
        name = name or str(record.get("targetName") or record.get(self.place.KIND.name_key) or "")
        target = thing(situation)
        self.post_message(Travel("activity-of", Subject(situation.tenant, target, name or target)))

    def do_theme(self) -> None:
        from tui.shell import themes

        self.app.theme = self.workspace.state.theme = themes.other(self.app.theme)

    def do_who_am_i(self) -> None:
        shown = facts(self.workspace)
        self.toast(f"{shown.who or 'nobody'} · {shown.how}\n{self.workspace.context}: {self.workspace.endpoint}")

    def do_quit(self) -> None:
        if self.place is not None and self.place.has_class("-detail"):
            self.place.escape()
        else:
            self.app.exit()

    # The `:` line

    def on_command_prompt_closed(self) -> None:
        if self.place is not None:
            self.place.focus_list()

    async def on_command_prompt_entered(self, event: "CommandPrompt.Entered") -> None:
        from tui.shell.command_line import run

        self.workspace.state.lines = event.lines
        await run(self, event.line)


def _fitting(cells: int, breakpoints: list[tuple[int, str]]) -> str:
    """Return the class of the widest breakpoint that fits."""
    return max((start, name) for start, name in breakpoints if start <= cells)[1]


async def _finish(work: Awaitable[Any]) -> None:
    await work
