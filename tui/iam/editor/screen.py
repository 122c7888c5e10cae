"""The policy editor: the text of a policy and its evaluation, updated on each key.

It sends requests only through `Workspace.ask`, and belongs to the tenant in use when it was opened.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.timer import Timer
from textual.widgets import OptionList, TextArea
from textual.worker import Worker, WorkerState

from client.api import analysis
from client.errors import FrostError
from client.models.analysis import AuthorCheck, CoverageMap, ErrorDetails
from client.models.iam import CatalogueOperation, Policy
from tui.iam.editor import actions, autosave, json_scanner, lists, request, save
from tui.iam.editor.autosave import DraftAutosave
from tui.iam.editor.completion import Catalogue
from tui.iam.editor.document import TEMPLATES, Document
from tui.iam.editor.evaluation import Evaluator, Result, marks_of
from tui.iam.editor.layout import EditorLayout
from tui.iam.editor.lists import CompletionController, LineList, Popup
from tui.iam.editor.request import Request
from tui.iam.editor.request_form import RequestForm
from tui.iam.editor.save import SaveFlow
from tui.iam.editor.text_pane import PolicyText
from tui.shell import keymap
from tui.shell.bars import Footer
from tui.shell.routes import PrincipalLoaded
from tui.state import contexts
from tui.state.workspace import Workspace
from tui.widgets.picker import Menu

OVERDUE_SECONDS = 0.5
"""Delay before the verdict shows that an evaluation is running."""
RECONNECT_SECONDS = 0.5
"""Interval of checks whether a lost connection is back."""


class PolicyEditor(EditorLayout):
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
        Binding("ctrl+t", "stay", show=False, priority=True, id="app.switch_tenant"),
    ]

    # Show notifications at the bottom, above the footer or the verdict: the decision and the state of a save are at the
    # top. Textual limits this to the class of the screen.
    CSS = """
    PolicyEditor ToastRack { dock: bottom; margin: 0 0 2 0; }
    PolicyEditor.-normal ToastRack { margin: 0 0 4 0; }
    """

    def __init__(
        self,
        workspace: Workspace,
        keys: keymap.Keys,
        *,
        policy: Policy | None,
        name: str = "",
        text: str = "",
        catalogue: Sequence[CatalogueOperation] = (),
    ) -> None:
        document = Document.of(policy, name, text or TEMPLATES[0].text)
        pane, popup = PolicyText(document.text), Popup()
        self.completion = CompletionController(
            pane, popup, after_refresh=self.call_after_refresh, note_changed=self.show_note
        )
        first_request = request.initial_values(document.text, catalogue)
        form = RequestForm(first_request, intercept_key=self.completion.handle_key)
        super().__init__(workspace, keys, document, pane, form, popup)
        self._opened_by = contexts.current_action()
        self.catalogue = list(catalogue)
        self.request = Request("", "*", {})
        """The newest valid request, without an operation if the fields are invalid."""
        self.evaluator = Evaluator(workspace.ask, self.tenant_id, publish=self._show_result, spawn=self._spawn)
        self.autosave = DraftAutosave(
            self.document,
            autosave.Store.of(workspace, self.tenant_id),
            lambda: autosave.View(*self.pane.cursor_location, self.form.values),
        )
        self.save_flow = SaveFlow(
            self.document,
            workspace,
            self.tenant_id,
            keys,
            save.Callbacks(
                show_dialog=lambda dialog: self.app.push_screen_wait(dialog),
                show_status=self.show_status,
                notify=self.toast,
                show_problems=self._show_problems,
                show_counterexamples=self._show_counterexamples,
                current_check=lambda: self.evaluation.check if "check" in self.evaluation.current else None,
                rebased=self._rebased,
                keep_draft=self.autosave.save,
                drop_draft=self.autosave.drop,
            ),
            start_platform=workspace.want_platform,
            limits=workspace.limits,
        )
        self.user_values: Mapping[str, str] = {}
        """The user's request before a counterexample replaced it."""
        self.example_values: Mapping[str, str] = {}
        """Field values of the counterexample last put into the request."""
        self.fix_menu: Menu | None = None
        """The open menu of changes that remove excess permissions. It is for one user."""
        self._delays: dict[str, Timer] = {}
        self._draft_failure = ""
        """Why the last automatic save failed; empty if it did not."""
        self._connection = ("", "")
        self._principal = self.principal_id

    def on_mount(self) -> None:
        self._reconnect = self.set_interval(RECONNECT_SECONDS, self._check_connection, pause=True)
        self.evaluator.compare_with(self.document.id, self.document.version)
        self.compared_version = self.document.version
        self.show_view("text")
        self.show_header()
        self.show_title()
        self.show_keys()
        self.set_focus(self.pane)
        if self.catalogue:
            self._use_catalogue()
        else:
            self._run("catalogue", self._load_catalogue)
        self._use_request()
        self.evaluate(at_once=True)
        self._run("draft", self.offer_draft)

    def _run(self, group: str, work: Callable[[], Coroutine[None, None, None]]) -> None:
        _: Worker[None] = self.run_worker(work, group=group, exit_on_error=False)

    async def _load_catalogue(self) -> None:
        """Load the operations. Without them, completion does not offer operations."""
        try:
            self.catalogue = await self.workspace.ask(analysis.operations())
        except FrostError:
            return
        self._use_catalogue()
        self._set_initial_request()

    def _use_catalogue(self) -> None:
        self.completion.catalogue = Catalogue(self.catalogue)
        self.form.set_catalogue(frozenset(self.completion.catalogue.names))

    def _set_initial_request(self) -> None:
        if not (self.form.is_edited or self.request.operation or self.form.values.get("operation")):
            self.form.set_values(request.initial_values(self.document.text, self.catalogue))

    async def offer_draft(self) -> None:
        """Offer the draft on disk. Esc closes the editor and does not change the draft."""
        draft = await self.autosave.load()
        if draft is None:
            self.autosave.is_undecided = False
            await self._update_draft()  # the user may have typed during the load
            return
        choice = await autosave.ask_to_resume(draft, self.document, self.app.push_screen_wait)
        if choice == "resume":
            warning = await autosave.resume(draft, self.document, self.workspace.ask, self.tenant_id)
            self.autosave.is_undecided = False
            if warning:
                self.toast(warning, "warning")
            self.pane.set_text(self.document.text)
            self.pane.show_line(draft.row, draft.column)
            self.form.set_values({name: draft.request[name] for name in request.BY_NAME if name in draft.request})
            self.form.is_edited = bool(draft.request)
            await self._rebased()
        elif choice == "drop":
            self.autosave.is_undecided = False
            await self._update_draft()
        else:
            self.close()

    # Evaluation while typing

    def _spawn(self, group: str, work: Callable[[], Coroutine[None, None, None]] | None) -> None:
        if work is None:
            self.workers.cancel_group(self, group)
        else:
            _: Worker[None] = self.run_worker(work, group=group, exclusive=True, exit_on_error=False)

    def _delay(self, name: str, seconds: float, callback: Callable[[], object]) -> None:
        """Call a function after a pause. Each call with the same name starts the pause again."""
        if name in self._delays:
            self._delays[name].stop()
        self._delays[name] = self.set_timer(seconds, callback)

    def evaluate(self, *, text_changed: bool = True, at_once: bool = False) -> None:
        """Evaluate the current text and request. `at_once` omits the delay."""
        self.evaluation = self.evaluation.edited(self.request, text_changed=text_changed)
        self._delay("overdue", OVERDUE_SECONDS, self._mark_overdue)
        self.evaluator.evaluate(self.document.text, self.request, at_once=at_once)

    def _mark_overdue(self) -> None:
        expected = "verdict" if self.request.operation else "check"
        if expected not in self.evaluation.current and not self.evaluation.stale_reason:
            self.evaluation = replace(self.evaluation, overdue=True)

    def _show_result(self, result: Result) -> None:
        """Show a result of the evaluator, here and in all widgets bound to the evaluation."""
        before, link = self.evaluation, self.workspace.link
        evaluation = before.with_result(result, platform_stopped=link.stopped)
        self.evaluation = evaluation.at_cursor(*self.pane.cursor_location)
        if evaluation.error is not None and evaluation.error.code != contexts.CONTEXT_CHANGED:
            self._reconnect.resume()
        if isinstance(result, CoverageMap):
            self._set_initial_request()  # the first text may not have contained an operation
        if not isinstance(result, CoverageMap | AuthorCheck) or before.problems:
            self.pane.marks = marks_of(self.evaluation, self.document.text)
        connection = (link.state, link.latency)
        if connection != self._connection:
            self._connection = connection
            self.show_header()
            self.show_title()

    def _check_connection(self) -> None:
        """After a lost connection: evaluate again once the workspace is connected."""
        self.show_header()
        if self.workspace.link.state == "up":
            self._reconnect.pause()
            self.evaluate(at_once=True)

    @property
    def principal_id(self) -> str:
        """The id of the principal; empty until it is loaded."""
        return self.workspace.me.id if self.workspace.me is not None else ""

    @on(PrincipalLoaded)
    def _principal_loaded(self) -> None:
        """Evaluate again for another principal, whose permissions limit the policy."""
        self.show_header()
        self.show_title()
        self.show_keys()
        if self.principal_id and self.principal_id != self._principal:
            self._principal = self.principal_id
            if self.fix_menu is not None and self.fix_menu.is_current:
                self.fix_menu.dismiss(None)
            self.evaluator.forget_analysis()
            self.evaluate(at_once=True)

    @on(TextArea.Changed)
    def _text_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        if not self.read_text():
            return
        self.evaluate()
        if self.pane.intercept_key is not None:
            self.completion.close()
        if self.pane.is_typed:
            self._delay("completion", lists.COMPLETION_SECONDS, self._complete)
        self._delay("autosave", autosave.AUTOSAVE_SECONDS, self._autosave)
        self.show_title()

    def read_text(self) -> bool:
        """Take over the text as typed. Return whether it has changed."""
        before, self.document.text = self.document.text, self.pane.text
        return before != self.document.text

    @on(PolicyText.CompletionWanted)
    def _completion_wanted(self) -> None:
        self.read_text()
        self.perform("editor.complete")

    def _complete(self) -> None:
        if self.focused is self.pane:
            self.completion.complete_text(self.document.text, unasked=True)

    def _autosave(self) -> None:
        if not self.autosave.is_undecided:
            self._run("autosave", self._update_draft)

    async def _update_draft(self) -> None:
        """Update the draft on disk. Report the first failure in a row."""
        reported, self._draft_failure = self._draft_failure, await self.autosave.update()
        if self._draft_failure and not reported:
            self.toast(f"Draft not kept: {self._draft_failure}", "warning")

    @on(TextArea.SelectionChanged)
    def _cursor_moved(self, event: TextArea.SelectionChanged) -> None:
        event.stop()
        self.evaluation = self.evaluation.at_cursor(*self.pane.cursor_location)

    @on(RequestForm.Typed)
    def _field_typed(self, event: RequestForm.Typed) -> None:
        if event.is_longer:
            self.completion.complete_field(event.field, event.entry)
        else:
            self.completion.close()

    @on(OptionList.OptionSelected, "#popup")
    def _choice_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.completion.insert(self.popup.choices[event.option_index])

    @on(RequestForm.Changed)
    def _request_changed(self) -> None:
        if self._use_request():
            self.evaluate(text_changed=False)

    def _use_request(self) -> bool:
        """Take over the request of the form. Return whether it differs from the newest one."""
        before, entered = self.request, self.form.request
        self.request = Request("", before.target, before.facts) if entered is None else entered
        if entered is None:
            self.evaluation = self.evaluation.with_request_problem("the request is not valid")
        return self.request != before or self.evaluation.request is None

    @on(Worker.StateChanged)
    def _worker_changed(self, event: Worker.StateChanged) -> None:
        """Pass the failure of a worker to the application, which shows it. Textual does not bubble the event."""
        event.stop()
        if event.state is WorkerState.ERROR:
            self.app.post_message(Worker.StateChanged(event.worker, event.state))

    # Keys

    def action_stay(self) -> None:
        """Refuse to switch the tenant, because a policy is edited in its tenant."""
        key = self.keys.label("editor.close")
        tenant = self.workspace.find(self.tenant_id)
        name = tenant.display_name if tenant is not None else "its tenant"
        self.toast(
            f"This policy belongs to {name}: close the editor first" + (f" ({key})" if key else ""),
            "warning",
        )

    def action_perform(self, action_id: str) -> None:
        self.perform(action_id)

    def perform(self, action_id: str) -> None:
        """Run an action, or show why it is disabled."""
        self.read_text()
        action = actions.BY_ID[action_id]
        if reason := action.disabled_reason(self.action_context()):
            self.toast(f"{action.title}: {reason}", "warning")
            return
        if action.opens_dialog:
            self.app.clear_notifications()  # a dialog shows them a second time
        if action.is_async:
            finish = partial(self._finish, action.title, partial(action.run, self))
            work = partial(contexts.run_as, self._opened_by, finish)
            _: Worker[None] = self.run_worker(work, group=action_id, exit_on_error=False)
        else:
            action.run(self)

    async def _finish(self, title: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except FrostError as error:
            self.toast(f"{title}: {error.message}", "error")

    @on(Footer.Pressed)
    def _key_pressed(self, event: Footer.Pressed) -> None:
        self.perform(event.action)

    def action_back(self) -> None:
        """Go from the fields to the text, and from the panel to no focus; on a narrow screen, to the text.

        It never closes the editor, so that an extra key press does not lose work.
        """
        if self.narrow and self.view != "text":
            self.look_at("text")
        elif not self.narrow and self.focused is self.panel:
            self.look_at(self.panel_view)
        elif self.narrow or self.focused is None:
            keys = " or ".join(map(keymap.key_text, self.keys.of("editor.close")))
            self.toast(f"{keys} closes the editor" if keys else "The palette closes the editor: Close editor")
        else:
            self.go("text")

    def on_resize(self) -> None:
        """Wrap the text again for the new size, after the layout. Completions may belong to a view that is hidden."""
        self.completion.close()
        self.call_after_refresh(self.fit)

    def focus_changed(self) -> None:
        self.completion.close()
        super().focus_changed()

    @on(LineList.Chosen)
    def _line_chosen(self, event: LineList.Chosen) -> None:
        if event.ref is None:
            self.go("text")
            return
        kind, index = event.ref.kind, event.ref.index
        if kind == "rule":
            spans = json_scanner.rules(self.document.text)
            if index < len(spans):
                self.go("text")
                self.pane.show_line(*json_scanner.Lines(self.document.text).place(spans[index].start))
        elif kind in ("problem", "warning"):
            problem = (self.evaluation.problems if kind == "problem" else self.evaluation.warnings)[index]
            self.go("text")
            self.pane.show_line(problem.line - 1, problem.column - 1)
        else:
            self.look_at(self.panel_view)  # the next Enter, after a dialog, returns to the text
            self.perform("editor.changes" if kind == "service" else "editor.example")

    # Saving and closing

    async def _rebased(self) -> None:
        """Compare with the stored version that the document is based on now."""
        self.evaluator.compare_with(self.document.id, self.document.version)
        self.compared_version = self.document.version
        self.evaluate(at_once=True)
        self.show_title()

    def _show_problems(self, error: FrostError) -> None:
        self._show_result(error)
        self.go("problems")

    def _show_counterexamples(self, details: ErrorDetails) -> None:
        self.evaluation = self.evaluation.with_refusal(details)
        self.go("author")

    async def leave(self, *, keep: bool) -> bool:
        """Close the editor. Delete the draft on disk or, with `keep`, write it.

        Return False if the draft cannot be written. The editor then stays open, because it has the only copy.
        """
        self.read_text()
        if not keep:
            self.autosave.is_closed = True  # an automatic save would write the draft again
            await self.autosave.drop()
        elif reason := await self.autosave.save():
            advice = "Save the policy, or free space or correct the permissions there, then close again"
            self.toast(f"Draft not kept: {reason}" + ("" if self.autosave.is_undecided else f"\n{advice}"), "error")
            return False
        self.close()
        return True

    def close(self) -> None:
        """Close the editor without a change to the draft on disk."""
        self.autosave.is_closed = True
        self.dismiss(self.document.saved)

    async def on_unmount(self) -> None:
        self.document.text = self.pane.text
        await self.autosave.save()
