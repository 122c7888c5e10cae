"""Lists that come in pages: the rule by which one page leads to the next, for both drivers.

Source: contract: Paged commands; checklist P05, P13.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from client.errors import FrostError

if TYPE_CHECKING:
    from client.core import Call

MOST = 200
"""Items the platform puts on one page at most (checklist P09)."""

PageCall = Callable[[str], "Call"]
"""Makes the request of the page that a cursor names; "" is the first."""


def query(limit: int | None, cursor: str, *more: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """What a request says of its page, and what else chooses the rows."""
    asked = [*more]
    if limit is not None:
        asked.append(("limit", str(limit)))
    if cursor:
        asked.append(("cursor", cursor))
    return tuple(asked)


def every(page: PageCall, cursor: str = "") -> Generator[Call, Any, None]:
    """The requests of all pages from a cursor on; is sent the answer of each.

    Raises:
        FrostError: A cursor came back that was there before: following it would never end.
    """
    seen = {cursor}
    while True:
        answer = yield page(cursor)
        cursor = next_cursor(answer)
        if not cursor:
            return
        if cursor in seen:
            raise FrostError(
                "the service repeats a cursor; the list would never end",
                code="CURSOR_REPEATED",
                hint="page by page it can still be read: --limit N --cursor …",
            )
        seen.add(cursor)


def next_cursor(answer: Any) -> str:
    """`nextCursor` of an answer, "" on the last page."""
    found = answer.get("nextCursor")
    return found if isinstance(found, str) else ""
