"""The policy editor: the text of a policy and its evaluation, updated on each key.

It sends requests only through `Workspace.ask`, and belongs to the tenant in use when it was opened. Saving,
narrowing, closing and the external editor are in separate modules.
"""

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import TextArea
from textual.worker import Worker

from client.api import analysis
from client.errors import FrostError
from client.tables.columns import Record
from client.text import safe
from tui.iam.editor import actions, json_scanner, panel, request, save
from tui.iam.editor.autosave import Keeping
from tui.iam.editor.base import Saved
from tui.iam.editor.completion import Catalogue
from tui.iam.editor.completion_popup import Offering, Popup
from tui.iam.editor.document import TEMPLATES, Draft
from tui.iam.editor.evaluation import Answer, Findings, Live, marks_of
from tui.iam.editor.panel_widgets import Head, LineList, Tabs
from tui.iam.editor.request_form import FieldInput, RequestForm
from tui.iam.editor.text_pane import PolicyText
from tui.iam.editor.verdict import Verdict
from tui.shell import keymap
from tui.shell.action import ActionContext
from tui.shell.footer import Footer, Key, TooSmall
from tui.shell.header import Header, header_state
from tui.state.notices import Severity
from tui.state.workspace import Workspace
from tui.terminal.textual_patches import IgnoresOldSizes

PATIENCE_SECONDS = 0.5
"""Delay before the verdict shows that an evaluation is running."""
SIDE = 54
"""Width of the area to the right of the text, in cells."""
ROOMY = 30
"""Minimum lines of the terminal for a verdict that may take lines from the panel."""
LOOK_SECONDS = 0.5
"""Interval of checks whether a lost connection is back."""
ALWAYS = ("editor.help", "editor.close")
"""Actions that the footer never omits."""


