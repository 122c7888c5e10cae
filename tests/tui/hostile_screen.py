"""A program for a pty: every widget of the screens filled with hostile text, one after the other on any key.

With `bare` as argument it shows Textual's own widgets with text nobody made safe: only the net is left then.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from textual.app import App, ComposeResult
from textual.content import Content
from textual.filter import LineFilter
from textual.widgets import Button, Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from client.records import TENANT
from tui.display_filter import VisibleControls
from tui.effects import Effect
from tui.screens.help import Help, Line
from tui.widgets.confirm import Confirm
from tui.widgets.detail import Detail
from tui.widgets.device_code import DeviceCode
from tui.widgets.difference import Difference
from tui.widgets.effect import EffectConfirm
from tui.widgets.footer import Footer, Key
from tui.widgets.form import Field, Form
from tui.widgets.header import Facts, Header
from tui.widgets.heading import Heading
from tui.widgets.menu import Entry, Menu
from tui.widgets.navigation import Navigation
from tui.widgets.picker import Picker
from tui.widgets.record_table import RecordTable
from tui.widgets.steps import Steps
from tui.widgets.tenant_switcher import TenantSwitcher

STRINGS: list[str] = json.loads(Path(sys.argv[1]).read_text())
BARE = sys.argv[2:] == ["bare"]


def rows() -> list[dict[str, Any]]:
    return [
        {"id": f"id {number} {text}", "displayName": text, "slug": text, "status": text, "organizationName": text}
        for number, text in enumerate(STRINGS)
    ]


def principal(text: str) -> dict[str, Any]:
    changes = {"gained": [text], "lost": [text], "gainedCount": 1, "lostCount": 1, "inert": True}
    return {"id": text, "type": text, "name": text, "policiesBefore": 1, "policiesAfter": 0, **changes}


class Hostile(App[None]):
    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), VisibleControls()]

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
        yield RecordTable(TENANT, TENANT.columns)
        yield Detail()
        yield Steps()
        yield Footer()

    def on_mount(self) -> None:
        self.turns = iter([] if BARE else self.all_turns())

    def on_ready(self) -> None:
        self.next_turn()

    def on_key(self) -> None:
        self.next_turn()

    def next_turn(self) -> None:
        turn = next(self.turns, None)
        if turn is None:
            self.exit()
            return
        turn()

    def all_turns(self) -> Iterator[Callable[[], Any]]:
        for text in STRINGS:
            yield lambda text=text: self.show(text)
        for text in STRINGS:
            for dialog in (
                Confirm(text, [(text, text)], yes="Yes", typed=text),
                Menu(text, [Entry(text, text, "a", text), Entry(text, text, "b", text, text)]),
                Form(text, [Field("name", text, text, text), Field("c", text, choices=[(text, text)])], note=text),
                DeviceCode(text, text, text, "https://example.com"),
                Help([Line(text, text, text, text)]),
                TenantSwitcher(rows(), recent=[]),
                Picker(text, TENANT, rows, empty=lambda text=text: text, verb=text),  # type: ignore[misc]
                EffectConfirm(text, [(text, text)], Effect([principal(text)], text), yes="Yes"),
                Difference(text, text, f"{text} ", {"target": text, "gained": [text], "lost": [text]}),
            ):
                yield lambda dialog=dialog: self.push_screen(dialog)
                yield self.pop_screen

    def show(self, text: str) -> None:
        self.query_one(Header).show(Facts(text, text, text, text, text, text, text, True, text, "bold", text))
        self.query_one(Heading).count(text)
        self.query_one(Heading).put(text)
        self.query_one(RecordTable).show(rows())
        self.query_one(Detail).show(text, [(text, [(text, text), ("", text)])])
        steps = [{"name": text, "status": state, "attempts": 2, "error": text} for state in (text, "failed")]
        self.query_one(Steps).show(steps)
        self.query_one(Footer).show([Key("app.help", "?", "help")])
        self.notify(text, markup=False)


if __name__ == "__main__":
    hostile = Hostile()
    hostile.run()
    if hostile.return_code == 0:
        sys.stdout.write("ALL SHOWN")
