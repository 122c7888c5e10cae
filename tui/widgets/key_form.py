"""The form of an API key: what it is called, when it ends, what it may do. Refusals stand at the field at fault."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from client.errors import FrostError
from client.records import Record
from client.text import safe
from tui.key_refusals import Problem, problem
from tui.widgets.dialog import Dialog, hint
from tui.widgets.line_input import LineInput
from tui.widgets.record_table import RecordTable
from tui.widgets.scope_list import ScopeList, about
from tui.widgets.until import Until

EXPIRIES = (("30 days", timedelta(days=30)), ("90 days", timedelta(days=90)), ("1 year", timedelta(days=365)))
YEAR = 2
"""The place of the platform's own default among them."""
RATE = 600
"""Requests a minute where nothing is said."""
BESIDES = 15  # lines of the dialog that are not the list of scopes


class KeyDraft(NamedTuple):
    """What was filled in. `expires_at` is None where the form does not ask for it."""

    name: str
    description: str
    scopes: Sequence[str]
    rate_limit: int
    expires_at: datetime | None = None


Send = Callable[[KeyDraft], Awaitable[Any]]


class KeyForm(Dialog[Any]):
    """Gives what `send` answered, or None when it was left. It stays open until that answers: nothing typed is lost."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Save", show=False, priority=True),
        Binding("slash", "find", "Find a scope", show=False),
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
    ]
    DEFAULT_CSS = """
    KeyForm {
        & > .dialog { width: 92; padding: 0 2; overflow-y: auto; scrollbar-size-vertical: 1; }
        .key--row { height: 1; }
        .key--label { width: 13; color: $text-muted; }
        .key--scopes { margin-top: 1; height: 1; }
        .key--count { width: auto; color: $text-muted; margin-left: 2; }
        .key--about { height: 2; color: $text-muted; }
        .key--problem { height: auto; min-height: 1; max-height: 2; color: $text-error; }
        .dialog--buttons { height: 1; margin-top: 0; }
        .dialog--buttons Button { border: none !important; height: 1; }
        .dialog--hint { margin-top: 0; }
    }
    """
    LISTENS_AT_ONCE = True

    def __init__(
        self,
        title: str,
        draft: KeyDraft,
        scopes: Callable[[], tuple[Sequence[Record], str]],
        send: Send,
        *,
        expires: bool = True,
        button: str = "Create",
    ) -> None:
        """`scopes` gives those there are and why there are none; asked again by `show`, as they may be on their way."""
        super().__init__()
        self._title, self._draft, self._scopes, self._send = title, draft, scopes, send
        self._expires, self._button = expires, button
        self._sending = False
        self._wrong = ""  # the field of the problem that is shown
        self._wrong_scopes: Sequence[str] = ()

    def title_text(self) -> str:
        return self._title

    def content(self) -> ComposeResult:
        draft = self._draft
        yield from self._line("Name", "name", draft.name, "2 to 100 characters")
        yield from self._line("Description", "description", draft.description, "none")
        yield from self._line("Rate limit", "rate", str(draft.rate_limit), f"{RATE} requests a minute")
        if self._expires:
            yield Until("Expires", EXPIRIES, YEAR, id="field-until")
        find = LineInput(placeholder="/ finds: words, !word, role:held", id="field-find")
        count = Static("", classes="key--count", markup=False)
        yield Horizontal(Static("Scopes", classes="key--label"), find, count, classes="key--scopes")
        yield ScopeList(draft.scopes, id="field-scopes")
        yield Static("", classes="key--about", markup=False)
        yield Static("", classes="key--problem", markup=False)
        yield Horizontal(
            Button("Cancel", id="cancel"),
            Button(self._button, id="save", variant="primary"),
            classes="dialog--buttons",
        )
        yield hint(f"Tab next · Space chooses a scope · ^s {self._button.lower()}s · Esc cancels")

    @staticmethod
    def _line(label: str, name: str, value: str, placeholder: str) -> ComposeResult:
        entry = LineInput(placeholder=placeholder, id=f"field-{name}")
        entry.value = value
        yield Horizontal(Static(label, classes="key--label", markup=False), entry, classes="key--row")

    def first_focus(self) -> Widget:
        return self.query_one("#field-name")

    @property
    def list(self) -> ScopeList:
        """The scopes."""
        return self.query_one(ScopeList)

    def on_resize(self) -> None:
        besides = BESIDES if self._expires else BESIDES - 2
        self.list.styles.height = max(3, min(18, self.app.size.height - besides))

    def on_mount(self) -> None:
        super().on_mount()
        self.show()

    def show(self) -> None:
        """Take the scopes as they are known now."""
        self.list.take(*self._scopes())

    # What is said

    @on(RecordTable.Highlighted)
    def _highlighted(self, event: RecordTable.Highlighted) -> None:
        event.stop()
        self.query_one(".key--about", Static).update(Content(safe(about(event.record))))

    @on(RecordTable.Arranged)
    def _arranged(self, event: RecordTable.Arranged) -> None:
        event.stop()
        nothing = len(self.list.unenforced)
        words = f"{len(self.list.chosen)} chosen" + (f", {nothing} enforced by nothing" if nothing else "")
        self.query_one(".key--count", Static).update(Content(words))
        if self._wrong == "scopes" and self.list.chosen != self._wrong_scopes:
            self._clear_problem()

    @on(ScopeList.Refused)
    def _refused(self, event: ScopeList.Refused) -> None:
        self.show_problem(Problem("", f"{event.record['scope']}: your role does not give it, so no key can have it"))

    def show_problem(self, found: Problem) -> None:
        """Say what is wrong, and stand where it is."""
        self._wrong, self._wrong_scopes = found.field, self.list.chosen
        self.query_one(".key--problem", Static).update(Content(safe(found.words)))
        if found.field == "until" and self._expires:
            self.query_one(Until).take_focus()
        elif found.field:
            self.query_one(f"#field-{found.field}").focus()

    def _clear_problem(self) -> None:
        self.show_problem(Problem("", ""))

    @on(Until.Changed)
    def _moved(self) -> None:
        self._clear_problem()

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        if event.input.id == "field-find":
            self.list.set_filter(event.value)
            self.list.cursor = 0
        elif event.value != self._first(event.input.id or ""):
            self._clear_problem()

    def _first(self, field: str) -> str:
        draft = self._draft
        first = {"field-name": draft.name, "field-description": draft.description, "field-rate": str(draft.rate_limit)}
        return first.get(field, "")

    # Sending

    def _draft_now(self) -> KeyDraft | Problem:
        def value(field: str) -> str:
            return self.query_one(f"#field-{field}", Input).value.strip()

        rate = value("rate") or str(RATE)
        if not (rate.isascii() and rate.isdigit() and int(rate[:9])):
            return Problem("rate", "the limit is a whole number of requests a minute, from 1 on")
        if not value("name"):
            return Problem("name", "a name is needed")
        until = self.query_one(Until) if self._expires else None
        if until is not None and until.problem:
            return Problem("until", until.problem)
        if not self.list.chosen:
            return Problem("scopes", "at least one scope is needed: Space chooses the one under the cursor")
        return KeyDraft(
            value("name"),
            value("description"),
            self.list.chosen,
            int(rate),
            until.moment if until is not None else None,
        )

    async def action_save(self) -> None:
        draft = self._draft_now()
        if isinstance(draft, Problem):
            self.show_problem(draft)
        elif not self._sending:
            self._sending = True
            self._clear_problem()
            self.app.run_worker(self._deliver(draft), group="send key", exit_on_error=False)

    async def _deliver(self, draft: KeyDraft) -> None:
        try:
            answer = await self._send(draft)
        except FrostError as error:
            self.show_problem(problem(error))
        else:
            self.dismiss(answer)
        finally:
            self._sending = False

    @on(Input.Submitted)
    async def _submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "field-find":
            self.set_focus(self.list)
        else:
            await self.action_save()

    @on(Button.Pressed)
    async def _pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "save":
            await self.action_save()
        else:
            self.dismiss(None)

    def action_find(self) -> None:
        self.set_focus(self.query_one("#field-find"))

    def action_cancel(self) -> None:
        if not self._sending:  # what is being made must not come without anybody seeing its secret
            self.dismiss(None)
