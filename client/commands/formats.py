"""Values as text: JSON, YAML and tables. Pure functions.

JSON and YAML preserve every value. Characters that could affect a terminal (controls, bidirectional and other invisible
characters, lone surrogates) become standard escapes; other scripts are unchanged.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from client.text import cut, width

GAP = "  "
_READABLE = 10
"""Minimum width of a column in cells when a table is fitted to a terminal; a longer heading extends it."""
_NARROWEST = 6
"""Minimum width in cells if the table is still too wide."""


def json_text(value: Any, indent: int | None = 2, *, ascii_only: bool = False) -> str:
    """Return a JSON document without a final newline; on one line if `indent` is None.

    `ascii_only` escapes all characters that are not ASCII.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _escape(text, _json_escape, _not_ascii if ascii_only else _actors)


def yaml_text(value: Any, *, ascii_only: bool = False) -> str:
    """Return a block style document of YAML 1.1 and 1.2.

    Strings other than plain words are JSON strings, which are valid YAML: no reader can take one for a number, a date
    or a boolean.
    """
    return _escape("\n".join(_block(value)), _yaml_escape, _not_ascii if ascii_only else _actors)


def table_text(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[bool] = (),
    keep: Sequence[bool] = (),
    limit: int | None = None,
) -> str:
    """Return aligned columns, headings first. Cells must not contain line breaks.

    Args:
        heads: The headings.
        rows: The cells of each row, as many as there are headings.
        right: For each column, whether to align it to the right.
        keep: For each column, whether to exclude it from truncation.
        limit: The terminal's width in cells. The widest columns are truncated with `…`, their headings last. A table
            that still does not fit is wider, since a truncated id is useless. None disables truncation.
    """
    spared = [*keep, *([False] * (len(heads) - len(keep)))]
    to_right = [*right, *([False] * (len(heads) - len(right)))]
    widths = [max(width(text) for text in column) for column in zip(heads, *rows, strict=True)]
    if limit is not None:
        giving = [index for index, whole in enumerate(spared) if not whole]
        _fit(widths, {index: max(_READABLE, width(heads[index])) for index in giving}, limit)
        narrowest = dict.fromkeys(giving, _NARROWEST)
        if _excess(widths, limit) <= sum(max(0, widths[index] - least) for index, least in narrowest.items()):
            _fit(widths, narrowest, limit)
    return "\n".join(GAP.join(map(_pad, row, widths, to_right)).rstrip(" ") for row in (heads, *rows))


def _pad(text: str, cells: int, to_right: bool) -> str:
    used = width(text)
    if used > cells:
        text = cut(text, cells)
        used = width(text)
    space = " " * (cells - used)
    return space + text if to_right else text + space


def _excess(widths: Sequence[int], limit: int) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1) - limit


def _fit(widths: list[int], least: Mapping[int, int], limit: int) -> None:
    """Reduce the widest of the columns in `least` until the line fits or all have their minimum width."""
    for _ in range(_excess(widths, limit)):
        candidates = [index for index, cells in least.items() if widths[index] > cells]
        if not candidates:
            return
        widths[max(candidates, key=widths.__getitem__)] -= 1


_WORD = r"[A-Za-z_][A-Za-z0-9_./@+-]*(?: [A-Za-z0-9_./@+-]+)*"
_RESERVED_YAML = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))
_LONGEST_SIMPLE_KEY = 512
"""Maximum length of a simple key. YAML limits it to 1,024 characters, escapes included."""


def _block(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, member in value.items():
            name = _scalar(key)
            if len(name) > _LONGEST_SIMPLE_KEY:
                yield f"? {name}"
                name = ""
            if isinstance(member, dict | list) and member:
                yield f"{name}:"
                for line in _block(member):
                    yield f"  {line}"
            else:
                yield f"{name}: {_scalar(member)}"
    elif isinstance(value, list) and value:
        for item in value:
            lead = "- "
            for line in _block(item):
                yield lead + line
                lead = "  "
    else:
        yield _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        if re.fullmatch(_WORD, value) and value.casefold() not in _RESERVED_YAML:
            return value
        return json.dumps(value, ensure_ascii=False)
    text = json.dumps(value)
    if isinstance(value, float) and "." not in text:
        # YAML 1.1 requires a point in a number with an exponent.
        return text.replace("e", ".0e", 1)
    return text


@cache
def _actors() -> re.Pattern[str]:
    """Return a pattern of invisible and control characters (Cc, Cf, Zl, Zp, Cs) and of those that YAML forbids."""
    return re.compile(
        "[\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
        "\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3"
        "\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
    )


@cache
def _not_ascii() -> re.Pattern[str]:
    return re.compile("[^\x00-\x7e]")


def _escape(text: str, escape: Callable[[re.Match[str]], str], pattern: Callable[[], re.Pattern[str]]) -> str:
    """Escape characters. Both formats have such characters only in quoted strings, which allow escapes."""
    if text.isascii() and "\x7f" not in text:
        return text
    return pattern().sub(escape, text)


def _json_escape(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1] if match[0] != "\x7f" else "\\u007f"


def _yaml_escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    return f"\\U{number:08x}" if number > 0xFFFF else f"\\u{number:04x}"
