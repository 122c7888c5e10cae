"""Form for a default tag, validated on every key press."""

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from client.models.validation import KEY_BYTES, VALUE_BYTES, Problem, size
from client.text import cut, safe
from tui.widgets.dialog import Dialog, hint

Check = Callable[[str, str], Problem | str | None]
"""Returns the problem of a key and value, or None."""
BEFORE = 12  # characters shown before the invalid one


class TagForm(Dialog[tuple[str, str] | None]):
    """Returns key and value, or None. If the value is empty, `key=value` in the key field is split at the first `=`."""

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
        self, title: str, tag: tuple[str, str], check: Check, *, count: str, button: str = "Put into the draft"
    ) -> None:
        """`count` is the number of tags and its limit. The focus is on the value if `tag` has a key."""
        super().__init__()
        self._title = title
        self.tag = tag
        self.check = check
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
            entry = Input(text, id=f"tag-{name}", select_on_focus=False)
            entry.cursor_blink = False
            yield entry
        yield Static("", classes="tag--problem", markup=False)
        yield Horizontal(
            Button("Cancel", id="cancel"), Button(self.button, id="save", variant="primary"), classes="dialog--buttons"
        )
        yield hint(f"{self.count} · Enter puts it · Tab next field · Esc cancel")

    def on_mount(self) -> None:
        super().on_mount()
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
        problem = self.check(key, value) if key or value else None
        self.query_one(".tag--problem", Static).update(Content(problem_text(problem, key, value)))

    @on(Input.Submitted)
    def action_save(self) -> None:
        key, value = self.texts
        problem = self.check(key, value)
        if problem is not None:
            self.query_one(".tag--problem", Static).update(Content(problem_text(problem, key, value)))
            about_value = isinstance(problem, Problem) and problem.reason.startswith("value")
            self.set_focus(self._entry("value" if about_value else "key"))
            return
        self.dismiss((key, value))

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
    where = f"character {problem.index + 1}: {cut(safe(before), BEFORE)}►{safe(stray)}" if stray else ""
    return "\n".join(filter(None, (where, safe(problem.message))))
