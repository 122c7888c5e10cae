"""Dialogs that list the actions: the command palette, and the help with the keys of the current screen.

Textual's own palette collects its hits after the keystroke, so that a quick Enter runs a hit of an earlier text. It
also reads names as markup. This palette is up to date once a key has been handled.
"""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.fuzzy import FuzzySearch
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import Worker

from client.text import cut, safe
from tui.shell import actions, routes
from tui.shell.action import inside
from tui.shell.keymap import Keys, key_text
from tui.shell.navigator import Navigator
from tui.widgets.dialog import Dialog, hint
from tui.widgets.lines import LineInput
from tui.widgets.record_table import RecordTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from client.models.account import ApiKey
    from client.models.iam import Group, Policy
    from tui.state.list_store import RecordList

MAX_ENTRIES = 60
KEY, TITLE, MAX_TITLE = 5, 32, 53
"""Cells of the key, the column of titles, and the longest title. Titles are matched in full."""
TALLEST = 14  # lines of the list; more on a tall terminal
MAX_OF_KIND = 200
"""Maximum number of hits of a kind to match letter by letter: each takes 50 µs."""


class Entry(NamedTuple):
    """An entry of the palette: title, key, description and function."""

    title: str
    key: str
    text: str
    run: "Callable[[], Any]"
    enabled: bool = True


def entries(frame: Navigator, typed: str = "") -> Iterator[Entry]:
    """Yield actions of the screen, all screens, global actions, actions of other screens, and matching records."""
    context = frame.action_context()

    def of(*scopes: str) -> Iterator[Entry]:
        for action in actions.of_scope(*scopes):
            if action.id != "app.palette":
                reason = action.disabled_reason(context)
                run = partial(frame.perform, action.id)
                yield Entry(action.title, frame.keys.label(action.id), reason or action.help, run, not reason)

    yield from of(context.screen)
    yield from _screens(frame)
    yield from of(actions.LIST, actions.ANYWHERE)
    for route in routes.ROUTES:
        yield from _elsewhere(frame, route) if route.name != context.screen else ()
    yield from _named(frame, typed)


def destinations(frame: Navigator, typed: str = "") -> Iterator[Entry]:
    """Yield all screens and matching records, for the palette of a screen above the main one."""
    yield from _screens(frame)
    yield from _named(frame, typed)


def _screens(frame: Navigator) -> Iterator[Entry]:
    for number, route in enumerate(routes.ROUTES, 1):
        key = str(number) if number <= routes.DIGITS else ""
        yield Entry(f"Go to {inside(route.title)}", key, "", partial(frame.go, route.name))


def _named(frame: Navigator, typed: str) -> Iterator[Entry]:
    """Yield matching tenants and records."""
    terms = typed.casefold().split()
    count = 0
    for tenant in frame.workspace.tenants if terms else ():
        name = tenant.display_name
        if count < MAX_OF_KIND and any(term in name.casefold() for term in terms):
            count += 1
            run = partial(frame.use_tenant, tenant.id)
            yield Entry(f"Use tenant {safe(name)}", "", cut(safe(tenant.organization_name), 30), run)
    yield from _records(frame, terms)


def _elsewhere(frame: Navigator, route: routes.Route) -> Iterator[Entry]:
    """Yield the actions of another screen. Running one opens that screen and uses the record under its cursor."""
    read_only = frame.workspace.read_only
    for action in actions.of_scope(route.name):
        reason = read_only if action.writes else ""
        text = reason or f"In {inside(route.title)}{': ' if action.help else ''}{action.help}"
        yield Entry(action.title, "", text, partial(_entered, frame, action.id), not reason)


def _records(frame: Navigator, terms: list[str]) -> Iterator[Entry]:
    """Yield matching groups and policies of the tenant and the user's own API keys, as far as they are loaded."""
    for screen, title, action in (
        ("policies", "Edit policy", "policies.edit"),
        ("groups", "Open group", "groups.open"),
    ):
        named: RecordList[Group | Policy] = frame.workspace.collections.get(screen, frame.workspace.tenant_id)
        matches = [row for row in named.records if any(term in row.name.casefold() for term in terms)]
        for row in matches[:MAX_OF_KIND]:
            run = partial(_entered, frame, f"{action} {row.id}")
            yield Entry(f"{title} {safe(row.name)}", "", cut(safe(row.description), 30), run)
    keys: Sequence[ApiKey] = frame.workspace.collections.get("own keys", "").records if terms else ()
    for key in [key for key in keys if any(term in key.name.casefold() for term in terms)][:MAX_OF_KIND]:
        run = partial(_entered, frame, f"api-keys id:{key.id}")
        yield Entry(f"Show API key {safe(key.name)}", "", cut(safe(key.tenant_name), 30), run)


