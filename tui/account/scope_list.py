"""List of the scopes that a key can have, by service."""

from collections.abc import Sequence

from textual.message import Message

from client.tables.columns import UNKNOWN, Column, Kind, Record, fields, number_column
from tui.widgets.record_table import RecordTable, Tones


def _scope(record: Record) -> str:
    return str(record["service"]) if record.get("heading") else f"  {record['scope']}"


def _permits(record: Record) -> str:
    if record.get("heading"):
        return ""
    count = int(record.get("operations", 0))
    return f"{count:,} operation{'' if count == 1 else 's'}"


def _role(record: Record) -> str:
    """Return whether the user's role has the scope: `held`, `held in part` or `lacks it`."""
    if record.get("heading"):
        return ""
    if not record.get("held", True):
        return "× lacks it"
    return "◐ in part" if record.get("lacks") else "held"


def _enforced(record: Record) -> str:
    return "" if record.get("heading") or record.get("enforced", True) else "! not enforced"


def _blank(record: Record, text: str) -> str:
    return " " if record.get("heading") else text or UNKNOWN


_COLUMNS = (
    Column("scope", "Scope", cell=_scope, whole=True),
    number_column("operations", "Permits")._replace(cell=lambda record: _blank(record, _permits(record))),
    Column("held", "Your role", cell=lambda record: _blank(record, _role(record)), whole=True),
    Column("enforced", "Enforced", cell=lambda record: _enforced(record) or " ", whole=True),
)
SCOPES = Kind("scope", "scopes", "scope", _COLUMNS, fields(_COLUMNS, role="held", enforced="enforced"), "scope")
TONES: Tones = {
    "scope": lambda record: "dim" if record.get("heading") or not record.get("held", True) else None,
    "operations": lambda record: "dim",
    "held": lambda record: "warning" if not record.get("held", True) or record.get("lacks") else "dim",
    "enforced": lambda record: "warning",
}


def rows(scopes: Sequence[Record], others: Sequence[str] = ()) -> list[Record]:
    """Return the scopes in the order of the response, with a heading for each service.

    Args:
        scopes: The scopes that the platform lists for a tenant.
        others: Scopes of a key that are not listed.
    """
    listed = {str(scope["scope"]) for scope in scopes}
    unlisted = [{"scope": scope, "enforced": False} for scope in others if scope not in listed]
    services: dict[str, list[Record]] = {}
    for scope in (*scopes, *unlisted):
        service = str(scope["scope"]).partition(":")[0]
        # No scope ends in a space, so the id of a heading is unique.
        heading = {"scope": f"{service} ", "service": service, "heading": True}
        services.setdefault(service, [heading]).append(scope)
    return [row for members in services.values() for row in members]


def about(record: Record | None) -> str:
    """Describe a scope in one line."""
    if record is None or record.get("heading"):
        return ""
    parts = [str(record.get("description") or "A finer scope of the key")]
    lacks = [str(one) for one in record.get("lacks") or ()]
    if not record.get("held", True):
        parts.append(f"cannot be given: your role lacks {_first_missing(lacks)}")
    else:
        if not record.get("enforced", True):
            parts.append("no service asks for it, so it allows nothing")
        if lacks:
            parts.append(f"ends where your role ends, which lacks {_first_missing(lacks)}")
    return "; ".join(parts) + "."


def _first_missing(lacks: Sequence[str]) -> str:
    """Return only the first missing operation, as the line is short."""
    return f"{lacks[0] if lacks else 'all of it'}{' and more' if len(lacks) > 1 else ''}"


class ScopeList(RecordTable):
    """Space or Enter selects a scope. A scope that the role lacks is refused with `Refused`."""

    class Refused(Message):
        """The user selected a scope that cannot be granted."""

        def __init__(self, record: Record) -> None:
            super().__init__()
            self.record = record

    def __init__(self, chosen: Sequence[str], *, id: str) -> None:
        super().__init__(SCOPES, tones=TONES, id=id)
        self._rows: Sequence[Record] = ()
        self._chosen = chosen

    @property
    def chosen(self) -> list[str]:
        """The selected scopes in the order of the response."""
        marks = self.view.marks
        if not self._rows:  # not loaded yet
            return list(self._chosen)
        return [str(row["scope"]) for row in self._rows if row["scope"] in marks]

    @property
    def unenforced(self) -> list[str]:
        marks = self.view.marks
        return [str(row["scope"]) for row in self._rows if row["scope"] in marks and not row.get("enforced", True)]

    def take(self, scopes: Sequence[Record], empty: str) -> None:
        """Update the list and preserve the selection."""
        chosen = self.chosen
        self.set_empty(empty)
        if scopes:
            first = not self._rows
            self._rows = rows(scopes, chosen)
            self.show(self._rows)
            if first:
                self.reset_cursor()
            self.view.marks = set(chosen)
            self.refresh()
            self.post_message(self.Arranged(self))

    def reset_cursor(self) -> None:
        """Move the cursor to the first scope, below the heading of its service."""
        super().reset_cursor()
        if (self.record or {}).get("heading"):
            self.cursor = 1

    def action_mark(self) -> None:
        record = self.record
        if record is None or record.get("heading"):
            self.action_move(1)
        elif not record.get("held", True) and record["scope"] not in self.view.marks:
            self.post_message(self.Refused(record))
        else:
            super().action_mark()

    def action_open(self) -> None:
        """Select, as Space does, so that Enter does not submit the form by mistake."""
        self.action_mark()