class PolicyEditor(IgnoresOldSizes, Screen[Saved | None]):
    """Edits a policy. Returns the policy as last saved, or None.

    Args:
        policy: The stored policy to edit; None for a new policy.
        name: Name of a new policy.
        text: Initial document of a new policy; a template by default.
        catalogue: The operations, if already loaded.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *keymap.bindings_of(actions.ACTIONS),
        Binding("escape", "back", show=False),
        Binding("tab", "hop(1)", show=False),
        Binding("shift+tab", "hop(-1)", show=False),
        Binding("left,h", "look(-1)", show=False),
        Binding("right,l", "look(1)", show=False),
        Binding("enter", "enter", show=False),
        Binding("ctrl+c", "app.interrupt", show=False),
        Binding("ctrl+t", "stay", show=False, priority=True, id="app.switch_tenant"),
    ]
    AUTO_FOCUS = ""
    """Disabled, so that closing a dialog does not focus the text. See `action_look`."""
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-normal"), (110, "-wide")]  # noqa: RUF012  (declared on the base class)
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-tall")]  # noqa: RUF012

    DEFAULT_CSS = """
    PolicyEditor {
        background: $background;
        layers: base above;
        & > #views { display: none; }
        & > #strip { display: none; height: 2; }
        & > #main { height: 1fr; }
        #side { width: 54; border-left: solid $border; }
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

    # Show notifications above the verdict instead of on it.
    CSS = "PolicyEditor.-normal ToastRack { margin-bottom: 4; }"

    def __init__(
        self,
        workspace: Workspace,
        keys: keymap.Keys,
        *,
        policy: Record | None,
        name: str = "",
        text: str = "",
        catalogue: Sequence[Record] = (),
    ) -> None:
        super().__init__()
        self.workspace = workspace
        self.keys = keys
        self.tenant_id = workspace.tenant_id
        self.draft = Draft.of(policy, name, text or TEMPLATES[0].text)
        self.catalogue = list(catalogue)
        self.found = Findings()
        self.view = "text"
        self.panel_name = panel.VIEWS[0]
        self.saved: Saved | None = None
        self.state = ""
        """State of a save, or why it failed; empty if there is none."""
        self.popup = Popup()
        self.offering = Offering(self, self.popup)
        self.pane = PolicyText(self.draft.base, first=self.offering.key)
        beginning = request.beginning(self.draft.base, self.catalogue)
        self.form = RequestForm(beginning, first=self.offering.key)
        self.live = Live(
            workspace, self.tenant_id, self.draft.id, self.draft.version, tell=self.told, spawn=self._spawn
        )
        self.panel = LineList(id="panel")
        self.former: Mapping[str, str] = {}
        """The user's request before a counterexample replaced it."""
        self.shown: Mapping[str, str] = {}
        """Field values of the counterexample last put into the request."""
        self._asked = ("", request.Request("", "*", {}))
        self.keeping = Keeping(self)

    # Layout

    def compose(self) -> ComposeResult:
        yield Header()
        yield Head()
        yield Tabs(id="views")
        with Horizontal(id="main"):
            yield self.pane
            with Vertical(id="side"):
                yield Verdict(self.found, id="beside")
                yield self.form
                yield Tabs(id="panel-views")
                yield self.panel
        yield Verdict(self.found, lines=2, id="strip")
        yield Footer()
        yield TooSmall()
        yield self.popup

    def on_mount(self) -> None:
        self._patience = self.set_timer(PATIENCE_SECONDS, self._waited)
        self._look = self.set_interval(LOOK_SECONDS, self._look_at_link, pause=True)
        self.show_view("text")
        self.show_facts()
        self.set_focus(self.pane)
        if not self.catalogue:
            _: Worker[None] = self.run_worker(self._load_catalogue, group="catalogue", exit_on_error=False)
        else:
            self._know_catalogue()
        self.ask(at_once=True)
        _ = self.run_worker(self.keeping.offer, group="draft", exit_on_error=False)

    async def _load_catalogue(self) -> None:
        """Load the operations. Without them, completion does not offer operations."""
        try:
            self.catalogue = [operation.wire() for operation in await self.workspace.ask(analysis.operations())]
        except FrostError:
            return
        self._know_catalogue()
        self._begin_request()

    def _begin_request(self) -> None:
        if not self.form.values.get("operation"):
            self.form.put(request.beginning(self.pane.text, self.catalogue))

    def _know_catalogue(self) -> None:
        self.offering.catalogue = Catalogue(self.catalogue)
        self.form.know(frozenset(self.offering.catalogue.names))

    @property
    def narrow(self) -> bool:
        """Whether the screen shows one view at a time."""
        return not self.has_class("-wide")

    # Display

    def show_facts(self) -> None:
        self.query_one(Header).show(header_state(self.workspace)._replace(note=""))
        elsewhere = self.tenant_id != self.workspace.tenant_id  # another shell may have switched the tenant
        tenant = self.workspace.name_of(self.tenant_id) if elsewhere else ""
        said = self.state or self.offering.note
        self.query_one(Head).show(self.draft, self.draft.changed(self.pane.text), said, tenant)

    def say_state(self, words: str) -> None:
        self.state = words
        self.show_facts()
        self.show_keys()

    def show_keys(self) -> None:
        context = self.action_context()
        typing = self.focused is self.pane or isinstance(self.focused, FieldInput)
        entries = []
        for action in actions.ACTIONS:
            keys = [key for key in self.keys.of(action.id) if not (typing and keymap.typed(key))]
            if action.footer_label and keys:
                letter = next((key for key in keys if keymap.typed(key)), keys[0])
                label = keymap.key_text(letter)
                enabled = not action.disabled_reason(context)
                entries.append(Key(action.id, label, action.footer_label, enabled, always=action.id in ALWAYS))
        self.query_one(Footer).show(entries)

    def show_view(self, view: str) -> None:
        """Show a view: in the panel or, on a narrow screen, alone."""
        if view in panel.VIEWS:
            self.panel_name = view
        self.view = view
        for name, on_ in (("text", view == "text"), ("request", view == "request"), ("panel", view in panel.VIEWS)):
            self.set_class(on_, f"-view-{name}")
        self.show_findings()

    def show_findings(self, kind: str = "") -> None:
        """Update verdict and tabs, and the panel if results of `kind` affect it. By default, update all."""
        for verdict in self.query(Verdict):
            verdict.version = self.draft.version
        self._fit_verdicts()
        titles = [(view, panel.title(view, self.found)) for view in panel.VIEWS]
        self.query_one("#panel-views", Tabs).show(titles, self.panel_name)
        named = [("text", "Text"), ("request", "Request"), *titles]
        self.query_one("#views", Tabs).show(named, self.view)
        if kind in ("", "failure", "problems", panel.SOURCE[self.panel_name]) or self.panel_name == "problems":
            # Computed, because a panel that has just become visible has no size yet.
            cells = (self.app.size.width if self.narrow else SIDE) - 4
            self.panel.show(panel.lines(self.panel_name, self.found, cells))
        self.show_keys()

    def _fit_verdicts(self) -> None:
        """Fit the height of each verdict to its text, on large terminals at the expense of the panel."""
        for verdict in self.query(Verdict):
            cells = self.app.size.width if verdict.small else SIDE - 1
            verdict.fit(cells - 2, room=self.app.size.height >= ROOMY)
            verdict.refresh()

    def action_context(self) -> ActionContext:
        """Return the state that determines which actions are enabled."""
        found = self.found
        record = self.draft.record(
            self.pane.text,
            unreadable=self._unreadable,
            at_fault=int(self.found.problems[0].get("line", 1)) if self.found.problems else 0,
            saving=self.state == save.SAVING,
            problems=len(found.problems) or len(found.warnings),
            examples=len(found.examples),
            checked=found.check is not None,
        )
        return ActionContext(
            screen=actions.EDITOR,
            record=record,
            context_name=self.workspace.context,
            tenant=self.tenant_id,
            read_only=self.workspace.read_only,
            browser=self.app.is_web,
        )

    @property
    def _unreadable(self) -> str:
        """Why actions that need a valid text are disabled, and how to continue; empty if it is valid."""
        if not self.found.problems:
            return ""
        key = self.keys.label("editor.problem")
        return "it is no valid policy yet: " + (f"{key} goes to the problem" if key else "see its problems")

    def toast(self, words: str, severity: Severity = "information") -> None:
        """Show a notification of up to five lines. Untrusted text is escaped."""
        self.app.notify("\n".join(safe(line, 200) for line in words.split("\n")[:5]), severity=severity, markup=False)

    # Evaluation while typing

    def _spawn(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        _: Worker[None] = self.run_worker(work, group="live", exclusive=True, exit_on_error=False)

    def ask(self, *, at_once: bool = False) -> None:
        """Evaluate the current text and request. `at_once` omits the delay."""
        wanted = self.form.request
        if wanted is None:
            self.found.request_problem = "the request cannot be tried as it is"
            self.found.fresh["verdict"] = False
            wanted = request.Request("", self._asked[1].target, self._asked[1].facts)
        self._asked = (self.pane.text, wanted)
        self.found.typed(wanted)
        self._patience.reset()
        self._patience.resume()
        self.live.ask(*self._asked, at_once=at_once)

    def _waited(self) -> None:
        for verdict in self.query(Verdict):
            verdict.asking = not self.found.fresh and not self.found.stale
            verdict.refresh()

    def told(self, answer: Answer) -> None:
        was_unreadable = bool(self.found.problems)
        self.found.take(answer)
        self.found.stopped = self.workspace.link.stopped
        self.found.stand_at(*self.pane.cursor_location)
        for verdict in self.query(Verdict):
            verdict.asking = False
        if self.found.lost is not None:
            self._look.resume()
        if answer.kind == "coverage" and not self.form.touched:
            # The user has not edited the request, and the first text may not have contained an operation.
            self._begin_request()
        decides = answer.kind not in ("coverage", "check") or was_unreadable
        if decides and self.pane.text == self._asked[0]:
            self.pane.mark(marks_of(self.found, self.pane.text))
        self.show_findings(answer.kind)
        if answer.kind == "failure":
            self.show_facts()

    def _look_at_link(self) -> None:
        """After a lost connection: evaluate again once the workspace is connected."""
        self.show_facts()
        if self.workspace.link.state == "up":
            self._look.pause()
            self.ask(at_once=True)

    @on(TextArea.Changed)
    def _typed(self, event: TextArea.Changed) -> None:
        event.stop()
        if self.pane.text == self._asked[0]:
            return
        self.ask()
        self.offering.later()
        _: Worker[None] = self.run_worker(self.keeping.soon, group="keep", exclusive=True, exit_on_error=False)
        self.show_facts()

    @on(TextArea.SelectionChanged)
    def _moved(self, event: TextArea.SelectionChanged) -> None:
        event.stop()
        if self.found.stand_at(*self.pane.cursor_location):
            self._fit_verdicts()

    @on(RequestForm.Typed)
    def _field_typed(self, event: RequestForm.Typed) -> None:
        if event.wrote:
            self.offering.in_field(event.field, event.entry)
        else:
            self.offering.close()

    @on(Popup.Taken)
    def _taken(self, event: Popup.Taken) -> None:
        self.offering.take(event.choice)

    @on(RequestForm.Changed)
    def _request_changed(self) -> None:
        self.ask()
        self.show_findings()

    # Keys

    def action_stay(self) -> None:
        """Refuse to switch the tenant, because a policy is edited in its tenant."""
        way = self.keys.label("editor.close")
        name = (self.workspace.find(self.tenant_id) or {}).get("displayName") or "its tenant"
        self.toast(
            f"This policy belongs to {name}: leave the editor first" + (f" ({way})" if way else ""),
            "warning",
        )

    def action_perform(self, action_id: str) -> None:
        self.perform(action_id)

    def perform(self, action_id: str) -> None:
        """Run an action, or show why it is disabled."""
        action = actions.BY_ID[action_id]
        if reason := action.disabled_reason(self.action_context()):
            self.toast(f"{action.title}: {reason}", "warning")
            return
        result = action.run(self)
        if inspect.isawaitable(result):
            self.run_worker(self._finish(action.title, result), group=action_id, exit_on_error=False)

    async def _finish(self, title: str, work: Awaitable[None]) -> None:
        try:
            await work
        except FrostError as error:
            self.toast(f"{title}: {error.message}", "error")

    @on(Footer.Pressed)
    def _pressed(self, event: Footer.Pressed) -> None:
        self.perform(event.action)

    @on(Tabs.Picked)
    def _picked(self, event: Tabs.Picked) -> None:
        self.go(event.view)

    def go(self, view: str) -> None:
        """Show a view and focus it."""
        self.show_view(view)
        if view == "text":
            self.set_focus(self.pane)
        elif view == "request":
            self.form.take_focus()
        else:
            self.set_focus(self.panel)

    def action_back(self) -> None:
        """Esc: move the focus from the fields to the text, and from a view without focus to the panel.

        It never closes the editor, so that an extra key press does not lose work.
        """
        if self.focused is self.panel:
            keys = " or ".join(map(keymap.key_text, self.keys.of("editor.close")))
            self.toast(f"{keys} closes the editor" if keys else "The palette closes the editor: Leave")
        elif self.focused is None:
            self.go(self.panel_name)
        else:
            self.go("text")

    @on(PolicyText.Left)
    def _left(self) -> None:
        self.go(self.panel_name)

    def action_hop(self, by: int) -> None:
        """Tab: cycle the focus through text, request fields and panel."""
        if isinstance(self.focused, FieldInput) and self.form.step(by):
            return
        if self.focused is None:
            self.action_enter()
            return
        stops = ("text", "request", self.panel_name)
        at = 0 if self.focused is self.pane else 2 if self.focused is self.panel else 1
        stop = stops[(at + by) % len(stops)]
        self.go(stop)
        if stop == "request":
            self.form.take_end(by)

    def action_look(self, by: int) -> None:
        """Show the previous or next tab. Text and request get the focus only on Enter, so letters are still keys."""
        names = ("text", "request", *panel.VIEWS) if self.narrow else panel.VIEWS
        here = self.view if self.narrow else self.panel_name
        view = names[(names.index(here) + by) % len(names)]
        if view in panel.VIEWS:
            self.go(view)
        else:
            self.show_view(view)
            self.set_focus(None)
            self.show_keys()

    def action_enter(self) -> None:
        """Focus the visible view, on Enter or Tab if there is no focus."""
        self.go(self.view)

    def on_resize(self) -> None:
        """Wrap the text again for the new size, after the layout."""
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        self.show_view(self.view)
        self.show_facts()

    def on_descendant_focus(self) -> None:
        self.offering.close()
        self.show_keys()

    @on(LineList.Chosen)
    def _chosen(self, event: LineList.Chosen) -> None:
        kind, which = event.ref
        if kind == "rule":
            spans = json_scanner.rules(self.pane.text)
            if which < len(spans):
                self.go("text")
                self.pane.show_line(*json_scanner.Lines(self.pane.text).place(spans[which].start))
        elif kind in ("problem", "warning"):
            found = self.found.problems if kind == "problem" else self.found.warnings
            self.go("text")
            self.pane.show_line(int(found[which]["line"]) - 1, int(found[which]["column"]) - 1)
        elif kind == "service":
            self.perform("editor.changes")
        elif kind == "example":
            self.perform("editor.example")

    # Used by the actions

    @property
    def example(self) -> Mapping[str, Any] | None:
        """The counterexample under the cursor of the author view, or the first; None without any."""
        ref = self.panel.ref
        at = ref[1] if isinstance(ref, tuple) and ref[0] == "example" else 0
        examples = self.found.examples
        return examples[at] if at < len(examples) else None

    def leave(self, *, keep: bool) -> None:
        """Close the editor. Delete the draft on disk or, with `keep`, write it."""
        if keep:
            self.keeping.now()
        else:
            self.keeping.drop()
        self.close()

    def close(self) -> None:
        """Close the editor without a change to the draft on disk."""
        self.keeping.over = True
        self.dismiss(self.saved)

    def on_unmount(self) -> None:
        self.keeping.now()
