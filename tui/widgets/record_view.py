"""Sorted and filtered records of a list, independent of Textual.

Records are models of the client, or mappings. A `client.tables.columns.Kind` describes their JSON objects. Filter
texts are cached, and an extended filter searches only the previous matches, so that 20,000 records are filtered within
a frame.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from client.tables.columns import UNKNOWN, Column, Kind, Record, json_of

T = TypeVar("T")
"""A record."""


@dataclass(frozen=True, slots=True)
class Term:
    """A term of a filter: the field (None for all), the text, and whether the text must be absent."""

    field: str | None
    value: str
    inverse: bool


def parse(line: str, fields: Sequence[str] = ()) -> tuple[Term, ...]:
    """Parse a filter line. `fields` are the valid names before a colon."""
    terms = []
    for word in _terms(line):
        inverse = word.startswith("!") and len(word) > 1
        word = word[1:] if inverse else word
        name, colon, value = word.partition(":")
        if colon and name.casefold() in fields:
            terms.append(Term(name.casefold(), value.casefold(), inverse))
        else:
            terms.append(Term(None, word.casefold(), inverse))
    return tuple(terms)


def unknown_field(line: str, fields: Sequence[str]) -> str:
    """Return the first unknown field name of a filter line, except in URLs; empty if there is none."""
    for word in _terms(line):
        name, _, value = word.removeprefix("!").partition(":")
        if value and name.isalpha() and name.casefold() not in fields and not value.startswith("/"):
            return name
    return ""


def highlights(terms: Sequence[Term]) -> tuple[str, ...]:
    """Return the texts to highlight. Inverse terms have none."""
    return tuple(term.value for term in terms if not term.inverse and term.value)


def narrows(before: Sequence[Term], after: Sequence[Term]) -> bool:
    """Return whether `after` accepts only records that `before` accepts."""
    return all(any(_implies(term, former) for term in after) for former in before)


def _implies(term: Term, former: Term) -> bool:
    if term == former:
        return True
    return not (term.inverse or former.inverse) and term.field == former.field and former.value in term.value


def _terms(line: str) -> list[str]:
    """Split at blanks outside double quotes. An unclosed quote, as during typing, extends to the end."""
    terms, word, quoted = [], "", False
    for character in line:
        if character == '"':
            quoted = not quoted
        elif character.isspace() and not quoted:
            if word:
                terms.append(word)
            word = ""
        else:
            word += character
    return [*terms, word] if word else terms


UNKNOWN_SAMPLE = 200
"""Maximum length of lists that are checked for empty columns."""


class RecordView(Generic[T]):
    """Records of one kind, filtered and sorted. Positions are indexes of the shown rows, from 0."""

    def __init__(self, kind: Kind, columns: Sequence[Column] | None = None) -> None:
        self.kind = kind
        self.columns = tuple(columns if columns is not None else kind.columns)
        self.sort_column: Column | None = None
        self.reverse = False
        self.marks: set[str] = set()
        self._records: Sequence[T] = ()
        self._json: Sequence[Record] = ()
        self._searchable: list[str | None] = []
        self._visible: Sequence[int] = range(0)
        self._accepted: Sequence[int] = range(0)  # the records that match the filter, in the order of the service
        self._prepared = 0  # number of records with a prepared filter text
        self._positions: dict[str, int] | None = None
        self._filter = ""
        self._fields = _fields(kind, self.columns)
        self._terms: tuple[Term, ...] = ()

    def __len__(self) -> int:
        return len(self._visible)

    def __getitem__(self, position: int) -> T:
        return self._records[self._visible[position]]

    def json_at(self, position: int) -> Record:
        """Return the JSON object of the record at a position."""
        return self._json[self._visible[position]]

    @property
    def total(self) -> int:
        """The number of records, including filtered ones."""
        return len(self._json)

    @property
    def filter(self) -> str:
        """The current filter line; empty if there is none."""
        return self._filter

    @property
    def field_names(self) -> Sequence[str]:
        """The valid names before a colon in a filter line."""
        return tuple(self._fields)

    @property
    def highlights(self) -> tuple[str, ...]:
        """The casefolded texts to highlight."""
        return highlights(self._terms)

    def id_at(self, position: int) -> str:
        """Return the id of the record at a position."""
        return self.kind.id_of(self.json_at(position))

    def position_of(self, record_id: str) -> int | None:
        """Return the position of a record; None if it is not shown."""
        if self._positions is None:
            id_of, json = self.kind.id_of, self._json
            self._positions = {id_of(json[index]): position for position, index in enumerate(self._visible)}
        return self._positions.get(record_id)

    def is_unknown(self, column: Column) -> bool:
        """Return whether a column is empty for all records, including filtered ones. Long lists are not checked."""
        sample = self._json[:UNKNOWN_SAMPLE]
        return 0 < len(self._json) == len(sample) and all(column.text(record) == UNKNOWN for record in sample)

    def replace(self, records: Sequence[T]) -> None:
        """Replace the records. Sort order, filter and marks of existing ones do not change."""
        self._records = records
        self._json = [json_of(record) for record in records]
        self._searchable = [None] * len(records)
        self._prepared = 0
        if self.marks:
            self.marks &= set(map(self.kind.id_of, self._json))
        self._arrange()

    def set_filter(self, line: str) -> None:
        """Show only the records that match the filter line."""
        self._filter = line
        before, self._terms = self._terms, parse(line, tuple(self._fields))
        self._arrange(self._accepted if narrows(before, self._terms) else None)

    def prepare(self, number: int) -> bool:
        """Prepare the filter texts of further records. Return False if all are prepared."""
        end = min(self._prepared + number, len(self._json))
        for index in range(self._prepared, end):
            self._text(index)
        self._prepared = end
        return end < len(self._json)

    def sort_by(self, column: Column | None, reverse: bool = False) -> None:
        """Sort by a column; None restores the order of the service."""
        self.sort_column, self.reverse = column, reverse
        self._arrange()

    def toggle_mark(self, position: int) -> bool:
        """Toggle the mark of a record. Return whether it is marked now."""
        self.marks ^= {self.id_at(position)}
        return self.id_at(position) in self.marks

    def marked(self) -> list[T]:
        """Return the marked records in the displayed order, then those hidden by the filter."""
        if not self.marks:
            return []
        visible = set(self._visible)
        order = [*self._visible, *(index for index in range(len(self._records)) if index not in visible)]
        return [self._records[index] for index in order if self.kind.id_of(self._json[index]) in self.marks]

    def _arrange(self, among: Sequence[int] | None = None) -> None:
        """Filter and sort. `among` limits the candidates, if known."""
        self._positions = None
        indexes: Sequence[int] = range(len(self._json)) if among is None else among
        for term in self._terms:
            indexes = self._accepted_by(term, indexes)
        self._accepted = indexes
        if self.sort_column is not None:
            indexes = self._sort(indexes, self.sort_column.sort_value)
        self._visible = indexes

    def _sort(self, indexes: Sequence[int], value: Callable[[Record], Any]) -> list[int]:
        """Sort by value. Unknown values are last in both directions; equal ones are in the order of the service."""
        keyed = [(value(self._json[index]), index) for index in indexes]
        known = sorted((pair for pair in keyed if pair[0] is not None), key=lambda pair: pair[0], reverse=self.reverse)
        return [index for _, index in known] + [index for key, index in keyed if key is None]

    def _accepted_by(self, term: Term, indexes: Sequence[int]) -> list[int]:
        """Filter by a term. Prepared texts are read without a function call, which would take six times as long."""
        value, inverse, field = term.value, term.inverse, term.field
        if field is not None:
            return [index for index in indexes if (value in self._field(self._json[index], field)) is not inverse]
        texts = self._searchable
        return [index for index in indexes if (value in (texts[index] or self._text(index))) is not inverse]

    def _text(self, index: int) -> str:
        everything = self._searchable[index]
        if everything is None:
            texts = [column.text(self._json[index]) for column in self.columns]
            everything = self._searchable[index] = "\n".join(texts).casefold()
        return everything

    def _field(self, record: Record, name: str) -> str:
        return "\n".join(column.text(record) for column in self._fields[name]).casefold()


def _fields(kind: Kind, columns: Sequence[Column]) -> dict[str, tuple[Column, ...]]:
    """Return the columns by field name: their titles in lower case with hyphens, and the short names of the kind.

    A name finds the text of the column and the kind's filter field for it (the e-mail of a person shown by name).
    """
    matches: dict[str, tuple[Column, ...]] = {}
    for column in columns:
        same = [(name, own) for name, own in kind.filter_fields.items() if own.key == column.key]
        looked = tuple(dict.fromkeys((column, *(own for _, own in same))))
        for name in ("-".join(column.title.casefold().split()), *(name for name, _ in same)):
            if name:
                matches[name] = looked
    return matches | {name: (own,) for name, own in kind.filter_fields.items() if name not in matches}
