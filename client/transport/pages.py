"""Read a list page by page, and end a list that would not end by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from client.errors import FrostError

CURSOR_REPEATED = "CURSOR_REPEATED"
ITEM_REPEATED = "ITEM_REPEATED"
EMPTY_PAGE = "EMPTY_PAGE"
LIST_INCOMPLETE = "LIST_INCOMPLETE"
_HINT = "read the list page by page with --limit and --cursor"


class PageLimits(NamedTuple):
    """Numbers of pages of one list."""

    notice: int = 10_000
    """The user gets a notice after this number of pages, if there are more."""
    most: int = 100_000
    """The list is incomplete after this number of pages, if there are more."""


class PageTrail:
    """The position in a list. `cursor` is that of the next page, "" for the first one and None after the last.

    Args:
        cursor: The cursor of the page to start with.
        limits: The numbers of pages.
        notify: Shows a notice to the user.
    """

    def __init__(
        self,
        cursor: str,
        limits: PageLimits = PageLimits(),
        notify: Callable[[str], None] = lambda notice: None,
    ) -> None:
        self.cursor: str | None = cursor
        self._limits = limits
        self._notify = notify
        self._cursors = {cursor}
        self._first_items: set[int] = set()
        self._pages = 0

    def advance(self, document: Any, member: str | None) -> None:
        """Go on to the page after a response, whose records are in `member`.

        A list that leads back to an earlier page repeats the first item of that page, so only these are compared. A
        list of one page has nothing to compare.

        Raises:
            FrostError: The page is empty but not the last one, repeats a cursor or an item of an earlier page, or is
                one page too many.
        """
        self.cursor = next_cursor(document) or None
        self._pages += 1
        items = document[member]
        if self._first_items and not self._first_items.isdisjoint(map(_hash, items)):
            raise _endless("an item", ITEM_REPEATED)
        if self.cursor is None:
            return
        if not items:
            raise FrostError(
                "the platform sent an empty page that is not the last one; the list may never end",
                code=EMPTY_PAGE,
                hint=_HINT,
            )
        if self.cursor in self._cursors:
            raise _endless("a cursor", CURSOR_REPEATED)
        self._first_items.add(_hash(items[0]))
        self._cursors.add(self.cursor)
        if self._pages >= self._limits.most:
            raise FrostError(
                f"the list is incomplete: it has more than {self._limits.most:,} pages",
                code=LIST_INCOMPLETE,
                hint=_HINT,
            )
        if self._pages == self._limits.notice:
            self._notify(f"{self._pages:,} pages read, and the list has more")


def _hash(item: Any) -> int:
    """Return a hash of all members: a record that changed in the meantime may be on a later page again."""
    return hash(json.dumps(item, sort_keys=True))


def next_cursor(document: Any) -> str:
    """Return `nextCursor` of a response; "" on the last page."""
    cursor = document.get("nextCursor")
    return cursor if isinstance(cursor, str) else ""


def _endless(repeated: str, code: str) -> FrostError:
    return FrostError(f"the platform repeats {repeated}; the list would never end", code=code, hint=_HINT)
