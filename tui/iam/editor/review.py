"""Review of a document before it is saved: name, description, effect and text difference."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from client.text import safe
from client.texts.effects import Effect, changes, conditional_count
from tui.iam.editor.panel_widgets import Line, LineList
from tui.widgets.dialog import Dialog, hint
from tui.widgets.line_input import LineInput
from tui.widgets.policy_text import kind_text

CONTEXT = 3
WIDTH = 100
"""Maximum width of the dialog, in cells."""
FRAME = 7
"""Cells of the dialog for borders, padding and the scroll bar."""
LEAST = 16
"""Minimum width of a line, in cells. With much fewer, `folded` would not terminate."""
FEW = 8
"""Maximum number of operations on each side, and of principals, that are listed by name."""


class Review(Dialog[Mapping[str, str] | None]):
    """Returns the name and description to save, or None if cancelled. Without `names`, it is read-only.

    `effect` is the result of `iam/coverage` for one target, for the change from `before` to `after`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", show=False, priority=True),
        Binding("tab", "hop(1)", show=False, priority=True),
        Binding("shift+tab", "hop(-1)", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    Review {
        & > .dialog { width: 100; height: 90%; padding: 0 2; }
        .review--field { height: 1; }
        .review--label { width: 14; color: $text-muted; }
        .review--caution { color: $text-warning; height: auto; margin-bottom: 1; }
        .review--problem { color: $text-error; height: auto; }
        LineList { height: 1fr; margin-top: 1; background: $surface; }
        .dialog--hint { margin-top: 0; }
    }
    """
    LISTENS_AT_ONCE = True

    _difference: Sequence[Content] = ()

    def __init__(
        self,
        title: str,
        before: str,
        after: str,
        effect: Mapping[str, Any],
        names: Mapping[str, str] | None,
        *,
        stored: Mapping[str, Any] | None = None,
        touched: Effect | None = None,
        caution: str = "",
        problem: str = "",
        most: int = FEW,
    ) -> None:
        """`stored` is the policy to replace, `touched` the effect of that on principals.

        `caution` is a warning above the fields, `problem` why the last save failed. At most `most` operations are
        listed on each side.
        """
        super().__init__()
        self._title = title
        self.before, self.after = before, after
        self.effect = effect
        self.names = names
        self.stored = stored
        self.touched = touched
        self._caution = caution
        self._problem = problem
        self.most = most

    def title_text(self) -> str:
        return self._title

    def content(self) -> ComposeResult:
        if self._caution:
            yield Static(Content(safe(self._caution)), classes="review--caution", markup=False)
        if self.names is not None:
            for name, placeholder in (("name", "what it is called"), ("description", "what it is for")):
                entry = LineInput(placeholder=placeholder, id=f"review-{name}")
                entry.value = self.names.get(name, "")
                yield Horizontal(
                    Static(name.capitalize(), classes="review--label", markup=False), entry, classes="review--field"
                )
            problem = Static(Content(safe(self._problem)), classes="review--problem", markup=False)
            problem.display = bool(self._problem)
            yield problem
        yield LineList(id="review-lines")
        save = "Enter saves · Tab name, difference · ↑ ↓ scroll · Esc goes on editing"
        yield hint("↑ ↓ scroll · Esc leaves" if self.names is None else save)

    def on_mount(self) -> None:
        super().on_mount()
        whom = list(for_whom(self.touched)) if self.touched is not None else []
        self._difference = [*whom, *lines(self.before, self.after, self.effect, self.most)]
        self._show()

    @on(Input.Changed)
    def _show(self) -> None:
        """Show changes of name and description, then the difference."""
        replaced = [] if self.stored is None or self.names is None else list(renamed(self.stored, self._given()))
        # Computed, because the list has no size before the first layout.
        cells = min(WIDTH, self.app.size.width) - FRAME
        self.query_one(LineList).show(
            [Line(line) for content in (*replaced, *self._difference) for line in folded(content, cells)]
        )

    def on_resize(self) -> None:
        self._show()

    def _given(self) -> dict[str, str]:
        return {name: self.query_one(f"#review-{name}", LineInput).value.strip() for name in self.names or ()}

    def first_focus(self) -> Widget:
        if self.names is not None and (self._problem or not self.names.get("name")):
            return self.query_one("#review-name")
        return self.query_one(LineList)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.names is not None if action == "save" else super().check_action(action, parameters)

    def action_hop(self, by: int) -> None:
        stops = [*self.query(LineInput), self.query_one(LineList)]
        at = next((place for place, stop in enumerate(stops) if stop.has_focus), 0)
        self.set_focus(stops[(at + by) % len(stops)])

    @on(Input.Submitted)
    def action_save(self) -> None:
        if self.names is None:
            return
        given = self._given()
        if not given["name"]:
            self._say("a policy needs a name")
            self.set_focus(self.query_one("#review-name"))
            return
        self.dismiss(given)

    def on_key(self, event: Any) -> None:
        # The list has no choices, so Enter saves, as in the fields.
        if event.key == "enter" and self.names is not None and self.query_one(LineList).has_focus:
            event.stop()
            self.action_save()

    def _say(self, words: str) -> None:
        problem = self.query_one(".review--problem", Static)
        problem.display = True
        problem.update(Content(safe(words)))


def renamed(stored: Mapping[str, Any], given: Mapping[str, str]) -> Iterator[Content]:
    for member, value in given.items():
        was = str(stored.get(member) or "")
        if value != was:
            yield Content.styled(f"In {member}", "bold $text-accent")
            yield Content.styled(f"  − {safe(was) or '(none)'}", "$text-error")
            yield Content.styled(f"  + {safe(value) or '(none)'}", "$text-success")
            yield Content("")


def for_whom(touched: Effect) -> Iterator[Content]:
    """Yield the effect on the principals that the policy is attached to, those with most changes first."""
    yield Content.styled("For keys and identities", "bold $text-accent")
    yield Content.styled(f"  {safe(touched.summary)}", "$text-warning" if touched.problem else "$text-muted")
    moved = [(one, signed) for one in touched.principals if (signed := list(_signed(one)))]
    for one, signed in moved[:FEW]:
        state = str(one.get("status") or "")
        known = f"{kind_text(one)}{f', {state}' if state not in ('', 'active') else ''}"
        counts = Content(" ").join(Content.styled(*each) for each in signed)
        yield (
            Content.assemble("  ", safe(one.get("name") or one.get("id")), (f"  {safe(known)}  ", "$text-muted"))
            + counts
        )
    if len(moved) > FEW:
        yield Content.styled(f"  and {len(moved) - FEW:,} more", "$text-muted")
    yield Content("")


def _signed(principal: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (text, tone) for operations gained, lost and conditionally changed; zeros are omitted."""
    for sign, count, tone in (
        ("+", int(principal.get("gainedCount") or 0), "$text-success"),
        ("−", int(principal.get("lostCount") or 0), "$text-error"),
        ("~", conditional_count(principal), "$text-warning"),
    ):
        if count:
            yield f"{sign}{count:,}", tone
    if principal.get("inert"):
        yield "left inert", "$text-error"


def folded(content: Content, cells: int) -> Iterator[Content]:
    """Yield a line as wrapped lines with a hanging indent."""
    indent, cells = 4, max(LEAST, cells)
    rest = content
    while rest.cell_length > cells:
        # With double-width characters, half as many are certain to fit.
        end = cells if len(rest) == rest.cell_length else cells // 2
        yield rest[:end]
        rest = Content(" " * indent) + rest[end:]
    yield rest


def lines(before: str, after: str, effect: Mapping[str, Any], most: int) -> Iterator[Content]:
    """Yield the difference: operations lost, gained and conditionally changed, then the text."""
    found = changes(effect)
    yield Content.styled(f"In effect, on {safe(effect.get('target', '*'))}", "bold $text-accent")
    if effect.get("problem"):
        yield Content.styled(f"  not known: {safe(effect['problem'])}", "$text-warning")
    elif not any(found):
        yield Content.styled("  the same operations as before" if before else "  nothing is gained", "$text-muted")
    else:
        counted = [(f"+{len(found.gained):,} gained", "$text-success")] if found.gained else []
        counted += [(f"−{len(found.lost):,} lost", "$text-error")] if found.lost else []
        counted += [(f"~{found.conditional}", "$text-warning")] if found.under else []
        yield Content("  ") + Content(", ").join(Content.styled(*one) for one in counted)
    yield from _named(found.lost, "−", "$text-error", most)
    yield from _named(found.gained, "+", "$text-success", most)
    yield from _named(found.under, "~", "$text-warning", most)
    yield Content("")
    yield Content.styled("In text", "bold $text-accent")
    yield from difference(before, after)


def _named(operations: Mapping[str, str], sign: str, tone: str, most: int) -> Iterator[Content]:
    for operation, note in islice(operations.items(), most):
        said = (f"  {note}", "$text-muted") if note else ""
        yield Content.assemble((f"  {sign} ", f"bold {tone}"), safe(operation), said)
    if len(operations) > most:
        yield Content.styled(f"  {sign} and {len(operations) - most:,} more", tone)


def difference(before: str, after: str) -> Iterator[Content]:
    """Yield a unified diff of the texts, with signs and colours."""
    import difflib

    found = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=CONTEXT))[2:]
    if not found:
        yield Content.styled("  the same document", "$text-muted")
    for line in found:
        sign, text = line[:1], safe(line[1:])
        if sign == "@":
            if before:  # a new document has a single hunk, from line 1
                yield Content.styled(f"  … line {line.split('+')[-1].split(',')[0].rstrip(' @')}", "$text-muted")
        elif sign in "+-":
            tone = "$text-success" if sign == "+" else "$text-error"
            yield Content.styled(f"  {'−' if sign == '-' else sign} {text}", tone)
        else:
            yield Content.styled(f"    {text}", "$text-muted")