def _entered(frame: Navigator, line: str) -> None:
    """Run a line of the `:` prompt, which may open another screen."""
    from tui.shell.command_line import run

    _: Worker[None] = frame.app.run_worker(partial(run, frame, line), exit_on_error=False)


def ranked(entries: Iterator[Entry], typed: str) -> list[tuple[Entry, tuple[int, ...]]]:
    """Return the matching entries, best first, with the positions of the matched letters."""
    if not typed.strip():
        return [(entry, ()) for entry in entries]
    search = FuzzySearch()
    scored = []
    for order, entry in enumerate(entries):
        score, letters = search.match(typed.strip(), entry.title)
        if score <= 0 and all(word in entry.text.casefold() for word in typed.casefold().split()):
            score, letters = 0.001, ()
        if score > 0:
            scored.append((-score, order, entry, tuple(letters)))
    return [(entry, letters) for _, _, entry, letters in sorted(scored, key=lambda hit: hit[:2])]


class Palette(Dialog[Entry | None]):
    """Returns the chosen entry, or None. Running a disabled entry shows the reason."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,ctrl+p", "move(-1)", show=False, priority=True),
        Binding("down,ctrl+n", "move(1)", show=False, priority=True),
        Binding("pageup", "move(-10)", show=False, priority=True),
        Binding("pagedown", "move(10)", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    Palette {
        align: center top;
        & > .dialog { margin-top: 2; }
        LineInput { margin-bottom: 1; }
        OptionList, OptionList:focus {
            height: auto; min-height: 3; border: none; padding: 0; background: transparent;
        }
    }
    """
    LISTENS_AT_ONCE = True
    MIN_CELLS = 92

    def __init__(self, entries: "Callable[[str], Iterator[Entry]]") -> None:
        """`entries` returns the candidates for a text."""
        super().__init__()
        self.entries = entries
        self.matches: list[Entry] = []
        self.typed = ""

    def title_text(self) -> str:
        return "Palette"

    def content(self) -> ComposeResult:
        yield LineInput(placeholder="search actions and records")
        choices = OptionList()
        choices.can_focus = False
        yield choices
        yield hint("Enter run · ↑ ↓ choose · Esc close")

    def first_focus(self) -> Widget:
        return self.query_one(LineInput)

    def on_mount(self) -> None:
        self._match("")

    def on_resize(self) -> None:
        choices = self.query_one(OptionList)
        choices.styles.max_height = self.list_rows(TALLEST)
        highlighted = choices.highlighted
        self._match(self.typed)
        choices.highlighted = highlighted

    def _match(self, typed: str) -> None:
        self.typed = typed
        room = self.cells - 6 - KEY - TITLE - 5  # frame, scrollbar, blanks
        hits = ranked(self.entries(typed), typed)[:MAX_ENTRIES]
        self.matches = [entry for entry, _ in hits]
        choices = self.query_one(OptionList)
        choices.clear_options()
        nothing = Option(Content.styled("No matches", "$text-muted"), disabled=True)
        choices.add_options([Option(_line(entry, letters, room)) for entry, letters in hits] or [nothing])
        choices.highlighted = 0 if hits else None

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._match(event.value)

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        # The change of the input may still be queued.
        if event.value != self.typed:
            self._match(event.value)
        index = self.query_one(OptionList).highlighted
        if index is not None:
            self.dismiss(self.matches[index])

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self.matches[event.option_index])

    def action_move(self, lines: int) -> None:
        choices = self.query_one(OptionList)
        if self.matches and choices.highlighted is not None:
            choices.highlighted = max(0, min(len(self.matches) - 1, choices.highlighted + lines))


