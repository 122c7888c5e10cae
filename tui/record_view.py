"""What a list shows: its records in the order and selection asked for, without any screen.

Records are wire dicts as they came from the service, described by a `client.records.Kind`. The text a
filter looks into is made once a record and kept, ahead of the first filter where there is time for it, and a
filter typed further looks only at what it showed before: so 20,000 records filter within a frame.
"""

from collections.abc import Callable, Sequence
from typing import Any

from client.records import UNKNOWN, Column, Kind, Record
from tui import filters

UNKNOWN_SAMPLE = 200
"""Lists up to this long are looked through for columns that say nothing."""


class RecordView:
    """Records of one kind, filtered and sorted. Positions are places in what is shown, from 0."""

    def __init__(self, kind: Kind, columns: Sequence[Column] | None = None) -> None:
        self.kind = kind
        self.columns = tuple(columns if columns is not None else kind.columns)
        self.sort_column: Column | None = None
        self.reverse = False
        self.marks: set[str] = set()
        self._records: Sequence[Record] = ()
        self._searchable: list[str | None] = []
        self._shown: Sequence[int] = range(0)
        self._accepted: Sequence[int] = range(0)  # what the filter accepts, in the order of the service
        self._prepared = 0  # records whose text to filter by is there, counted from the first
        self._positions: dict[str, int] | None = None
        self._filter = ""
        self._fields = _fields(kind, self.columns)
        self._terms: tuple[filters.Term, ...] = ()

    def __len__(self) -> int:
        return len(self._shown)

    def __getitem__(self, position: int) -> Record:
        return self._records[self._shown[position]]

    @property
    def total(self) -> int:
        """How many records there are, filtered out or not."""
        return len(self._records)

    @property
    def filter(self) -> str:
        """The filter line in force; empty when everything is shown."""
        return self._filter

    @property
    def field_names(self) -> Sequence[str]:
        """What may stand before a colon in a filter line."""
        return tuple(self._fields)

    @property
    def highlights(self) -> tuple[str, ...]:
        """The casefolded words the filter looks for."""
        return filters.highlights(self._terms)

    def id_at(self, position: int) -> str:
        """The id of the record at a position."""
        return str(self[position][self.kind.id_key])

    def position_of(self, record_id: str) -> int | None:
        """Where a record is shown; None when it is gone or filtered out."""
        if self._positions is None:
            key = self.kind.id_key
            self._positions = {str(self._records[index][key]): place for place, index in enumerate(self._shown)}
        return self._positions.get(record_id)

    def is_unknown(self, column: Column) -> bool:
        """Whether no record has anything to say in a column, filtered out or not; of a long list that is not told."""
        sample = self._records[:UNKNOWN_SAMPLE]
        return 0 < len(self._records) == len(sample) and all(column.text(record) == UNKNOWN for record in sample)

    def replace(self, records: Sequence[Record]) -> None:
        """Take a newer answer: sort, filter and the marks of what is still there stay."""
        self._records = records
        self._searchable = [None] * len(records)
        self._prepared = 0
        if self.marks:
            key = self.kind.id_key
            self.marks &= {str(record[key]) for record in records}
        self._arrange()

    def set_filter(self, line: str) -> None:
        """Show only what the filter line accepts."""
        self._filter = line
        before, self._terms = self._terms, filters.parse(line, tuple(self._fields))
        self._arrange(self._accepted if filters.narrows(before, self._terms) else None)

    def prepare(self, number: int) -> bool:
        """Make the filter's text of so many further records; False when all of them have it."""
        end = min(self._prepared + number, len(self._records))
        for index in range(self._prepared, end):
            self._text(index)
        self._prepared = end
        return end < len(self._records)

    def sort_by(self, column: Column | None, reverse: bool = False) -> None:
        """Order by a column; None is the order the service gave."""
        self.sort_column, self.reverse = column, reverse
        self._arrange()

    def toggle_mark(self, position: int) -> bool:
        """Mark or unmark a record; answers whether it is marked now."""
        self.marks ^= {self.id_at(position)}
        return self.id_at(position) in self.marks

    def marked(self) -> list[Record]:
        """The marked records in the order shown, then those the filter hides."""
        key = self.kind.id_key
        shown = [self[position] for position in range(len(self)) if self.id_at(position) in self.marks]
        seen = {str(record[key]) for record in shown}
        return shown + [record for record in self._records if str(record[key]) in self.marks - seen]

    def _arrange(self, among: Sequence[int] | None = None) -> None:
        """Filter and sort anew; `among` are the only records that can be accepted, where that is known."""
        self._positions = None
        indexes: Sequence[int] = range(len(self._records)) if among is None else among
        for term in self._terms:
            indexes = self._accepted_by(term, indexes)
        self._accepted = indexes
        if self.sort_column is not None:
            indexes = self._sorted(indexes, self.sort_column.sort_value)
        self._shown = indexes

    def _sorted(self, indexes: Sequence[int], value: Callable[[Record], Any]) -> list[int]:
        """Unknown values stand last in either direction; equal ones keep the order of the service."""
        keyed = [(value(self._records[index]), index) for index in indexes]
        known = sorted((pair for pair in keyed if pair[0] is not None), key=lambda pair: pair[0], reverse=self.reverse)
        return [index for _, index in known] + [index for key, index in keyed if key is None]

    def _accepted_by(self, term: filters.Term, indexes: Sequence[int]) -> list[int]:
        """Nothing is called for a record whose text is there: that takes six times as long as to look into it."""
        value, inverse, field = term.value, term.inverse, term.field
        if field is not None:
            return [index for index in indexes if (value in self._field(self._records[index], field)) is not inverse]
        texts = self._searchable
        return [index for index in indexes if (value in (texts[index] or self._text(index))) is not inverse]

    def _text(self, index: int) -> str:
        everything = self._searchable[index]
        if everything is None:
            texts = [column.text(self._records[index]) for column in self.columns]
            everything = self._searchable[index] = "\n".join(texts).casefold()
        return everything

    def _field(self, record: Record, name: str) -> str:
        return "\n".join(column.text(record) for column in self._fields[name]).casefold()


def _fields(kind: Kind, columns: Sequence[Column]) -> dict[str, tuple[Column, ...]]:
    """What a filter may name: each column by its title, as it is read, and by its short name.

    What the column shows counts, and what the kind has in its place (the e-mail of somebody shown by name).
    """
    found: dict[str, tuple[Column, ...]] = {}
    for column in columns:
        same = [(name, own) for name, own in kind.filter_fields.items() if own.key == column.key]
        looked = tuple(dict.fromkeys((column, *(own for _, own in same))))
        for name in ("-".join(column.title.casefold().split()), *(name for name, _ in same)):
            if name:
                found[name] = looked
    return found | {name: (own,) for name, own in kind.filter_fields.items() if name not in found}
