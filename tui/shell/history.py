"""The visited views, for `[` and `]`. A view is a screen with its filter."""

from typing import NamedTuple

LIMIT = 50


class Subject(NamedTuple):
    """The record whose contents a screen shows, and its tenant."""

    tenant_id: str
    id: str
    name: str


class View(NamedTuple):
    """A screen, its filter, its subject, and the views that led to it."""

    screen: str
    filter: str = ""
    subject: Subject | None = None
    trail: "tuple[View, ...]" = ()
    """The views that Esc returns to from an inner screen, the nearest last. Their own trails are empty."""
    record: str = ""
    """Id of the record under the cursor, in a trail."""


class History:
    """A history like that of a browser: a new view drops the later ones."""

    def __init__(self) -> None:
        self._views: list[View] = []
        self._here = -1

    @property
    def earlier(self) -> View | None:
        """The previous view."""
        return self._views[self._here - 1] if self._here > 0 else None

    @property
    def later(self) -> View | None:
        """The next view."""
        return self._views[self._here + 1] if self._here + 1 < len(self._views) else None

    def stand(self, view: View) -> None:
        """Replace the current view, such as after a change of its filter."""
        if self._here >= 0:
            self._views[self._here] = view

    def visit(self, view: View) -> None:
        """Add a view, unless it is the current one."""
        if self._here >= 0 and self._views[self._here] == view:
            return
        self._views = [*self._views[: self._here + 1], view][-LIMIT:]
        self._here = len(self._views) - 1

    def back(self, view: View) -> View | None:
        """Save `view` as the current one and return the previous one; None at the first."""
        return self._move(-1, view)

    def forth(self, view: View) -> View | None:
        """Save `view` as the current one and return the next one; None at the latest."""
        return self._move(1, view)

    def _move(self, step: int, view: View) -> View | None:
        self.stand(view)
        if not 0 <= self._here + step < len(self._views):
            return None
        self._here += step
        return self._views[self._here]
