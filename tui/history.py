"""The views one has been at, for `[` and `]`. A view is a place with its filter; pure."""

from typing import NamedTuple

LIMIT = 50


class Subject(NamedTuple):
    """The record whose inside a place shows, and the tenant it belongs to."""

    tenant_id: str
    id: str
    name: str


class View(NamedTuple):
    """A place, the filter it was shown with, what it showed the inside of, and the views one came there by."""

    place: str
    filter: str = ""
    subject: Subject | None = None
    trail: "tuple[View, ...]" = ()
    """The views Esc leads back to from an inside, the nearest last; those in it have none of their own."""
    record: str = ""
    """Id of the record under the cursor, in a trail."""


class History:
    """Like that of a browser: going somewhere new drops what was ahead."""

    def __init__(self) -> None:
        self._views: list[View] = []
        self._here = -1

    @property
    def earlier(self) -> View | None:
        """The view before this one."""
        return self._views[self._here - 1] if self._here > 0 else None

    @property
    def later(self) -> View | None:
        """The view after this one."""
        return self._views[self._here + 1] if self._here + 1 < len(self._views) else None

    def stand(self, view: View) -> None:
        """The view one is at changed in place: its filter was typed."""
        if self._here >= 0:
            self._views[self._here] = view

    def visit(self, view: View) -> None:
        """Go to a view."""
        if self._here >= 0 and self._views[self._here] == view:
            return
        self._views = [*self._views[: self._here + 1], view][-LIMIT:]
        self._here = len(self._views) - 1

    def back(self, view: View) -> View | None:
        """Leave `view` for the one before; None at the first."""
        return self._move(-1, view)

    def forth(self, view: View) -> View | None:
        """Leave `view` for the one after; None at the latest."""
        return self._move(1, view)

    def _move(self, step: int, view: View) -> View | None:
        self.stand(view)
        if not 0 <= self._here + step < len(self._views):
            return None
        self._here += step
        return self._views[self._here]
