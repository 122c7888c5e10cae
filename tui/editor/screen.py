"""The policy editor: the text of a policy, and beside it what it would mean, at each key.

It knows the platform only through `Workspace.ask`, and belongs to the tenant it was opened for. What it does beyond
showing stands in modules of their own: saving, narrowing, leaving, the editor outside.
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

from client.errors import FrostError
from client.records import Record
from client.text import safe
from tui import keymaps
from tui.action import Situation
from tui.editor import actions, deeds, outline, request, saving, views
from tui.editor.completion import Catalogue
from tui.editor.draft import Draft
from tui.editor.findings import Findings
from tui.editor.form import FieldInput, RequestForm
from tui.editor.head import Head
from tui.editor.keeping import Keeping
from tui.editor.lines import LineList
from tui.editor.live import Answer, Live
from tui.editor.marks import marks_of
from tui.editor.offering import Offering
from tui.editor.popup import Popup
from tui.editor.tabs import Tabs
from tui.editor.templates import TEMPLATES
from tui.editor.text_pane import PolicyText
from tui.editor.verdict import Verdict
from tui.facts import facts
from tui.notices import Severity
from tui.resizing import Resting
from tui.widgets.footer import Footer, Key
from tui.widgets.header import Header
from tui.widgets.too_small import TooSmall
from tui.workspace import Workspace

Saved = Mapping[str, Any]
"""The stored policy, as on the wire."""
PATIENCE_SECONDS = 0.5
"""How long an answer may take before it is said that one is waited for."""
SIDE = 54
"""Cells of the part beside the text."""
ROOMY = 30
"""Lines of a terminal in which a long reason may take some of the panel's."""
LOOK_SECONDS = 0.5
"""How often a lost connection is looked at."""
ALWAYS = ("editor.help", "editor.close")
"""Never left out of the footer."""


