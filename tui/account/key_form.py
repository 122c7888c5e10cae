"""Form for an API key. An error focuses its field."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from client.errors import FrostError
from client.models.validation import MAX_API_KEY_NAME, MAX_RATE_LIMIT, MIN_API_KEY_NAME, parse_rate_limit
from client.text import safe
from client.texts.refusals import KeyProblem, key_problem, may_exist
from tui.account.key_inputs import ChoiceLine, Until
from tui.account.key_tables import ScopeList, about
from tui.widgets.dialog import Result, Sending, Waiting, hint
from tui.widgets.lines import LineInput
from tui.widgets.record_table import RecordTable

if TYPE_CHECKING:
    from client.models.account import GrantableScope

EXPIRIES = (("30 days", timedelta(days=30)), ("90 days", timedelta(days=90)), ("1 year", timedelta(days=365)))
YEAR = 2
"""Index of the platform's default expiry."""
RATE = 600
"""Default rate limit, in requests per minute."""
BESIDES = 15  # lines of the dialog without the list of scopes

FIELDS = {"name": "name", "description": "description", "scopes": "scopes", "rateLimit": "rate"}
"""Fields by the members of the request."""


def form_problem(error: FrostError) -> KeyProblem:
    """Return the problem of a key request as the form shows it."""
    problem = key_problem(error)
    if may_exist(error):
        return problem._replace(message=f"{problem.message}; the key may exist: check the list")
    return problem


class KeyDraft(NamedTuple):
    """The values of the form. `expires_at` is None if the form has no expiry."""

    name: str
    description: str
    scopes: Sequence[str]
    rate_limit: int
    expires_at: datetime | None = None


MAKING = Waiting(
    "Waiting for the platform …",
    "The response has the secret of the key. Press Esc again to close without it.",
    "Closed before the response: the key may exist, but its secret was not shown. If it exists, delete it",
)
CHANGING = Waiting(
    "Waiting for the platform …",
    "No response yet. Press Esc again to close; the key may still change.",
    "Closed before the response: the key may have changed",
)


