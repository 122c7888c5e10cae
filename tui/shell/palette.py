"""The command palette: all actions by name, with their keys or the reason why they are disabled.

Textual's own palette collects its hits after the keystroke, so that a quick Enter runs a hit of an earlier text. It
also reads names as markup. This palette is up to date once a key has been handled.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.fuzzy import FuzzySearch
from textual.widget import Widget
from textual.widgets import Input, OptionList
from textual.widgets.option_list import Option
from textual.worker import Worker

from client.text import cut, safe
from tui.shell import actions, routes
from tui.shell.action import inside
from tui.shell.navigator import Navigator
from tui.widgets.dialog import Dialog, hint
from tui.widgets.line_input import LineInput

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_ENTRIES = 60
WIDTH, KEY, TITLE, MAX_TITLE = 92, 5, 28, 53
"""Cells of the dialog, the key, the column of titles, and the longest title. Titles are matched in full."""
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
    for number, route in enumerate(routes.ROUTES, 1):
        yield Entry(
            f"Go to {inside(route.title)}",
            str(number) if number <= routes.DIGITS else "",
            "",
            partial(frame.go, route.name),
        )
    yield from of(actions.LIST, actions.ANYWHERE)
    for route in routes.ROUTES:
        yield from _elsewhere(frame, route) if route.name != context.screen else ()
    terms = typed.casefold().split()
    count = 0
    for tenant in frame.workspace.tenants if terms else ():
        name = str(tenant.get("displayName", ""))
        if count < MAX_OF_KIND and any(term in name.casefold() for term in terms):
            count += 1
            run = partial(frame.use_tenant, str(tenant["id"]))
            yield Entry(f"Use tenant {safe(name)}", "", cut(safe(tenant.get("organizationName", "")), 30), run)
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
        rows = frame.workspace.collections.rows(screen, frame.workspace.tenant_id).records if terms else ()
        matches = [row for row in rows if any(term in str(row["name"]).casefold() for term in terms)]
        for row in matches[:MAX_OF_KIND]:
            run = partial(_entered, frame, f"{action} {row['id']}")
            about = cut(safe(row.get("description") or ""), 30)
            yield Entry(f"{title} {safe(row['name'])}", "", about, run)
    keys = frame.workspace.collections.rows("own keys", "").records if terms else ()
    for key in [row for row in keys if any(term in str(row["name"]).casefold() for term in terms)][:MAX_OF_KIND]:
        run = partial(_entered, frame, f"api-keys id:{key['id']}")
        yield Entry(f"Show API key {safe(key['name'])}", "", cut(safe(key.get("tenantName", "")), 30), run)


def _entered(frame: Navigator, line: str) -> None:
    """Run a line of the `:` prompt, which may open another screen."""
    from tui.shell.command_line import run

    _: Worker[None] = frame.run_worker(partial(run, frame, line), exit_on_error=False)


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
        & > .dialog { width: 92; margin-top: 2; }
        LineInput { margin-bottom: 1; }
        OptionList, OptionList:focus {
            height: auto; min-height: 3; max-height: 14; border: none; padding: 0; background: transparent;
        }
    }
    """
    LISTENS_AT_ONCE = True

    def __init__(self, entries: "Callable[[str], Iterator[Entry]]") -> None:
        """`entries` returns the candidates for a text."""
        super().__init__()
        self.entries = entries
        self.matches: list[Entry] = []
        self.typed = ""

    def title_text(self) -> str:
        return "Palette"

    def content(self) -> ComposeResult:
        yield LineInput(placeholder="what do you want to do?")
        choices = OptionList()
        choices.can_focus = False
        yield choices
        yield hint("Enter run · ↑ ↓ choose · Esc close")

    def first_focus(self) -> Widget:
        return self.query_one(LineInput)

    def on_mount(self) -> None:
        super().on_mount()
        self._match("")

    def _match(self, typed: str) -> None:
        self.typed = typed
        room = min(WIDTH, self.app.size.width) - 6 - KEY - TITLE - 5  # frame, scrollbar, blanks
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