def _line(entry: Entry, letters: tuple[int, ...], room: int) -> Content:
    tone = "$foreground" if entry.enabled else "$text-disabled"
    text = cut(entry.title, min(MAX_TITLE, TITLE + room))
    title = Content.styled(text, tone)
    shortened = text != entry.title  # the last character is then an ellipsis
    for index in letters:
        if index < len(text) - shortened:
            title = title.stylize("bold $text-accent", index, index + 1)
    key = Content.styled(f"{entry.key:<{KEY}}", "bold $text-accent" if entry.enabled else tone)
    over = max(0, title.cell_length - TITLE)  # cells that a long title takes from the description
    description = Content.styled("  " + cut(entry.text, max(0, room - over)), "$text-muted")
    return key + title.pad_right(max(0, TITLE - title.cell_length)) + description


HELP_FRAME = 7  # frame, blanks and scrollbar (cells)
HELP_KEYS, HELP_TITLE = 12, 30  # cells of the first two columns
NARROWEST = 24  # minimum width of the third column; below it, texts are under their titles


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the help."""

    group: str
    keys: str
    title: str
    text: str


def lines(screen: str, title: str, keys: Keys, reasons: dict[str, str]) -> list[Line]:
    """Return the keys of a screen: its actions, those of its list, the global ones, and movement."""

    def of(scope: str, group: str) -> list[Line]:
        return [
            Line(
                group, " ".join(map(key_text, keys.of(action.id))), action.title, reasons.get(action.id) or action.help
            )
            for action in actions.of_scope(scope)
        ]

    movement = [
        Line("Moving", " ".join(map(key_text, keys.of(binding.id or ""))), binding.description, "")
        for binding in RecordTable.BINDINGS
        if isinstance(binding, Binding)
    ]
    return [*of(screen, title), *of(actions.LIST, "The list"), *of(actions.ANYWHERE, "Anywhere"), *movement]


class Help(Dialog[None]):
    """The searchable help. Esc closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_sheet(-1)", show=False, priority=True),
        Binding("down", "scroll_sheet(1)", show=False, priority=True),
        Binding("pageup", "scroll_sheet(-10)", show=False, priority=True),
        Binding("pagedown", "scroll_sheet(10)", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    Help {
        & > .dialog { height: 90%; }
        Input, Input:focus { border: none; height: 1; padding: 0; background: transparent; }
        VerticalScroll { height: 1fr; margin-top: 1; scrollbar-size-vertical: 1; }
        VerticalScroll > Static { height: auto; }
    }
    """
    LISTENS_AT_ONCE = True
    MIN_CELLS = 90

    def __init__(self, sheet: Sequence[Line]) -> None:
        super().__init__()
        self.sheet = sheet

    def title_text(self) -> str:
        return "Help"

    def content(self) -> ComposeResult:
        line = Input(placeholder="search")
        line.cursor_blink = False
        yield line
        scroll = VerticalScroll(Static(self._text(""), markup=False))
        scroll.can_focus = False
        yield scroll
        yield hint("↑ ↓ scroll · Esc close")

    def first_focus(self) -> Widget:
        return self.query_one(Input)

    def on_resize(self) -> None:
        self._paint()

    def _paint(self) -> None:
        self.query_one(VerticalScroll).query_one(Static).update(self._text(self.query_one(Input).value))

    def _text(self, search: str) -> Content:
        terms = search.casefold().split()
        matches = [
            line
            for line in self.sheet
            if all(term in f"{line.keys} {line.title} {line.text} {line.group}".casefold() for term in terms)
        ]
        if not matches:
            return Content.styled("No matches", "$text-muted")
        parts: list[Content] = []
        group = ""
        for line in matches:
            if line.group != group:
                parts += [Content("")] if group else []
                parts.append(Content.styled(line.group, "bold $text-accent"))
                group = line.group
            parts += _lines(line, self.cells - HELP_FRAME)
        return Content("\n").join(parts)

    @on(Input.Changed)
    def _typed(self) -> None:
        self._paint()

    def action_scroll_sheet(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)


def _lines(line: Line, room: int) -> list[Content]:
    """Return keys, title and text in columns, or the text under the title if the room is too narrow."""
    head = Content.assemble((f"  {line.keys:<{HELP_KEYS}} ", "bold"), f"{line.title:<{HELP_TITLE}} ")
    in_column = len(line.title) <= HELP_TITLE and room - head.cell_length >= NARROWEST
    left = head.cell_length if in_column else HELP_KEYS + 3
    rows = [Content.styled(part, "$text-muted") for part in textwrap.wrap(line.text, max(1, room - left))]
    if in_column:
        head += rows.pop(0) if rows else Content("")
    return [head.rstrip(), *(Content(" " * left) + part for part in rows)]
