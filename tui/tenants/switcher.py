"""The tenant switcher: search for a tenant and make it the current one.

The cursor begins on the previous tenant, so that the key of the switcher and Enter toggle between two tenants. Words
match anywhere in name, slug or organization. An id, which the list does not show, is matched by its beginning only,
from `ID_CHARACTERS` on: two digits occur in many ids. Names that start with the first term are first, then matches in
names, then recent tenants.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from client.tables.columns import TENANT, Column
from tui.state.workspace import Workspace
from tui.tenants import screen
from tui.widgets.dialog import Dialog, hint
from tui.widgets.record_table import RecordTable, Tones

if TYPE_CHECKING:
    from tui.state.preferences import TenantRecord

NO_MATCH = "No tenant matches."
TALLEST = 16  # lines of the list; more on a tall terminal
BESIDES = 10  # other lines of the dialog
ID_CHARACTERS = 8
"""Least length of a word that the beginning of an id matches: the first group of a UUID."""


class Searchable(NamedTuple):
    """A tenant with its texts in lower case, prepared for a search on every key press."""

    name: str
    everything: str
    tenant: "TenantRecord"


def searchable(tenants: "Iterable[TenantRecord]") -> list[Searchable]:
    entries = []
    for tenant in tenants:
        others = "\n".join((tenant.slug, tenant.organization_name))
        name = tenant.display_name.casefold()
        entries.append(Searchable(name, f"{name}\n{others.casefold()}", tenant))
    return entries


def ranked(known: Sequence[Searchable], line: str, recent: Sequence[str]) -> "list[TenantRecord]":
    """Return the tenants that match every word, best match first. Without words, recent tenants are first."""
    terms = line.casefold().split()
    rank = {tenant_id: number for number, tenant_id in enumerate(recent)}
    ranks = []
    for number, (name, everything, tenant) in enumerate(known):
        elsewhere = 0
        for term in terms:
            if term not in everything and not (len(term) >= ID_CHARACTERS and tenant.id.startswith(term)):
                break
            elsewhere += term not in name
        else:
            inside = bool(terms) and not name.startswith(terms[0])
            ranks.append((inside, elsewhere, rank.get(tenant.id, len(rank)), number))
    return [known[number].tenant for *_, number in sorted(ranks)]


class TenantSwitcher(Dialog[str | None]):
    """Returns the id of the chosen tenant, or None. `recent` are ids, the current tenant first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,ctrl+p", "move(-1)", show=False, priority=True),
        Binding("down,ctrl+n,ctrl+t", "move(1)", show=False, priority=True),
        Binding("pageup", "move(-10)", show=False, priority=True),
        Binding("pagedown", "move(10)", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    TenantSwitcher {
        align: center top;
        & > .dialog { margin-top: 2; }
        Input, Input:focus { border: none; height: 1; padding: 0; margin-bottom: 1; background: transparent; }
    }
    """
    LISTENS_AT_ONCE = True
    MIN_CELLS = 96

    def __init__(
        self,
        tenants: "Sequence[TenantRecord]",
        *,
        recent: Sequence[str] = (),
        columns: Sequence[Column] | None = None,
        tones: Tones | None = None,
        empty: str = NO_MATCH,
    ) -> None:
        super().__init__()
        self.known = searchable(tenants)
        self.recent = recent
        self.columns = columns
        self.tones = tones
        self.empty = empty

    def title_text(self) -> str:
        return "Switch tenant"

    def content(self) -> ComposeResult:
        line = Input(placeholder="name, slug, organization or ID")
        line.cursor_blink = False
        yield line
        table: RecordTable[TenantRecord] = RecordTable(TENANT, self.columns, tones=self.tones, empty=self.empty)
        table.can_focus = False
        yield table
        yield hint("Enter switch · ↑ ↓ choose · Esc close")

    def first_focus(self) -> Widget:
        return self.query_one(Input)

    def on_mount(self) -> None:
        self._show("")
        # The first recent tenant is the current one, so select the one before it.
        self.query_one(RecordTable).cursor = 1 if len(self.recent) > 1 else 0

    def _show(self, line: str) -> None:
        table = self.query_one(RecordTable)
        tenants = ranked(self.known, line, self.recent)
        table.show(tenants)
        table.cursor = 0
        self._fit()

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        table = self.query_one(RecordTable)
        room = min(self.list_rows(TALLEST), self.app.size.height - BESIDES)
        table.styles.height = max(2, min(max(table.view.total, 3) + 1, room))

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._show(event.value)

    @on(Input.Submitted)
    def _chosen(self) -> None:
        tenant: TenantRecord | None = self.query_one(RecordTable).record
        if tenant is not None:
            self.dismiss(tenant.id)

    @on(RecordTable.Opened)
    def _opened(self, event: RecordTable.Opened) -> None:
        self._chosen()

    def action_move(self, lines: int) -> None:
        self.query_one(RecordTable).action_move(lines)


def switcher(workspace: Workspace) -> TenantSwitcher:
    return TenantSwitcher(
        workspace.tenants,
        recent=workspace.recent,
        columns=screen.columns(workspace),
        tones=screen.tones(workspace),
        empty=NO_MATCH if workspace.tenants else workspace.tenants_error or NO_MATCH,
    )
