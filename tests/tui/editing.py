"""The policy editor on the real platform, for tests."""

import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Protocol

import pytest

from client.api import policies as policy_calls
from client.models.iam import Policy
from tests.homes import Home
from tests.tui.screens import Ui, opened
from tui.iam.editor import request
from tui.iam.editor.screen import PolicyEditor
from tui.state.context_state import Limits

POLICY = "deployments"
"""A policy of the demo world with an allow, a limited allow and a deny."""


class Editing:
    """The editor, as a person uses it."""

    def __init__(self, ui: Ui, editor: PolicyEditor) -> None:
        self.ui = ui
        self.editor = editor

    @property
    def text(self) -> str:
        """The document as typed."""
        return self.editor.pane.text

    @property
    def at(self) -> str:
        """The line of the cursor."""
        return str(self.editor.pane.document.get_line(self.editor.pane.cursor_location[0]))

    @property
    def marked(self) -> Mapping[int, str]:
        """Kinds of marks by line from 0."""
        return self.editor.pane.marks.lines

    async def write(self, text: str, **outcome: Any) -> "Editing":
        """Replace the text, as if pasted."""
        self.editor.pane.set_text(text)
        await self.ui.pilot.pause()
        await self.ui.see(**outcome)
        return self

    async def evaluate(self, text: str, **outcome: Any) -> "Editing":
        """Write another text and wait until it is evaluated."""
        await self.write(text)
        await self.answered()
        await self.ui.see(**outcome)
        return self

    async def ask(self, **values: str) -> "Editing":
        """Set values in the request, as an edit by the user, which no initial request replaces."""
        self.editor.form.is_edited = True
        self.editor.form.set_values(values)
        await self.ui.pilot.pause()
        return self

    async def answered(self) -> "Editing":
        """Wait until the newest text is evaluated."""
        values = self.editor.form.values

        def is_evaluated() -> bool:
            evaluation = self.editor.evaluation
            if evaluation.problems or evaluation.error:
                return True
            tried = "verdict" in evaluation.current or evaluation.request_problem or not values.get("operation")
            return bool(tried and {"check", "coverage"} <= evaluation.current)

        return await self.until(is_evaluated, "an evaluation")

    async def change_elsewhere(self, **members: str) -> "Editing":
        """Change the open policy as another user."""
        policy = self.editor.document.policy
        client = await self.ui.app.workspace.client()
        await client.ask(policy_calls.update(self.editor.tenant_id, policy.id, **members))
        return self

    async def until(self, holds: Any, what: str) -> "Editing":
        await self.ui.until(holds, what)
        return self

    async def press(self, *keys: str, **outcome: Any) -> "Editing":
        await self.ui.press(*keys, **outcome)
        return self

    async def expect(self, *words: str) -> "Editing":
        await self.ui.expect(*words)
        return self

    async def gone(self, *words: str) -> "Editing":
        await self.ui.gone(*words)
        return self


class Edit(Protocol):
    """Open the editor on a policy of the demo world by name, or on a new one."""

    async def __call__(self, policy: str | None = POLICY, text: str = "") -> Editing: ...


async def edit_on(ui: Ui, policy: str | None = POLICY, text: str = "") -> Editing:
    """The editor over open screens, once its first text is evaluated."""
    shutil.rmtree(ui.app.state_path.parent / "drafts", ignore_errors=True)
    await ui.until(lambda: ui.app.workspace.me is not None and bool(ui.app.workspace.tenant_id), "the workspace")
    record = await stored(ui, policy) if policy is not None else None
    return await Editing(ui, await push(ui, record, text=text)).answered()


@asynccontextmanager
async def editing(
    home: Home,
    monkeypatch: pytest.MonkeyPatch,
    *,
    policy: str | None = POLICY,
    text: str = "",
    size: tuple[int, int] = (120, 36),
    limits: Limits | None = None,
) -> AsyncIterator[Editing]:
    """The editor on a policy of the demo world by name, or on a new one."""
    async with opened(home, monkeypatch, size=size, limits=limits) as ui:
        yield await edit_on(ui, policy, text)


async def push(ui: Ui, policy: Policy | None, *, text: str = "") -> PolicyEditor:
    """Push the editor as the policies screen does."""
    editor = PolicyEditor(ui.app.workspace, ui.app.keys, policy=policy, text=text)
    await ui.app.push_screen(editor)

    def begun() -> bool:
        operation = request.initial_values(editor.document.base, editor.catalogue).get("operation", "")
        answered = editor.evaluation.current or editor.evaluation.problems
        names = editor.completion.catalogue.names
        return bool(names and answered and editor.form.values.get("operation", "") == operation)

    await ui.until(begun, "the editor")
    return editor


@contextmanager
def hung(home: Home) -> Iterator[None]:
    """The platform of a home takes connections and answers nothing."""
    pid = home.platform_pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


async def policies(ui: Ui) -> list[Policy]:
    """The stored policies of the tenant."""
    client = await ui.app.workspace.client()
    tenant = ui.app.workspace.tenant_id
    return [one async for page in client.pages(policy_calls.page(tenant)) for one in page]


async def stored(ui: Ui, name: str) -> Policy:
    """A stored policy by name."""
    return next(one for one in await policies(ui) if one.name == name)


def document(*rules: str) -> str:
    """A document of rules, each a line."""
    return '{\n  "schemaVersion": "1",\n  "rules": [\n    ' + ",\n    ".join(rules) + "\n  ]\n}\n"


def rule(operations: str, *, access: str = "allow", name: str = "", targets: str = "*", more: str = "") -> str:
    """A rule in one line; `operations` separated by blanks."""
    named = ", ".join(f'"{one}"' for one in operations.split())
    return f'{{"name": "{name}", "access": "{access}", "operations": [{named}], "targets": ["{targets}"]{more}}}'
