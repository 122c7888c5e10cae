"""A form with named fields, validated while typing. It returns a mapping."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Input, OptionList, Static
from textual.widgets.option_list import Option

from client.errors import FrostError
from client.tenancy import LONGEST_NAME, display_name_fault
from client.text import safe
from client.texts.refusals import may_exist
from tui.widgets.dialog import Dialog, hint


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form: text, or a choice of several (value, label)."""

    name: str
    label: str
    value: str = ""
    placeholder: str = ""
    choices: Sequence[tuple[str, str]] = ()
    # Returns the problem of a value, or None. Called on every change.
    check: Callable[[str], str | None] | None = None


class Form(Dialog[Mapping[str, str] | None]):
    """Returns the values by field name, or None after Esc. Enter saves from any field."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "save", "Save", show=False)]

    DEFAULT_CSS = """
    Form {
        .form--label { margin-top: 1; color: $text-muted; }
        .form--problem { color: $text-error; height: auto; min-height: 1; }
        Input { border: tall $foreground 15%; &:focus { border: tall $primary; } }
        OptionList { height: auto; max-height: 7; border: tall $foreground 15%; &:focus { border: tall $primary; } }
        .form--row { height: auto; }
        &.-short {
            .form--row { layout: horizontal; }
            .form--label { width: 14; margin-top: 0; }
            Input, Input:focus { border: none; height: 1; width: 1fr; padding: 0; background: transparent; }
            OptionList, OptionList:focus { border: none; width: 1fr; padding: 0; background: transparent; }
            .dialog--buttons { height: 1; margin-top: 0; }
            .dialog--buttons Button { border: none !important; height: 1; }
        }
    }
    """
    # A form with three framed fields needs 26 lines.
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012  (declared on the base class)
    LISTENS_AT_ONCE = True

    def __init__(
        self, title: str, fields: Sequence[Field], *, save: str = "Save", note: str = "", problem: str = ""
    ) -> None:
        """`problem` is the error of the previous attempt, shown until the next input. `note` is above the keys."""
        super().__init__()
        self._refused = problem
        self._title = title
        self.fields = fields
        self.save_label = save
        self.note = note

    def title_text(self) -> str:
        return self._title

    def content(self) -> ComposeResult:
        for field in self.fields:
            label = Static(field.label, classes="form--label", markup=False)
            yield Vertical(label, self._choice(field) if field.choices else self._text(field), classes="form--row")
        yield Static(Content(safe(self._refused)), classes="form--problem", markup=False)
        yield Horizontal(
            Button("Cancel", id="cancel"),
            Button(self.save_label, id="save", variant="primary"),
            classes="dialog--buttons",
        )
        next_field = "Tab next field" if len(self.fields) > 1 else ""
        keys = " · ".join(filter(None, (f"Enter {self.save_label.lower()}", next_field, "Esc cancel")))
        yield hint(f"{self.note}\n{keys}" if self.note else keys)

    def _text(self, field: Field) -> Input:
        entry = Input(field.value, placeholder=field.placeholder, id=f"field-{field.name}")
        entry.cursor_blink = False
        return entry

    def _choice(self, field: Field) -> OptionList:
        values = [value for value, _ in field.choices]
        options = [Option(Content(safe(label)), id=value) for value, label in field.choices]
        choice = OptionList(*options, id=f"field-{field.name}")
        choice.highlighted = values.index(field.value) if field.value in values else 0
        return choice

    def first_focus(self) -> Widget:
        return self.query_one(f"#field-{self.fields[0].name}")

    def value_of(self, field: Field) -> str:
        """Return the value of a field."""
        if not field.choices:
            return self.query_one(f"#field-{field.name}", Input).value
        index = self.query_one(f"#field-{field.name}", OptionList).highlighted
        return field.choices[index or 0][0]

    def problem(self, *, of_empty: bool = True) -> tuple[Field, str] | None:
        """Return the first invalid field and its problem; without `of_empty`, of the fields with a value."""
        for field in self.fields:
            value = self.value_of(field)
            reason = field.check(value) if field.check is not None and (value or of_empty) else None
            if reason:
                return field, reason
        return None

    def show_problem(self, problem_text: str) -> None:
        """Show a problem, also an error of the service, without closing the form."""
        self.query_one(".form--problem", Static).update(Content(safe(problem_text)))

    @on(Input.Changed)
    def _changed(self) -> None:
        # An empty field is not reported while the user types.
        problem = self.problem(of_empty=False)
        if problem is None and self._untouched():
            return
        self.show_problem(problem[1] if problem else "")

    def _untouched(self) -> bool:
        """Return whether all fields have their initial values. Textual reports these as changes, too."""
        return all(self.value_of(field) == field.value for field in self.fields)

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def action_save(self) -> None:
        problem = self.problem()
        if problem is not None:
            self.show_problem(problem[1])
            self.query_one(f"#field-{problem[0].name}").focus()
            return
        self.dismiss({field.name: self.value_of(field) for field in self.fields})

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "save":
            self.action_save()
        else:
            self.dismiss(None)


Values = Mapping[str, str]


async def show_until_saved(
    show: Callable[[Form], Awaitable[Values | None]],
    build: Callable[[Values, str], Form],
    values: Values,
    save: Callable[[Values], Awaitable[None]],
    *,
    creates: str = "",
    rejected: Callable[[FrostError, Values], Awaitable[tuple[str, Values]]] | None = None,
) -> None:
    """Show a form until it is saved or cancelled. After an error, the form shows the error and keeps the input.

    Args:
        show: Shows a form and returns its values, or None if the user cancels.
        build: Returns the form for values and the error of the previous attempt.
        values: Initial values by field name.
        save: Saves the values, without spaces around them.
        creates: Noun of the resource that `save` creates; empty if it changes one.
        rejected: Returns the text of an error and the values for the next attempt.
    """
    problem = ""
    while True:
        answer = await show(build(values, problem))
        if answer is None:
            return
        values = {name: value.strip() for name, value in answer.items()}
        try:
            await save(values)
            return
        except FrostError as error:
            if rejected is not None:
                problem, values = await rejected(error, values)
            else:
                problem = problem_text(error)
            if creates and may_exist(error):
                problem = f"{problem}; the {creates} may exist: check the list"


def problem_text(error: FrostError) -> str:
    """Return an error with its hint and request id in one line."""
    request = f"request {error.request_id}" if error.request_id and not error.hint else ""
    return " · ".join(filter(None, (error.message, error.hint, request)))


_NAME_FAULTS = {
    "empty": "a name is required",
    "length": f"a name has at most {LONGEST_NAME} characters",
    "character": "a name must not contain control or formatting characters",
}


def check_name(name: str) -> str | None:
    """Return the problem of a display name, as the service reports it; None if it is valid."""
    fault = display_name_fault(name)
    return _NAME_FAULTS[fault] if fault is not None else None
