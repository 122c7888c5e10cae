"""The filter line of a list: words that must all be found, `!word` that must not, `field:value`.

Letter case never matters, and a word in double quotes may hold blanks. A prefix that names no field of
the list is plain text, so that an id or an address with a colon can be searched as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """One word of a filter: where to look (None: everywhere), what for, and whether it must be absent."""

    field: str | None
    value: str
    inverse: bool


def parse(line: str, fields: Sequence[str] = ()) -> tuple[Term, ...]:
    """The terms of a filter line; `fields` are the names that may stand before a colon."""
    terms = []
    for word in _words(line):
        inverse = word.startswith("!") and len(word) > 1
        word = word[1:] if inverse else word
        name, colon, value = word.partition(":")
        if colon and name.casefold() in fields:
            terms.append(Term(name.casefold(), value.casefold(), inverse))
        else:
            terms.append(Term(None, word.casefold(), inverse))
    return tuple(terms)


def unknown_field(line: str, fields: Sequence[str]) -> str:
    """The first word before a colon that names no field, where it can have been meant to; addresses are no fields."""
    for word in _words(line):
        name, _, value = word.removeprefix("!").partition(":")
        if value and name.isalpha() and name.casefold() not in fields and not value.startswith("/"):
            return name
    return ""


def highlights(terms: Sequence[Term]) -> tuple[str, ...]:
    """What to mark in the cells: the words that were asked for, not the ones shut out."""
    return tuple(term.value for term in terms if not term.inverse and term.value)


def narrows(before: Sequence[Term], after: Sequence[Term]) -> bool:
    """Whether what `after` accepts was accepted by `before` already: nothing else need be looked at."""
    return all(any(_implies(term, former) for term in after) for former in before)


def _implies(term: Term, former: Term) -> bool:
    if term == former:
        return True
    return not (term.inverse or former.inverse) and term.field == former.field and former.value in term.value


def _words(line: str) -> list[str]:
    """Split at blanks outside double quotes; an unclosed quote reaches to the end, as it is being typed."""
    words, word, quoted = [], "", False
    for character in line:
        if character == '"':
            quoted = not quoted
        elif character.isspace() and not quoted:
            if word:
                words.append(word)
            word = ""
        else:
            word += character
    return [*words, word] if word else words
