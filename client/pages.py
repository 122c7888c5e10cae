"""Lists that come in pages: the rule by which one page leads to the next, for both drivers.

Source: contract: Paged commands; checklist P05, P13.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from client.errors import FrostError

MOST = 200
"""Items the platform puts on one page at most (checklist P09)."""


def query(limit: int | None, cursor: str, *more: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """What a request says of its page, and what else chooses the rows."""
    asked = [*more]
    if limit is not None:
        asked.append(("limit", str(limit)))
    if cursor:
        asked.append(("cursor", cursor))
    return tuple(asked)


def cursors(first: str = "") -> Generator[str, str, None]:
    """The cursor of every page from `first` on ("" is the beginning); is sent `nextCursor` of each page.

    Raises:
        FrostError: A cursor came back that was there before: following it would never end.
    """
    cursor = first
    seen = {cursor}
    while cursor := (yield cursor):
        if cursor in seen:
            raise FrostError(
                "the service repeats a cursor; the list would never end",
                code="CURSOR_REPEATED",
                hint="page by page it can still be read, with --limit and --cursor",
            )
        seen.add(cursor)


def next_cursor(answer: Any) -> str:
    """`nextCursor` of an answer, "" on the last page."""
    found = answer.get("nextCursor")
    return found if isinstance(found, str) else ""
