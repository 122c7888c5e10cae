"""The form of a draft's trial request. Fields are validated while typing."""

from collections.abc import Callable, Collection, Mapping
from typing import ClassVar

from rich.segment import Segment
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, Static

from client.text import cut, safe, width
from tui.iam.editor import request
from tui.iam.editor.request import FIELDS, NONE, UNKNOWN, Request
from tui.widgets.lines import LineInput

LABEL = 16


class FieldInput(LineInput):
    """A field. Its placeholder shows the meaning of an empty value."""

    intercept_key: Callable[[str], bool] = staticmethod(lambda _: False)
    """Called with each key before the input handles it. Returns True to stop the key."""

    async def _on_key(self, event: events.Key) -> None:
        if self.intercept_key(event.key):
            event.stop()
            event.prevent_default()
        elif event.key == "space" and self.id == "field-asAuthor":
            event.stop()
            event.prevent_default()
            self.value = "off" if self.value.strip() == "on" else "on"
        else:
            await super()._on_key(event)

    def render_line(self, y: int) -> Strip:
        """Without focus, show the beginning of a long value with an ellipsis."""
        cells = self.scrollable_content_region.width
        if self.has_focus or y or width(safe(self.value)) <= cells:
            return super().render_line(y)
        return Strip([Segment(cut(safe(self.value), cells), self.rich_style)]).extend_cell_length(
            cells, self.rich_style
        )


class _Fields(Vertical):
    """Labels, symbols and fields. Symbols: ? unknown, ∅ known to be none, = known, ! invalid."""

    DEFAULT_CSS = f"""
    _Fields {{
        height: {len(FIELDS)};
        & > FieldInput {{ margin: 0 0 0 {LABEL}; }}
    }}
    """

    def __init__(self, form: "RequestForm") -> None:
        super().__init__()
        self.form = form

    def compose(self) -> ComposeResult:
        for field in FIELDS:
            entry = FieldInput(placeholder=field.hint or field.rest, id=f"field-{field.name}")
            entry.value = self.form.values.get(field.name, "")
            entry.intercept_key = self.form.intercept_key
            yield entry

    def render(self) -> Content:
        focused = self.screen.focused
        return Content("\n").join(
            [self._label(field, focused is not None and focused.id == f"field-{field.name}") for field in FIELDS]
        )

    def _label(self, field: request.Field, here: bool) -> Content:
        value = self.form.values.get(field.name, "").strip()
        if self.form.problems.get(field.name):
            sign, tone = "!", "bold $text-error"
        elif field.name in ("operation", "target", "asAuthor") or (field.name == "currentTime" and not value):
            sign, tone = " ", ""
        elif value in ("", UNKNOWN):
            sign, tone = "?", "$text-warning"
        else:
            sign, tone = ("∅" if value == NONE else "="), "$text-accent"
        label = f"{field.label:<{LABEL - 2}}"
        return Content.assemble((label, "bold $text-accent" if here else "$text-muted"), (sign, tone))


class RequestForm(Widget):
    """Edits a trial request and posts its changes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "step(-1)", show=False),
        Binding("down,enter", "step(1)", show=False),
    ]
    DEFAULT_CSS = f"""
    RequestForm {{
        height: {len(FIELDS) + 1};
        padding: 0 1;
        & > .form--message {{ height: 1; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis; }}
    }}
    """

    class Changed(Message):
        """Posted when the request changes or is validated again. It may be invalid."""

    class Typed(Message):
        """Posted when the user edits a field. `is_longer` is whether the value became longer, except for `asAuthor`."""

        def __init__(self, field: str, entry: Input, *, is_longer: bool) -> None:
            super().__init__()
            self.field = field
            self.entry = entry
            self.is_longer = is_longer

    def __init__(self, values: Mapping[str, str], *, intercept_key: Callable[[str], bool]) -> None:
        """`intercept_key` is called with each key before a field handles it, and returns True to stop the key."""
        super().__init__(id="request")
        self.intercept_key = intercept_key
        self.values = dict(values)
        self.problems: dict[str, str] = {}
        self.is_edited = False
        """Whether the user has edited a field."""
        self.catalogue: Collection[str] = ()

    def compose(self) -> ComposeResult:
        yield _Fields(self)
        yield Static("", classes="form--message", markup=False)

    def on_mount(self) -> None:
        self._show_message()

    @property
    def request(self) -> Request | None:
        """The request; None if a field is invalid."""
        return None if self.problems else request.parse_values(self.values)

    def set_values(self, values: Mapping[str, str]) -> None:
        for name, value in values.items():
            self.query_one(f"#field-{name}", FieldInput).value = value

    def set_catalogue(self, catalogue: Collection[str]) -> None:
        """Set the operations of the catalogue, for validation."""
        self.catalogue = catalogue
        self._validate("operation")

    def focus_field(self) -> None:
        """Focus the first invalid field, or the first field."""
        name = next(iter(self.problems), FIELDS[0].name)
        self.screen.set_focus(self.query_one(f"#field-{name}"))

    def action_step(self, by: int) -> None:
        if not self.step(by):
            self.focus_end(by)

    def step(self, by: int) -> bool:
        """Move the focus by `by` fields. Return False if there is no such field."""
        fields = list(self.query(FieldInput))
        at = next((at for at, field in enumerate(fields) if field.has_focus), 0) + by
        if not 0 <= at < len(fields):
            return False
        self.screen.set_focus(fields[at])
        return True

    def focus_end(self, by: int) -> None:
        """Focus the first field, or the last one if `by` is negative."""
        self.screen.set_focus(list(self.query(FieldInput))[0 if by > 0 else -1])

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        name = (event.input.id or "").removeprefix("field-")
        before = self.values.get(name, "")
        if before == event.value:
            return
        self.values[name] = event.value
        self._validate(name, *(("target",) if name == "operation" else ()))
        if event.input.has_focus:
            self.is_edited = True
            is_longer = len(event.value) > len(before) and name != "asAuthor"
            self.post_message(self.Typed(name, event.input, is_longer=is_longer))

    def _validate(self, *names: str) -> None:
        operation = self.values.get("operation", "")
        for name in names:
            problem = request.problem(name, self.values.get(name, ""), self.catalogue, operation=operation)
            if problem:
                self.problems[name] = problem
            else:
                self.problems.pop(name, None)
        self._show_message()
        self.post_message(self.Changed())

    def on_descendant_focus(self, _: events.DescendantFocus) -> None:
        self._show_message()

    def on_descendant_blur(self, _: events.DescendantBlur) -> None:
        self._show_message()

    def _show_message(self) -> None:
        """Show a problem or, without any, the valid values of the focused field."""
        if not self.is_mounted or not self.query(_Fields):
            return
        self.query_one(_Fields).refresh()
        focused = self.screen.focused
        here = (focused.id or "").removeprefix("field-") if isinstance(focused, FieldInput) else ""
        invalid = here if here in self.problems else next(iter(self.problems), "")
        if invalid:
            problem = f"! {request.BY_NAME[invalid].label}: {self.problems[invalid]}"
            message = Content.styled(safe(problem), "$text-error")
        elif here:
            note = request.state(here, self.values.get(here, ""))
            takes = request.BY_NAME[here].takes
            message = Content.styled(f"{note} · {takes}" if note and self.values.get(here) else takes, "$text-muted")
        else:
            message = Content.styled("? unknown · ∅ known to be none · = known", "$text-disabled")
        self.query_one(".form--message", Static).update(message, layout=False)
