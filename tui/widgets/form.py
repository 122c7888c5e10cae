"""A small form: a few named fields, checked while typing, given back as a mapping."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Input, OptionList, Static
from textual.widgets.option_list import Option

from client.text import safe
from tui.widgets.dialog import Dialog, hint


@dataclass(frozen=True, slots=True)
class Field:
    """One line of a form: text, or with `choices` one of several (value, what is shown)."""

    name: str
    label: str
    value: str = ""
    placeholder: str = ""
    choices: Sequence[tuple[str, str]] = ()
    # What is wrong with a value, or None; called on every key.
    check: Callable[[str], str | None] | None = None


class Form(Dialog[Mapping[str, str] | None]):
    """Gives the values by field name, or None when it was left with Esc. Enter saves from any field."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "save", "Save", show=False)]

    DEFAULT_CSS = """
    Form {
        .form--label { margin-top: 1; color: $text-muted; }
        .form--problem { color: $text-error; height: auto; min-height: 1; }
        Input { border: tall $foreground 15%; &:focus { border: tall $primary; } }
        OptionList { height: auto; max-height: 7; border: tall $foreground 15%; &:focus { border: tall $primary; } }
    }
    """
    LISTENS_AT_ONCE = True

    def __init__(
        self, title: str, fields: Sequence[Field], *, save: str = "Save", note: str = "", problem: str = ""
    ) -> None:
        """`problem` is why the form is there again: what a refusal said, until something is typed."""
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
            yield Static(field.label, classes="form--label", markup=False)
            yield self._choice(field) if field.choices else self._text(field)
        yield Static(Content(safe(self._refused)), classes="form--problem", markup=False)
        yield Horizontal(
            Button("Cancel", id="cancel"),
            Button(self.save_label, id="save", variant="primary"),
            classes="dialog--buttons",
        )
        yield hint(self.note or "Enter saves · Tab next field · Esc cancels")

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
        """What a field holds now."""
        if not field.choices:
            return self.query_one(f"#field-{field.name}", Input).value
        place = self.query_one(f"#field-{field.name}", OptionList).highlighted
        return field.choices[place or 0][0]

    def problem(self) -> tuple[Field, str] | None:
        """The first field whose value cannot be saved, and why."""
        for field in self.fields:
            reason = field.check(self.value_of(field)) if field.check is not None else None
            if reason:
                return field, reason
        return None

    def show_problem(self, words: str) -> None:
        """Say in place what is wrong; also for a refusal of the service, so that nothing typed is lost."""
        self.query_one(".form--problem", Static).update(Content(safe(words)))

    @on(Input.Changed)
    def _changed(self) -> None:
        # An empty field is not yet wrong while it is being filled in.
        problem = self.problem()
        if problem is None and self._untouched():
            return
        self.show_problem(problem[1] if problem and self.value_of(problem[0]) else "")

    def _untouched(self) -> bool:
        """Whether the fields hold what they were given: Textual tells that as a change, too."""
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