class PolicyEditor(Resting, Screen[Saved | None]):
    """Edits one policy; gives what was stored last, or None.

    Args:
        policy: The stored policy to edit, None for a new one.
        name: Of a new policy.
        text: A new policy's document to begin with; a template when there is none.
        catalogue: The operations, where they are loaded already.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *keymaps.bindings_of(actions.ACTIONS),
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
    """Nobody types into the text because a dialog was closed: see `action_look`."""
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

    # Above the verdict, which the messages of every screen would cover.
    CSS = "PolicyEditor.-normal ToastRack { margin-bottom: 4; }"

    def __init__(
        self,
        workspace: Workspace,
        keys: keymaps.Keys,
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
        self.panel_name = views.VIEWS[0]
        self.saved: Saved | None = None
        self.state = ""
        """What saving is at, or why it did not work; empty when there is nothing to say of it."""
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
        """The request before a counterexample was tried."""
        self.shown: Mapping[str, str] = {}
        """The counterexample that was tried last."""
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
        """Names to complete with; without them everything but completion works."""
        try:
            self.catalogue = list(await self.workspace.ask(lambda client: client.catalogue.operations()))
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
        """Whether one view at a time is shown."""
        return not self.has_class("-wide")

    # What is shown

    def show_facts(self) -> None:
        """The header, and the line below it: what is edited, in which version, and whether it is stored."""
        self.query_one(Header).show(facts(self.workspace, looks_again=False)._replace(note=""))
        elsewhere = self.tenant_id != self.workspace.tenant_id  # another shell may have moved the program on
        tenant = self.workspace.name_of(self.tenant_id) if elsewhere else ""
        said = self.state or self.offering.note
        self.query_one(Head).show(self.draft, self.draft.changed(self.pane.text), said, tenant)

    def say_state(self, words: str) -> None:
        """Say in the head what saving is at."""
        self.state = words
        self.show_facts()
        self.show_keys()

    def show_keys(self) -> None:
        """The footer."""
        situation = self.situation()
        typing = self.focused is self.pane or isinstance(self.focused, FieldInput)
        entries = []
        for action in actions.ACTIONS:
            keys = [key for key in self.keys.of(action.id) if not (typing and keymaps.typed(key))]
            if action.word and keys:
                letter = next((key for key in keys if keymaps.typed(key)), keys[0])
                label = keymaps.shown(letter)
                enabled = not action.reason(situation)
                entries.append(Key(action.id, label, action.word, enabled, always=action.id in ALWAYS))
        self.query_one(Footer).show(entries)

    def show_view(self, view: str) -> None:
        """Show a view: in the panel, or on a narrow screen alone."""
        if view in views.VIEWS:
            self.panel_name = view
        self.view = view
        for name, on_ in (("text", view == "text"), ("request", view == "request"), ("panel", view in views.VIEWS)):
            self.set_class(on_, f"-view-{name}")
        self.show_findings()

    def show_findings(self, kind: str = "") -> None:
        """Verdict, titles, and the panel where an answer of that kind changes it; without one all of it."""
        for verdict in self.query(Verdict):
            verdict.version = self.draft.version
        self._fit_verdicts()
        titles = [(view, views.title(view, self.found)) for view in views.VIEWS]
        self.query_one("#panel-views", Tabs).show(titles, self.panel_name)
        named = [("text", "Text"), ("request", "Request"), *titles]
        self.query_one("#views", Tabs).show(named, self.view)
        if kind in ("", "failure", "problems", views.SOURCE[self.panel_name]) or self.panel_name == "problems":
            # By arithmetic: a panel that comes into sight with these lines has no size yet.
            cells = (self.app.size.width if self.narrow else SIDE) - 4
            self.panel.show(views.lines(self.panel_name, self.found, cells))
        self.show_keys()

    def _fit_verdicts(self) -> None:
        """Give each verdict the height it needs, where the panel keeps enough of its own."""
        for verdict in self.query(Verdict):
            cells = self.app.size.width if verdict.small else SIDE - 1
            verdict.fit(cells - 2, room=self.app.size.height >= ROOMY)
            verdict.refresh()

    def situation(self) -> Situation:
        """What the editor's actions are judged by."""
        found = self.found
        record = self.draft.record(
            self.pane.text,
            unreadable=self._unreadable,
            at_fault=int(self.found.problems[0].get("line", 1)) if self.found.problems else 0,
            saving=self.state == saving.SAVING,
            problems=len(found.problems) or len(found.warnings),
            examples=len(found.examples),
            checked=found.check is not None,
        )
        return Situation(
            place=actions.EDITOR,
            record=record,
            context=self.workspace.context,
            tenant=self.tenant_id,
            read_only=self.workspace.read_only,
            browser=self.app.is_web,
        )

    @property
    def _unreadable(self) -> str:
        """Why nothing can be done with the text as it is, and how to go on; empty when there is no such reason."""
        if not self.found.problems:
            return ""
        key = self.keys.label("editor.problem")
        return "it is no valid policy yet: " + (f"{key} goes to the problem" if key else "see its problems")

    def toast(self, words: str, severity: Severity = "information") -> None:
        """A message at the edge; its text may be foreign."""
        self.app.notify("\n".join(safe(line, 200) for line in words.split("\n")[:5]), severity=severity, markup=False)

    # Asking while it is typed

    def _spawn(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        _: Worker[None] = self.run_worker(work, group="live", exclusive=True, exit_on_error=False)

    def ask(self, *, at_once: bool = False) -> None:
        """Ask about the text and the request as they are now."""
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
            # Nobody has said yet what to try, and the first text could not say it either.
            self._begin_request()
        decides = answer.kind not in ("coverage", "check") or was_unreadable
        if decides and self.pane.text == self._asked[0]:
            self.pane.mark(marks_of(self.found, self.pane.text))
        self.show_findings(answer.kind)
        if answer.kind == "failure":
            self.show_facts()

    def _look_at_link(self) -> None:
        """While nothing answers: once the workspace has a connection again, ask again."""
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
        """The key of the tenant switch: a policy is edited in its tenant."""
        way = self.keys.label("editor.close")
        name = (self.workspace.find(self.tenant_id) or {}).get("displayName") or "its tenant"
        self.toast(
            f"This policy belongs to {name}: leave the editor first" + (f" ({way})" if way else ""),
            "warning",
        )

    def action_perform(self, action_id: str) -> None:
        self.perform(action_id)

    def perform(self, action_id: str) -> None:
        """Run an action, or say why it cannot be run."""
        action = actions.BY_ID[action_id]
        if reason := action.reason(self.situation()):
            self.toast(f"{action.title}: {reason}", "warning")
            return
        result = getattr(deeds, action.method)(self)
        if inspect.isawaitable(result):
            self.run_worker(self._finish(action.title, result), group=action_id, exit_on_error=False)

    async def _finish(self, title: str, work: Awaitable[None]) -> None:
        """Wait for an action; that it could not be done is said."""
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
        """Show a view and give it the keyboard."""
        self.show_view(view)
        if view == "text":
            self.set_focus(self.pane)
        elif view == "request":
            self.form.take_focus()
        else:
            self.set_focus(self.panel)

    def action_back(self) -> None:
        """Esc: from the fields to the text, from a view that is only looked at to the panel.

        It never closes the editor: a key pressed once too often would lose work.
        """
        if self.focused is self.panel:
            keys = " or ".join(map(keymaps.shown, self.keys.of("editor.close")))
            self.toast(f"{keys} closes the editor" if keys else "The palette closes the editor: Leave")
        elif self.focused is None:
            self.go(self.panel_name)
        else:
            self.go("text")

    @on(PolicyText.Left)
    def _left(self) -> None:
        self.go(self.panel_name)

    def action_hop(self, by: int) -> None:
        """Tab: the text, the fields of the request, the panel, and round."""
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
        """The view before or after, round all that the titles name. Letters stay keys: typing begins with Enter."""
        names = ("text", "request", *views.VIEWS) if self.narrow else views.VIEWS
        here = self.view if self.narrow else self.panel_name
        view = names[(names.index(here) + by) % len(names)]
        if view in views.VIEWS:
            self.go(view)
        else:
            self.show_view(view)
            self.set_focus(None)
            self.show_keys()

    def action_enter(self) -> None:
        """Enter or Tab where nothing has the keyboard: type into what is looked at."""
        self.go(self.view)

    def on_resize(self) -> None:
        """What is wrapped is wrapped anew, and a hidden view gives the keyboard to the one that is shown."""
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
            spans = outline.rules(self.pane.text)
            if which < len(spans):
                self.go("text")
                self.pane.show_line(*outline.Lines(self.pane.text).place(spans[which].start))
        elif kind in ("problem", "warning"):
            found = self.found.problems if kind == "problem" else self.found.warnings
            self.go("text")
            self.pane.show_line(int(found[which]["line"]) - 1, int(found[which]["column"]) - 1)
        elif kind == "service":
            self.perform("editor.changes")
        elif kind == "example":
            self.perform("editor.example")

    # What the actions need

    @property
    def example(self) -> Mapping[str, Any] | None:
        """The counterexample under the cursor of the author view, else the first one."""
        ref = self.panel.ref
        at = ref[1] if isinstance(ref, tuple) and ref[0] == "example" else 0
        examples = self.found.examples
        return examples[at] if at < len(examples) else None

    def leave(self, *, keep: bool) -> None:
        """Close the editor; with `keep` the draft stays on disk."""
        if keep:
            self.keeping.now()
        else:
            self.keeping.drop()
        self.close()

    def close(self) -> None:
        """Close the editor; a draft on disk stays as it is."""
        self.keeping.over = True
        self.dismiss(self.saved)

    def on_unmount(self) -> None:
        self.keeping.now()
