"""A program for a pty: every widget of the screens filled with hostile text, one after the other on any key.

With `bare` as argument it shows Textual's own widgets with raw text, which only the line filter makes safe.
At its end it writes the classes that were on the screen into the file named last.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from textual.app import ComposeResult
from textual.content import Content
from textual.geometry import Offset
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Button, Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from client.models.account import GrantableScope
from client.models.analysis import (
    AuthorCheck,
    DocumentProblem,
    NamedResource,
    PrincipalEffect,
    Simulation,
    TargetCoverage,
)
from client.models.base import Person
from client.models.default_tags import ApplyOperation, ApplyProgress, ApplyRun, Counts
from client.models.iam import Policy
from client.models.quotas import Quota
from client.models.tenants import Step
from client.quota_rules import Foreseen
from client.tables.columns import TENANT
from client.text import safe
from client.texts.effects import Effect
from tui.account.key_create import NewSecret
from tui.account.key_form import KeyDraft, KeyForm
from tui.account.rotate_dialog import Rotation
from tui.account.screen import LastOwner, Profile
from tui.contexts.sign_in import Contacting, DeviceCode, SessionEnded
from tui.default_tags.apply_text import Summary, progress_lines
from tui.default_tags.dialogs import Listing, ListingConfirm, TagConflict, TagForm
from tui.default_tags.versions import difference_lines
from tui.iam.editor.bars import Tabs, Title, TitleBar, Verdict
from tui.iam.editor.completion import Choice
from tui.iam.editor.evaluation import Evaluation
from tui.iam.editor.lists import Line as ListLine
from tui.iam.editor.lists import LineList, Popup
from tui.iam.editor.panel import Panel
from tui.iam.editor.request import FIELDS
from tui.iam.editor.request_form import RequestForm
from tui.iam.editor.review import Review
from tui.iam.editor.text_pane import PolicyText
from tui.iam.effects import Difference, EffectConfirm
from tui.quotas.request_dialog import QuotaForm
from tui.quotas.what_if import QuotaPlanner
from tui.shell.bars import Footer, Header, HeaderState, Key, Navigation
from tui.shell.command_prompt import CommandPrompt
from tui.shell.palette import Entry as Found
from tui.shell.palette import Help, Line, Palette
from tui.state.preferences import RememberedTenant
from tui.state.tag_draft import TagDraft
from tui.tenants.screen import Steps
from tui.tenants.switcher import TenantSwitcher
from tui.terminal.textual_patches import KeyQueueApp
from tui.widgets.detail import Detail
from tui.widgets.dialog import Confirm
from tui.widgets.form import Field, Form
from tui.widgets.heading import Heading
from tui.widgets.picker import Entry, Menu, Picker
from tui.widgets.record_table import RecordTable

STRINGS: list[str] = json.loads(Path(sys.argv[1]).read_text())
SHOWN = Path(sys.argv[2])
BARE = sys.argv[3:] == ["bare"]


def rows() -> list[RememberedTenant]:
    return [
        RememberedTenant(f"id {number} {text}", text, slug=text, status=text, organization_name=text)
        for number, text in enumerate(STRINGS)
    ]


def principal(text: str) -> PrincipalEffect:
    changes = {"gained": [text], "lost": [text], "gainedCount": 1, "lostCount": 1, "inert": True}
    return PrincipalEffect(id=text, type=text, name=text, policies_before=1, policies_after=0, **changes)


def policy(text: str) -> Policy:
    members = {
        "id": text,
        "description": text,
        "createdAt": "2026-01-01T00:00:00Z",
        "updatedAt": "2026-01-01T00:00:00Z",
    }
    return Policy.model_validate({**members, "name": "", "document": {}})


def coverage(text: str) -> TargetCoverage:
    return TargetCoverage(target=text, gained=(text,), lost=(text,))


def scope(text: str) -> GrantableScope:
    return GrantableScope(scope=text, description=text, operations=1, held=False, lacks=(text,), enforced=False)


def tags(text: str) -> list[Content]:
    """The difference of two hostile sets of tags."""
    draft = TagDraft({text: "x", f"{text} changed": text}, 1)
    draft.tags = {f"{text} new": text, f"{text} changed": f"{text} otherwise"}
    return difference_lines(draft.changes, [f"{text} changed"])


async def never(_: object) -> None:
    """Send nothing."""


class Search(Palette):
    """The palette with the results of a search in hostile names."""

    def __init__(self, text: str) -> None:
        super().__init__(self.hostile_entries)
        self.text = text

    def hostile_entries(self, typed: str) -> Iterator[Found]:
        yield Found(safe(self.text, 60), "x", safe(self.text, 60), lambda: None)


class Parts(Screen[None]):
    """The parts of the policy editor, and the `:` line."""

    CSS = "Parts { layers: base above; } PolicyText, LineList { height: 4; }"

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        text = self.text
        problem = DocumentProblem(path=text, reason=text, suggestions=(text,))
        rule = {"index": 0, "name": text, "failed": text}
        verdict = Simulation.model_validate(
            {"decision": text, "reason": text, "rules": [], "nearestRule": rule, "missing": [{"key": text}]}
        )
        check = AuthorCheck(answer=text, counterexamples=())
        yield TitleBar()
        yield Tabs()
        invalid, failed = Verdict(), Verdict()
        invalid.set_reactive(Verdict.evaluation, Evaluation(problems=[problem]))
        failed.set_reactive(Verdict.evaluation, Evaluation(verdict=verdict, check=check, request_problem=text))
        yield invalid
        yield failed
        panel = Panel()
        panel.set_reactive(Panel.evaluation, Evaluation(problems=[problem]))
        panel.set_reactive(Panel.view, "problems")
        yield panel
        yield RequestForm({field.name: text for field in FIELDS}, intercept_key=lambda key: False)
        yield PolicyText(text)
        yield LineList(id="lines")
        yield Popup()
        yield CommandPrompt(lambda line: [text], [text])
        yield Profile()

    def on_mount(self) -> None:
        text = self.text
        self.query_one(TitleBar).title = Title(text, 1, True, text, text)
        self.query_one(Tabs).views = ((text, text),)
        self.query_one("#lines", LineList).show([ListLine(Content(safe(text)))])
        self.query_one(CommandPrompt).open(text)
        self.query_one(Profile).show([(text, text)])
        self.call_after_refresh(self.query_one(Popup).open, [Choice(text, safe(text))], Offset(2, 2))


class Hostile(KeyQueueApp):
    def compose(self) -> ComposeResult:
        if BARE:
            for text in STRINGS:
                yield Static(Content(text))
                yield Static(text, markup=False)
                yield Label(text, markup=False)
                yield Button(Content(text))
                yield Input(text, placeholder=text)
            yield OptionList(*(Option(Content(text)) for text in STRINGS))
            return
        yield Header()
        yield Navigation([("tenants", "Tenants")])
        yield Heading("Tenants", self.screen.focus)
        yield Summary()
        yield RecordTable(TENANT, TENANT.columns)
        yield Detail()
        yield Steps()
        yield Footer()

    def on_mount(self) -> None:
        self.seen: set[str] = set()
        self.turns = iter([] if BARE else self.all_turns())

    def on_ready(self) -> None:
        self.next_turn()

    def on_key(self) -> None:
        self.next_turn()

    def next_turn(self) -> None:
        for widget in self.screen.walk_children(Widget, with_self=True):
            ours = next((base for base in type(widget).__mro__ if base.__module__.startswith("tui.")), None)
            if ours is not None:
                self.seen.add(f"{ours.__module__}.{ours.__qualname__}")
        turn = next(self.turns, None)
        if turn is None:
            SHOWN.write_text(json.dumps(sorted(self.seen)))
            self.exit()
            return
        turn()

    def over(self, dialog: Screen[Any]) -> None:
        """Show a dialog in place of the one before, over an empty screen."""
        if len(self.screen_stack) == 1:
            self.push_screen(Screen())
            self.push_screen(dialog)
        else:
            self.switch_screen(dialog)

    def back(self) -> None:
        self.pop_screen()
        self.pop_screen()

    def all_turns(self) -> Iterator[Callable[[], Any]]:
        for text in STRINGS:
            yield lambda text=text: self.show(text)
        for text in STRINGS:
            for dialog in (
                Confirm(text, [(text, text)], yes="Yes", typed=text),
                Menu(text, [Entry(text, text, "a", text), Entry(text, text, "b", text, text)]),
                Form(text, [Field("name", text, text, text), Field("c", text, choices=[(text, text)])], note=text),
                Contacting(text, text),
                DeviceCode(text, text, text, "https://example.com"),
                SessionEnded(text, [(text, text)], lambda: True, yes="Yes"),
                Help([Line(text, text, text, text)]),
                TenantSwitcher(rows(), recent=[]),
                Picker(text, TENANT, rows, empty=lambda text=text: text, verb=text),
                EffectConfirm(text, [(text, text)], Effect([principal(text)], text), yes="Yes"),
                Search(text),
                Review(
                    text,
                    text,
                    f"{text} ",
                    coverage(text),
                    {"name": text, "description": text},
                    stored=policy(text),
                    caution=text,
                    problem=text,
                ),
                Parts(text),
                KeyForm(text, KeyDraft(text, text, [text], 1), lambda text=text: ([scope(text)], text), never),
                Rotation(text, [(text, text)], None, never),
                NewSecret(text, [(text, text)], text, lambda secret, say: None),
                QuotaForm(
                    text,
                    lambda text=text: [(text, text)],
                    lambda number, text=text: Foreseen(text, text),
                    never,
                    unit=text,
                    limit=1,
                    reason=text,
                ),
                QuotaPlanner(lambda text=text: [Quota(resource_type=text, limit=1, unit=text)], f"{text}=1"),
                ListingConfirm(text, [(text, text)], tags(text), yes="Yes"),
                Listing(text, tags(text), ""),
                TagConflict(text, tags(text), tags(text)),
                TagForm(safe(text, 60), (text, text), TagDraft({}, 1), count="1/10"),
                LastOwner([NamedResource(id=text, name=text)]),
                Difference(text, text, f"{text} ", coverage(text)),
            ):
                yield lambda dialog=dialog: self.over(dialog)
            yield self.back

    def show(self, text: str) -> None:
        self.query_one(Header).show(HeaderState(text, text, text, text, text, text, text, True, text, "bold", text))
        self.query_one(Heading).count(text)
        self.query_one(Heading).put(text)
        members = {"error": text, "error_code": text, "current_step": text, "counts": ApplyProgress(summary=Counts())}
        run = ApplyRun(run_id=text, status=text, applied_tags={text: text}, started_by=Person(id=text, email=text))
        for status in (text, "failed"):
            operation = ApplyOperation(operation_id=text, status=status, **members)
            self.query_one(Summary).show(
                lambda cells, operation=operation: progress_lines(
                    operation, cells, run, lost=text, waits=True, key=text
                )
            )
        self.query_one(RecordTable).show(rows())
        self.query_one(Detail).show(text, [(text, [(text, text), ("", text)])])
        steps = [Step(name=text, status=state, attempts=2, error=text) for state in (text, "failed")]
        self.query_one(Steps).show(steps)
        self.query_one(Footer).show([Key("app.help", "?", "help")])
        self.notify(text, markup=False)


if __name__ == "__main__":
    hostile = Hostile()
    hostile.run()
    if hostile.return_code == 0:
        sys.stdout.write("ALL SHOWN")