class KeyForm(Sending[KeyDraft, Result]):
    """Creates a key if `expires` is true, otherwise changes one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Save", show=False, priority=True),
        Binding("slash", "find", "Find a scope", show=False),
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
    ]
    DEFAULT_CSS = """
    KeyForm {
        & > .dialog { padding: 0 2; overflow-y: auto; scrollbar-size-vertical: 1; }
        .key--row { height: 1; }
        .key--label { width: 13; color: $text-muted; }
        .key--unit { width: auto; color: $text-muted; margin-left: 1; }
        #field-rate { width: 10; }
        .key--scopes { margin-top: 1; height: 1; }
        .key--count { width: auto; color: $text-muted; margin-left: 2; }
        .key--about { height: 2; color: $text-muted; }
        .key--problem { height: auto; min-height: 1; max-height: 2; color: $text-error; }
        .key--problem.-waiting { color: $text-muted; }
        .dialog--buttons { height: 1; margin-top: 0; }
        .dialog--buttons Button { border: none !important; height: 1; }
        .dialog--hint { margin-top: 0; }
    }
    """
    LISTENS_AT_ONCE = True
    MIN_CELLS = 92

    def __init__(
        self,
        title: str,
        draft: KeyDraft,
        scopes: "Callable[[], tuple[Sequence[GrantableScope], str]]",
        send: Callable[[KeyDraft], Awaitable[Result]],
        *,
        expires: bool = True,
        button: str = "Create",
    ) -> None:
        """`scopes` returns the available scopes and the reason if there are none. `show` calls it again."""
        super().__init__(send, MAKING if expires else CHANGING)
        self._title, self._draft, self._scopes = title, draft, scopes
        self._expires, self._button = expires, button
        self._wrong = ""  # field of the problem shown
        self._wrong_scopes: Sequence[str] = ()
        self._refusing: GrantableScope | None = None  # scope refused last

    def title_text(self) -> str:
        return self._title

    def content(self) -> ComposeResult:
        draft = self._draft
        yield from self._line("Name", "name", draft.name, f"{MIN_API_KEY_NAME} to {MAX_API_KEY_NAME} characters")
        yield from self._line("Description", "description", draft.description, "none")
        yield from self._line("Rate limit", "rate", str(draft.rate_limit), str(RATE), "requests per minute")
        if self._expires:
            yield Until("Expires", EXPIRIES, YEAR, id="field-until")
        find = LineInput(placeholder="/ filter: text, !exclude, role:yes", id="field-find")
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
        yield hint(f"Tab next · Space select scope · ^s {self._button.lower()} · Esc cancel")

    @staticmethod
    def _line(label: str, name: str, value: str, placeholder: str, unit: str = "") -> ComposeResult:
        entry = LineInput(placeholder=placeholder, id=f"field-{name}")
        entry.value = value
        parts: list[Widget] = [Static(label, classes="key--label", markup=False), entry]
        if unit:
            parts.append(Static(unit, classes="key--unit", markup=False))
        yield Horizontal(*parts, classes="key--row")

    def first_focus(self) -> Widget:
        return self.query_one("#field-name")

    @property
    def list(self) -> ScopeList:
        return self.query_one(ScopeList)

    def on_resize(self) -> None:
        besides = BESIDES if self._expires else BESIDES - 2
        self.list.styles.height = max(3, min(self.list_rows(18), self.app.size.height - besides))

    def on_mount(self) -> None:
        self.show()

    def show(self) -> None:
        self.list.take(*self._scopes())

    # Problems

    @on(RecordTable.Highlighted)
    def _highlighted(self, event: RecordTable.Highlighted) -> None:
        event.stop()
        self.query_one(".key--about", Static).update(Content(safe(about(event.record))))
        if self._refusing is not None and event.record is not self._refusing:
            self._clear_problem()

    @on(RecordTable.Arranged)
    def _arranged(self, event: RecordTable.Arranged) -> None:
        event.stop()
        nothing = len(self.list.unenforced)
        count_text = f"{len(self.list.chosen)} selected" + (f", {nothing} not enforced yet" if nothing else "")
        self.query_one(".key--count", Static).update(Content(count_text))
        if self._wrong == "scopes" and self.list.chosen != self._wrong_scopes:
            self._clear_problem()

    @on(ScopeList.Refused)
    def _refused(self, event: ScopeList.Refused) -> None:
        self.show_problem(KeyProblem("", f"{event.scope.scope}: your role does not have this scope"))
        self._refusing = event.scope

    def show_problem(self, problem: KeyProblem) -> None:
        """Show a problem and focus its field."""
        self._wrong, self._wrong_scopes, self._refusing = problem.member, self.list.chosen, None
        self._put(problem.message)
        if problem.member == "expiresAt" and self._expires:
            self.query_one(Until).take_focus()
        elif field := FIELDS.get(problem.member):
            self.query_one(f"#field-{field}").focus()

    def show_note(self, text: str) -> None:
        self._put(text, waiting=True)

    def _put(self, text: str, *, waiting: bool = False) -> None:
        line = self.query_one(".key--problem", Static)
        line.set_class(waiting, "-waiting")
        line.update(Content(safe(text)))

    def _clear_problem(self) -> None:
        if not self.sending:
            self.show_problem(KeyProblem("", ""))

    @on(Until.Changed)
    def _moved(self) -> None:
        self._clear_problem()

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        if event.input.id == "field-find":
            self.list.set_filter(event.value)
            self.list.reset_cursor()
        elif event.value != self._first(event.input.id or ""):
            self._clear_problem()

    def _first(self, field: str) -> str:
        draft = self._draft
        first = {"field-name": draft.name, "field-description": draft.description, "field-rate": str(draft.rate_limit)}
        return first.get(field, "")

    # Sending

    def _draft_now(self) -> KeyDraft | KeyProblem:
        def value(field: str) -> str:
            return self.query_one(f"#field-{field}", Input).value.strip()

        rate_limit = parse_rate_limit(value("rate") or str(RATE))
        if not value("name"):
            return KeyProblem("name", "a name is required")
        if not MIN_API_KEY_NAME <= len(value("name")) <= MAX_API_KEY_NAME:
            return KeyProblem("name", f"a name has {MIN_API_KEY_NAME} to {MAX_API_KEY_NAME} characters")
        if rate_limit is None:
            numbers = f"a whole number of requests per minute, 1 to {MAX_RATE_LIMIT}"
            return KeyProblem("rateLimit", f"the rate limit must be {numbers}")
        until = self.query_one(Until) if self._expires else None
        if until is not None and until.problem:
            return KeyProblem("expiresAt", "" if until.shows_problem else until.problem)
        if not self.list.chosen:
            return KeyProblem("scopes", "at least one scope is required; Space selects a scope")
        return KeyDraft(
            value("name"),
            value("description"),
            self.list.chosen,
            rate_limit,
            until.moment if until is not None else None,
        )

    async def action_save(self) -> None:
        draft = self._draft_now()
        if isinstance(draft, KeyProblem):
            self.show_problem(draft)
        else:
            self.deliver(draft)

    def show_refusal(self, error: FrostError) -> None:
        self.show_problem(form_problem(error))

    @on(Input.Submitted)
    async def _submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "field-find":
            self.set_focus(self.list)
        else:
            await self.action_save()

    @on(ChoiceLine.Submitted)
    @on(Button.Pressed, "#save")
    async def _pressed(self) -> None:
        await self.action_save()

    def action_find(self) -> None:
        self.set_focus(self.query_one("#field-find"))

    def action_cancel(self) -> None:
        """Clear the search first, as in every list, then close the form."""
        find = self.query_one("#field-find", Input)
        if find.value and not self.sending:
            find.value = ""
            self.set_focus(self.list)
        else:
            self.leave()
