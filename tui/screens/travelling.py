"""The ways between the places: opening one, the history behind `[` and `]`, and Esc out of the inside of a record."""

from functools import partial

from textual import on
from textual.screen import Screen
from textual.worker import Worker

from tui import places
from tui.history import LIMIT, History, Subject, View
from tui.messages import Travel
from tui.resizing import Resting
from tui.screens.place import Place
from tui.widgets.covered import Covered
from tui.widgets.navigation import Navigation
from tui.workspace import Workspace


class Travelling(Resting, Screen[None], Covered):
    """A screen that shows one place at a time. Places are opened inside it and stay as they were left."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__()
        self.workspace = workspace
        self.place: Place | None = None
        self.history = History()
        self.trail: tuple[View, ...] = ()
        """The views Esc leads back to, the nearest last: one for each inside that was entered from another view."""

    def show_keys(self) -> None:
        """Another place, or another record in it: other keys work."""
        raise NotImplementedError

    @staticmethod
    def door(name: str) -> places.Door:
        """The door of a place."""
        return places.BY_NAME[name]

    async def open(self, name: str, subject: Subject | None = None) -> Place:
        """Show a place, made on its first visit; one of the inner kind shows the inside of `subject`."""
        place = next(iter(self.query(f"#place-{name}").results(Place)), None)
        if place is None:
            place = self.door(name).open(self.workspace)
            await self.query_one("#body").mount(place)
            place.restore_sort(self.workspace.state.sort.get(name, []))
            place.heading.furnish()
        for other in self.query(Place):
            other.display = other is place
        self.place = place
        if subject is not None:
            place.enter(subject)
        place.in_sight()
        place.focus_list()
        self.show_keys()
        return place

    def view(self) -> View:
        """The view shown: a place with its filter, what it shows the inside of, and the way back from there."""
        assert self.place is not None
        return View(self.place.NAME, self.place.table.view.filter, self.place.subject, self.trail)

    def origin_of(self, view: View) -> str:
        """The place of the navigation from which a view was entered: Esc leads back there."""
        first = view.trail[0].place if view.trail else view.place
        return self.door(first).within or first

    @property
    def origin(self) -> str:
        """The place of the navigation from which the view shown was entered."""
        return self.origin_of(self.view())

    def _show_origin(self) -> None:
        """Mark the origin in the navigation. The next start opens it."""
        self.workspace.state.place = self.origin
        self.query_one(Navigation).show(self.origin)

    # Going somewhere

    def go(self, name: str, filter_line: str | None = None) -> None:
        """Open a place, with a filter, and remember the view in the history."""
        _: Worker[None] = self.run_worker(partial(self.travel, name, filter_line), group="go", exclusive=True)

    async def travel(self, name: str, filter_line: str | None = None, subject: Subject | None = None) -> None:
        """Open a place and wait until it is open. From an inner one Esc leads back to where one was before."""
        before = self._standing()
        place = await self.open(name, subject)
        if subject is None:
            self.trail = ()
        elif (before.place, before.subject) != (name, subject):
            self.trail = (*before.trail, before._replace(trail=()))[-LIMIT:]
        self._show_origin()
        if filter_line is not None:
            place.set_filter(filter_line)
        shown = place.table.view.filter if filter_line is None else filter_line
        self.history.visit(View(name, shown, place.subject, self.trail))

    def _standing(self) -> View:
        """The view that is left now, remembered as it is; what belonged to another tenant was left already."""
        assert self.place is not None
        view = self.view()
        if view.subject is not None or not self.door(view.place).within:
            self.history.stand(view)
        return view._replace(record=str(self.place.record[self.place.KIND.id_key]) if self.place.record else "")

    async def action_go(self, name: str) -> None:
        await self.travel(name)

    @on(Travel)
    def _travelling(self, event: Travel) -> None:
        _: Worker[None] = self.run_worker(partial(self._follow, event), group="go", exclusive=True)

    async def _follow(self, way: Travel) -> None:
        await self.travel(way.place, "" if way.record else way.filter, way.subject)
        if way.record and self.place is not None:
            self.place.select(way.record)

    @on(Navigation.Chosen)
    def _chosen(self, event: Navigation.Chosen) -> None:
        self.go(event.place)

    # Going back

    async def action_back(self) -> None:
        """Esc: one level back, never out."""
        if self.place is None or self.place.escape():
            return
        if self.has_class("-zoom"):
            self.do_zoom()
        elif within := self.door(self.place.NAME).within:
            self._standing()
            *trail, view = self.trail or (View(within),)
            await self._show(view._replace(trail=tuple(trail)))
            self.history.visit(self.view())

    async def do_earlier(self) -> None:
        await self._return_to(self.history.back(self.view()))

    async def do_later(self) -> None:
        await self._return_to(self.history.forth(self.view()))

    async def _return_to(self, view: View | None) -> None:
        if view is None:
            return
        within = self.door(view.place).within
        if within and (view.subject is None or view.subject.tenant_id != self.workspace.tenant_id):
            view = View(self.origin_of(view))  # the inside of a record of another tenant is not shown in this one
        await self._show(view)

    async def _show(self, view: View) -> None:
        place = await self.open(view.place, view.subject)
        self.trail = view.trail
        self._show_origin()
        place.set_filter(view.filter)
        if view.record:
            place.select(view.record)
        self.show_keys()

    def do_zoom(self) -> None:
        if self.place is not None:
            zoomed = not self.has_class("-zoom")
            self.set_class(zoomed, "-zoom")
            self.place.zoom(zoomed)
