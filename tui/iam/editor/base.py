"""The interface of the editor screen that its parts use."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from textual.app import App
from textual.timer import Timer
from textual.widget import Widget

from client.tables.columns import Record
from tui.iam.editor.document import Draft
from tui.iam.editor.evaluation import Answer, Findings, Live
from tui.iam.editor.request_form import RequestForm
from tui.iam.editor.text_pane import PolicyText
from tui.shell.action import ActionContext
from tui.shell.keymap import Keys
from tui.state.notices import Severity
from tui.state.workspace import Workspace

Saved = Mapping[str, Any]
"""The stored policy in wire format."""


class EditorBase(Protocol):
    """The editor as its parts use it. Implemented by `PolicyEditor` (tui/iam/editor/screen.py)."""

    workspace: Workspace
    keys: Keys
    tenant_id: str
    draft: Draft
    catalogue: list[Record]
    found: Findings
    panel_name: str
    saved: Saved | None
    state: str
    pane: PolicyText
    form: RequestForm
    live: Live
    former: Mapping[str, str]
    shown: Mapping[str, str]

    @property
    def app(self) -> App[Any]: ...

    @property
    def focused(self) -> Widget | None: ...

    @property
    def narrow(self) -> bool: ...

    @property
    def example(self) -> Mapping[str, Any] | None: ...

    def set_timer(self, delay: float, callback: Callable[[], Any]) -> Timer: ...

    def call_after_refresh(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool: ...

    def action_look(self, by: int) -> None: ...

    def ask(self, *, at_once: bool = False) -> None: ...

    def close(self) -> None: ...

    def go(self, view: str) -> None: ...

    def leave(self, *, keep: bool) -> None: ...

    def perform(self, action_id: str) -> None: ...

    def say_state(self, words: str) -> None: ...

    def show_facts(self) -> None: ...

    def show_view(self, view: str) -> None: ...

    def action_context(self) -> ActionContext: ...

    def toast(self, words: str, severity: Severity = "information") -> None: ...

    def told(self, answer: Answer) -> None: ...
