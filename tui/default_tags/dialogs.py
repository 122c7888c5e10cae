"""Dialogs of default tags: scrollable lists with and without a question, conflicts, and the form of a tag."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from client.models.validation import KEY_BYTES, VALUE_BYTES, Problem, problem_of_set, problem_of_tag, size
from client.text import cut, safe
from tui.state.tag_draft import TagDraft
from tui.widgets.dialog import Confirm, Dialog, hint

BESIDES, BESIDES_SHORT = 16, 12  # lines of the dialog without the list


class ListingConfirm(Confirm):
    """A confirmation with lines that ↑ and ↓ scroll. The caller must make the lines safe."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "lines(-1)", show=False, priority=True),
        Binding("down,j", "lines(1)", show=False, priority=True),
        Binding("pageup", "lines(-8)", show=False, priority=True),
        Binding("pagedown", "lines(8)", show=False, priority=True),
    ]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012  (declared on the base class)
    DEFAULT_CSS = """
    ListingConfirm {
        VerticalScroll { height: auto; margin-top: 1; scrollbar-size-vertical: 1; }
        VerticalScroll > Static { height: auto; }
        &.-cut VerticalScroll > Static { text-wrap: nowrap; text-overflow: ellipsis; }
        &.-short > .dialog { padding: 0 2; }
        &.-short .dialog--hint { margin-top: 0; }
        &.-short Button { border: none !important; height: 1; }
        &.-short .dialog--buttons { height: 1; }
    }
    """
    MIN_CELLS = 84

    def __init__(
        self,
        question: str,
        facts: list[tuple[str, str]],
        lines: Sequence[Content],
        *,
        yes: str,
        destructive: bool = True,
        wrap: bool = True,
    ) -> None:
        """`wrap` continues long lines below; otherwise they are cut."""
        super().__init__(question, facts, yes=yes, destructive=destructive)
        self.lines = lines
        self.set_class(not wrap, "-cut")

    @property
    def more_keys(self) -> str:
        return " · ↑ ↓ scroll" if len(self.lines) > self._room() else ""

    def particulars(self) -> ComposeResult:
        if self.lines:
            listing = VerticalScroll(Static(Content("\n").join(self.lines), markup=False))
            listing.can_focus = False
            listing.styles.max_height = self._room()
            yield listing

    def on_resize(self) -> None:
        for listing in self.query(VerticalScroll):
            listing.styles.max_height = self._room()

    def _room(self) -> int:
        height, width = self.app.size.height, self.cells - 22
        facts = sum(1 + len(value) // max(1, width) for _, value in self.facts)
        return max(2, height - (BESIDES if height >= 30 else BESIDES_SHORT) - facts + 4)

    def action_lines(self, lines: int) -> None:
        for listing in self.query(VerticalScroll):
            listing.scroll_relative(y=lines, animate=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action == "lines" or super().check_action(action, parameters)


class Listing(Dialog[None]):
    """A dialog with lines, which the caller must make safe. Esc, Enter and q close it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "lines(1)", show=False),
        Binding("k", "lines(-1)", show=False),
        Binding("enter,q", "cancel", show=False),
    ]
    DEFAULT_CSS = """
    Listing {
        & > .dialog { max-height: 90%; }
        VerticalScroll { height: auto; max-height: 100%; scrollbar-size-vertical: 1; }
        VerticalScroll > Static { height: auto; }
    }
    """
    LISTENS_AT_ONCE = True
    MIN_CELLS = 84

    def __init__(self, title: str, lines: Sequence[Content], nothing: str) -> None:
        super().__init__()
        self._title = title
        self.lines = lines or [Content.styled(nothing, "$text-muted")]

    def title_text(self) -> str:
        return self._title

    def content(self) -> ComposeResult:
        yield VerticalScroll(Static(Content("\n").join(self.lines), markup=False))
        yield hint("↑ ↓ scroll · Esc close")

    def first_focus(self) -> Widget:
        return self.query_one(VerticalScroll)

    def action_lines(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)


Way = Literal["merge", "overwrite"]


class TagConflict(Dialog[Way | None]):
    """Returns `merge` or `overwrite`. Esc and the focused button return None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "decide('merge')", show=False),
        Binding("o", "decide('overwrite')", show=False),
        Binding("up,k", "lines(-1)", show=False, priority=True),
        Binding("down,j", "lines(1)", show=False, priority=True),
        Binding("left,h", "app.focus_previous", show=False),
        Binding("right,l", "app.focus_next", show=False),
    ]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012  (declared on the base class)
    DEFAULT_CSS = """
    TagConflict {
        & > .dialog { width: 84; border: round $warning; }
        VerticalScroll { height: auto; max-height: 14; scrollbar-size-vertical: 1; }
        VerticalScroll > Static { height: auto; }
        &.-short > .dialog { padding: 0 2; }
        &.-short VerticalScroll { max-height: 11; }
        &.-short .dialog--hint { margin-top: 0; }
        &.-short Button { border: none !important; height: 1; }
        &.-short .dialog--buttons { height: 1; }
    }
    """

    def __init__(self, summary: str, theirs: Sequence[Content], ours: Sequence[Content]) -> None:
        """`summary` describes the newer version. The two lists are the changes since the base of the draft."""
        super().__init__()
        self.summary = summary
        self.theirs, self.ours = theirs, ours

    def title_text(self) -> str:
        return "Newer version on the platform"

    def content(self) -> ComposeResult:
        nothing = [Content.styled("  none", "$text-muted")]
        lines = [
            Content.styled("Their changes", "bold $text-accent"),
            *(self.theirs or nothing),
            Content.styled("Your changes", "bold $text-accent"),
            *(self.ours or nothing),
        ]
        yield Static(Content(safe(self.summary)), markup=False)
        listing = VerticalScroll(Static(Content("\n").join(lines), markup=False))
        listing.can_focus = False
        yield listing
        yield Horizontal(
            Button("Keep editing", id="leave"),
            Button("Merge", id="merge", variant="primary"),
            Button("Overwrite", id="overwrite", variant="error"),
            classes="dialog--buttons",
        )
        yield hint("m merge · o overwrite · Esc keep editing. The result is shown before it is saved")

    def first_focus(self) -> Widget:
        return self.query_one("#leave", Button)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        if event.button.id in ("merge", "overwrite"):
            self.action_decide("merge" if event.button.id == "merge" else "overwrite")
        else:
            self.dismiss(None)

    def action_decide(self, way: Way) -> None:
        self.dismiss(way)

    def action_lines(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action == "lines" or super().check_action(action, parameters)


BEFORE = 12  # characters shown before the invalid one


class KeyInput(Input):
    """The key of a new tag, or pasted lines of tags."""

    @dataclass
    class LinesPasted(Message):
        text: str

    def _on_paste(self, event: events.Paste) -> None:
        if len(event.text.strip().splitlines()) > 1:
            event.prevent_default().stop()
            self.post_message(self.LinesPasted(event.text))


class TagForm(Dialog[Mapping[str, str] | None]):
    """Returns the tags, or None. If the value is empty, `key=value` in the key field is split at the first `=`.

    Several pasted lines of `key=value` are all returned, or none if one is invalid.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "save", "Save", show=False)]
    VERTICAL_BREAKPOINTS = [(0, "-short"), (24, "-tall")]  # noqa: RUF012  (declared on the base class)
    DEFAULT_CSS = """
    TagForm {
        & > .dialog { width: 76; }
        .tag--label { height: 1; margin-top: 1; }
        .tag--label Static { width: auto; color: $text-muted; }
        .tag--label .tag--bytes { width: 1fr; text-align: right; }
        .tag--label .-over { color: $text-error; text-style: bold; }
        .tag--problem { color: $text-error; height: 3; }
        Input { border: tall $foreground 15%; &:focus { border: tall $primary; } }
        &.-short .tag--label { margin-top: 0; }
        &.-short > .dialog { padding: 0 2; }
    }
    """
    LISTENS_AT_ONCE = True

    def __init__(
        self,
        title: str,
        tag: tuple[str, str],
        draft: TagDraft,
        instead_of: str = "",
        *,
        count: str,
        button: str = "Add to draft",
    ) -> None:
        """`instead_of` is the key of the edited tag. `count` is the number of tags and its limit.

        The focus is on the value if `tag` has a key.
        """
        super().__init__()
        self._title = title
        self.tag = tag
        self.draft, self.instead_of = draft, instead_of
        self.count = count
        self.button = button

    def title_text(self) -> str:
        return self._title

    def content(self) -> ComposeResult:
        for name, label, text in (("key", "Key", self.tag[0]), ("value", "Value", self.tag[1])):
            yield Horizontal(
                Static(label, markup=False),
                Static("", id=f"{name}-bytes", classes="tag--bytes", markup=False),
                classes="tag--label",
            )
            pastes = name == "key" and not self.instead_of
            hint_text = "or paste lines of key=value" if pastes else ""
            entry_class = KeyInput if pastes else Input
            entry = entry_class(text, placeholder=hint_text, id=f"tag-{name}", select_on_focus=False)
            entry.cursor_blink = False
            yield entry
        yield Static("", classes="tag--problem", markup=False)
        yield Horizontal(
            Button("Cancel", id="cancel"), Button(self.button, id="save", variant="primary"), classes="dialog--buttons"
        )
        yield hint(f"{self.count} · Enter {self.button.split()[0].lower()} · Tab next field · Esc cancel")

    def on_mount(self) -> None:
        self._show()

    def first_focus(self) -> Widget:
        return self._entry("value" if self.tag[0] else "key")

    def _entry(self, name: str) -> Input:
        return self.query_one(f"#tag-{name}", Input)

    @property
    def texts(self) -> tuple[str, str]:
        return self._entry("key").value, self._entry("value").value

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        key, value = self.texts
        if event.input.id == "tag-key" and "=" in key and not value:
            key, _, value = key.partition("=")
            self._entry("key").value, self._entry("value").value = key, value
            self.set_focus(self._entry("value"))
            self._entry("value").cursor_position = len(value)
        self._show()

    def _show(self) -> None:
        key, value = self.texts
        for name, text, most in (("key", key, KEY_BYTES), ("value", value, VALUE_BYTES)):
            label = self.query_one(f"#{name}-bytes", Static)
            label.update(f"{size(text)}/{most} bytes")
            label.set_class(size(text) > most, "-over")
        # An empty form is not an error yet.
        problem = self._problem(key, value) if key or value else None
        self.query_one(".tag--problem", Static).update(Content(problem_text(problem, key, value)))

    @on(Input.Submitted)
    def action_save(self) -> None:
        key, value = self.texts
        problem = self._problem(key, value)
        if problem is not None:
            self.query_one(".tag--problem", Static).update(Content(problem_text(problem, key, value)))
            about_value = isinstance(problem, Problem) and problem.reason.startswith("value")
            self.set_focus(self._entry("value" if about_value else "key"))
            return
        self.dismiss({key: value})

    def _problem(self, key: str, value: str) -> Problem | str | None:
        return self.draft.problem_of(key, value, self.instead_of)

    @on(KeyInput.LinesPasted)
    def _lines_pasted(self, event: KeyInput.LinesPasted) -> None:
        event.stop()
        tags: dict[str, str] = {}
        problem = ""
        for number, text in enumerate(event.text.splitlines(), 1):
            if problem or not text.strip():
                continue
            key, equals, value = (part.strip() for part in text.partition("="))
            tags[key] = value
            reason = problem_text(problem_of_tag(key, value), key, value) if equals else "expected key=value"
            problem = f"line {number}: {reason}" if reason else ""
        problem = problem or problem_text(problem_of_set({**self.draft.tags, **tags}), "", "")
        if problem:
            self.query_one(".tag--problem", Static).update(Content(f"nothing was added; {problem}"))
        else:
            self.dismiss(tags)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "save":
            self.action_save()
        else:
            self.dismiss(None)


def problem_text(problem: Problem | str | None, key: str, value: str) -> str:
    """Return the reason why a tag is invalid and the position of the invalid character."""
    if problem is None:
        return ""
    if isinstance(problem, str) or problem.index is None:
        return safe(problem if isinstance(problem, str) else problem.message)
    text = value if problem.reason.startswith("value") else key
    stray, before = text[problem.index : problem.index + 1], text[: problem.index][-BEFORE:]
    sign = "␠" if stray == " " else safe(stray)
    where = f"character {problem.index + 1}: {cut(safe(before), BEFORE)}►{sign}" if stray else ""
    return "\n".join(filter(None, (where, safe(problem.message))))
