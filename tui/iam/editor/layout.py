"""Layout of the policy editor: widgets, header, footer, views of narrow and wide terminals, focus."""

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.reactive import var
from textual.screen import Screen

from client.models.iam import Policy
from client.text import safe
from tui.iam.editor import actions, panel, save
from tui.iam.editor.bars import Tabs, Title, TitleBar, Verdict
from tui.iam.editor.document import Document
from tui.iam.editor.evaluation import Evaluation
from tui.iam.editor.lists import MOVES, Popup
from tui.iam.editor.panel import Panel
from tui.iam.editor.request_form import FieldInput, RequestForm
from tui.iam.editor.text_pane import PolicyText
from tui.shell import keymap
from tui.shell.action import ActionContext
from tui.shell.bars import Footer, Header, Key, TooSmall, header_state
from tui.state.notices import Severity
from tui.state.workspace import Workspace
from tui.terminal.textual_patches import LaysOutOnce

ALWAYS_SHOWN = ("editor.help", "editor.close")
"""Actions that the footer never omits."""


class EditorLayout(LaysOutOnce, Screen[Policy | None]):
    """The widgets of the editor. They are bound to `evaluation`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "hop(1)", show=False),
        Binding("shift+tab", "hop(-1)", show=False),
        Binding("left,h", "look(-1)", show=False),
        Binding("right,l", "look(1)", show=False),
        Binding("enter", "enter", show=False),
        *(Binding(keys, f"move_in_panel({by})", show=False) for keys, by in MOVES),
        Binding("ctrl+c", "app.interrupt", show=False),
    ]
    AUTO_FOCUS = ""
    """Disabled, so that closing a dialog does not focus the text. See `action_look`."""
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-normal"), (110, "-wide")]  # noqa: RUF012  (declared on the base class)
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-tall")]  # noqa: RUF012

    DEFAULT_CSS = """
    EditorLayout {
        background: $background;
        layers: base above;
        & > #views { display: none; }
        & > #strip { display: none; height: 2; }
        & > #main { height: 1fr; }
        #side { width: 45%; min-width: 54; max-width: 120; border-left: solid $border; }
        #panel-views { margin-top: 1; }
        #panel { height: 1fr; margin: 0 1; }
        PolicyText { width: 1fr; height: 1fr; }
        RequestForm { margin-top: 1; }
        &.-normal {
            & > #views, & > #strip { display: block; }
            #side { width: 1fr; border-left: none; }
            #beside, #panel-views { display: none; }
            RequestForm { display: none; height: 1fr; }
            #panel { display: none; }
            &.-view-text #side { display: none; }
            &.-view-request PolicyText, &.-view-panel PolicyText { display: none; }
            &.-view-request RequestForm { display: block; }
            &.-view-panel #panel { display: block; }
        }
        &.-tiny > *, &.-flat > * { display: none; }
        &.-tiny > TooSmall, &.-flat > TooSmall { display: block; }
    }
    """

    evaluation = var(Evaluation())
    panel_view = var(panel.VIEWS[0])
    compared_version = var(0)
    """Version of the stored policy that the text is compared with; 0 for a new policy."""
    newest_version = 0
    """Version of the policy in the list of policies, which follows changes by others."""

    def __init__(
        self,
        workspace: Workspace,
        keys: keymap.Keys,
        document: Document,
        pane: PolicyText,
        form: RequestForm,
        popup: Popup,
    ) -> None:
        super().__init__()
        self.workspace, self.keys, self.document = workspace, keys, document
        self.tenant_id = workspace.tenant_id
        self.status = ""
        """State of a save, or why it failed; empty if there is none."""
        self.note = ""
        """Why requested completions are missing."""
        self._footer: tuple[object, ...] = ()
        self.pane, self.form, self.popup = pane, form, popup
        self.panel = Panel(id="panel")
        self.title_bar = TitleBar()
        self.view = "text"
        """The view that a narrow screen shows: `text`, `request` or one of the panel."""

    def compose(self) -> ComposeResult:
        yield Header()
        yield self.title_bar
        yield Tabs(id="views")
        with Horizontal(id="main"):
            yield self.pane
            with Vertical(id="side"):
                yield self._bound(Verdict(id="beside"))
                yield self.form
                yield Tabs(id="panel-views")
                yield self.panel.data_bind(EditorLayout.evaluation, view=EditorLayout.panel_view)
        yield self._bound(Verdict(lines=2, id="strip"))
        yield Footer()
        yield TooSmall()
        yield self.popup

    @staticmethod
    def _bound(verdict: Verdict) -> Verdict:
        return verdict.data_bind(EditorLayout.evaluation, EditorLayout.compared_version)

    def watch_evaluation(self) -> None:
        if self.is_mounted:
            self.show_tabs()
            self.show_keys()

    # State of the policy and of the actions

    def show_header(self) -> None:
        self.query_one(Header).show(header_state(self.workspace)._replace(note=""))

    def show_title(self) -> None:
        document = self.document
        elsewhere = self.tenant_id != self.workspace.tenant_id  # another shell may have switched the tenant
        tenant = self.workspace.name_of(self.tenant_id) if elsewhere else ""
        status = self.status or self.note
        newest = self.newest_version if self.newest_version > document.version else 0
        self.title_bar.title = Title(document.name, document.version, document.is_changed, status, newest, tenant)

    def show_newest(self, policies: Sequence[Policy]) -> None:
        """Show the version of the policy in the list, if it is newer than the document."""
        self.newest_version = next((policy.version for policy in policies if policy.id == self.document.id), 0)
        self.show_title()

    def show_note(self, note: str) -> None:
        self.note = note
        self.show_title()

    def show_status(self, status: str) -> None:
        self.status = status
        self.show_title()
        self.show_keys()

    def show_keys(self) -> None:
        """Update the footer, if the state of the actions has changed."""
        context = self.action_context()
        state = (context, self.is_typing)
        if state == self._footer:
            return
        self._footer = state
        entries = []
        for action in actions.ACTIONS:
            keys = [key for key in self.keys.of(action.id) if not (self.is_typing and keymap.typed(key))]
            if action.footer_label and keys:
                letter = next((key for key in keys if keymap.typed(key)), keys[0])
                label = keymap.key_text(letter)
                enabled = not action.disabled_reason(context)
                entries.append(Key(action.id, label, action.footer_label, enabled, always=action.id in ALWAYS_SHOWN))
        self.query_one(Footer).show(entries)

    def action_context(self) -> ActionContext:
        """Return the state that determines which actions are enabled."""
        document, evaluation = self.document, self.evaluation
        draft = actions.Draft(
            policy_id=document.id,
            name=document.name,
            can_save=document.can_save,
            is_saving=self.status == save.SAVING,
            invalid_reason=self._invalid_reason,
            problem_line=evaluation.problems[0].line if evaluation.problems else 0,
            problems=len(evaluation.problems) or len(evaluation.warnings),
            counterexamples=len(evaluation.counterexamples),
            is_checked=evaluation.check is not None,
        )
        return ActionContext(
            screen=actions.EDITOR,
            record=draft,
            context_name=self.workspace.context,
            tenant=self.tenant_id,
            read_only=self.workspace.read_only,
            browser=self.app.is_web,
        )

    @property
    def _invalid_reason(self) -> str:
        """Why actions that need a valid text are disabled, and how to continue; empty if it is valid."""
        if not self.evaluation.problems:
            return ""
        key = self.keys.label("editor.problem")
        return "the policy has errors: " + (f"{key} to show the first" if key else "see Problems")

    def toast(self, message: str, severity: Severity = "information") -> None:
        """Show a notification of up to five lines. Untrusted text is escaped."""
        self.app.notify("\n".join(safe(line, 200) for line in message.split("\n")[:5]), severity=severity, markup=False)

    # Views and focus

    @property
    def narrow(self) -> bool:
        """Whether the screen shows one view at a time."""
        return not self.has_class("-wide")

    def show_tabs(self) -> None:
        """Show the titles of the views, with their main results."""
        titles = tuple((view, panel.title(view, self.evaluation)) for view in panel.VIEWS)
        below, above = self.query_one("#panel-views", Tabs), self.query_one("#views", Tabs)
        below.views, below.active = titles, self.panel_view
        above.views, above.active = (("text", "Text"), ("request", "Request"), *titles), self.view

    def show_view(self, view: str) -> None:
        """Show a view: in the panel or, on a narrow screen, alone."""
        if view in panel.VIEWS:
            self.panel_view = view
        self.view = view
        for name, on_ in (("text", view == "text"), ("request", view == "request"), ("panel", view in panel.VIEWS)):
            self.set_class(on_, f"-view-{name}")
        self.show_tabs()

    def go(self, view: str) -> None:
        """Show a view and focus it."""
        self.show_view(view)
        if view == "request":
            self.form.focus_field()
        else:
            self.set_focus(self.pane if view == "text" else self.panel)
        self.focus_changed()

    def focus_changed(self) -> None:
        """Called after the focus or the view has changed."""
        self.show_keys()

    @property
    def is_typing(self) -> bool:
        """Whether characters are text, not keys of actions."""
        return self.focused is self.pane or isinstance(self.focused, FieldInput)

    def fit(self) -> None:
        """Wrap texts again for a new size."""
        for verdict in self.query(Verdict):
            verdict.fit()
        self.show_view(self.view)

    @on(Tabs.Selected)
    def _tab_selected(self, event: Tabs.Selected) -> None:
        self.go(event.view)

    @on(PolicyText.Left)
    def _text_left(self) -> None:
        self.look_at("text" if self.narrow else self.panel_view)

    def action_hop(self, by: int) -> None:
        """Tab: cycle the focus through text, request fields and panel."""
        if isinstance(self.focused, FieldInput) and self.form.step(by):
            return
        if self.focused is None:
            self.action_enter()
            return
        stops = ("text", "request", self.panel_view)
        at = 0 if self.focused is self.pane else 2 if self.focused is self.panel else 1
        stop = stops[(at + by) % len(stops)]
        self.go(stop)
        if stop == "request":
            self.form.focus_end(by)

    def action_look(self, by: int) -> None:
        """Show the previous or next tab. Text and request get the focus only on Enter, so letters are still keys."""
        names = ("text", "request", *panel.VIEWS) if self.narrow else panel.VIEWS
        here = self.view if self.narrow else self.panel_view
        view = names[(names.index(here) + by) % len(names)]
        if view in panel.VIEWS:
            self.go(view)
        else:
            self.look_at(view)

    def look_at(self, view: str) -> None:
        """Show a view without focus, so that letters are keys."""
        self.show_view(view)
        self.set_focus(None)
        self.focus_changed()

    def action_enter(self) -> None:
        """Focus the text, on Enter or Tab if there is no focus; on a narrow screen that shows the request, its fields.

        The panel has the focus only while the user moves in it, so that Enter returns to the text in every other case.
        """
        self.go("request" if self.narrow and self.view == "request" else "text")

    def action_move_in_panel(self, by: int) -> None:
        """Focus the panel, if no widget has the focus and the panel is visible, and move its cursor."""
        if self.focused is None and (self.view in panel.VIEWS or not self.narrow):
            self.go(self.panel_view)
            self.panel.action_move(by)

    def on_descendant_focus(self, _: object) -> None:
        self.focus_changed()
