"""Navigation between screens: opening one, the history behind `[` and `]`, and Esc from an inner screen."""

from functools import partial
from typing import Any, NamedTuple

from textual import on
from textual.screen import Screen
from textual.widget import AwaitMount, Widget
from textual.worker import Worker

from tui.shell import routes
from tui.shell.action import ActionContext, load
from tui.shell.bars import Navigation
from tui.shell.keymap import Keys
from tui.shell.list_screen import ListScreen
from tui.shell.routes import Navigate, Subject
from tui.state.notices import Severity
from tui.state.workspace import Workspace
from tui.terminal.textual_patches import LaysOutOnce, PaintsNothing
from tui.widgets.detail import Detail

MAX_VIEWS = 50


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
        """The previous screen."""
        return self._views[self._here - 1] if self._here > 0 else None

    @property
    def later(self) -> View | None:
        """The next screen."""
        return self._views[self._here + 1] if self._here + 1 < len(self._views) else None

    def replace(self, view: View) -> None:
        """Replace the current view, such as after a change of its filter."""
        if self._here >= 0:
            self._views[self._here] = view

    def visit(self, view: View) -> None:
        """Add a view, unless it is the current one."""
        if self._here >= 0 and self._views[self._here] == view:
            return
        self._views = [*self._views[: self._here + 1], view][-MAX_VIEWS:]
        self._here = len(self._views) - 1

    def back(self, view: View) -> View | None:
        """Save `view` as the current one and return the previous one; None at the first."""
        return self._move(-1, view)

    def forth(self, view: View) -> View | None:
        """Save `view` as the current one and return the next one; None at the latest."""
        return self._move(1, view)

    def _move(self, step: int, view: View) -> View | None:
        self.replace(view)
        if not 0 <= self._here + step < len(self._views):
            return None
        self._here += step
        return self._views[self._here]


class Navigator(LaysOutOnce, Screen[None], PaintsNothing):
    """Shows one screen at a time. Screens are mounted on first use and keep their state."""

    def __init__(self, workspace: Workspace, keys: Keys) -> None:
        super().__init__()
        self.workspace = workspace
        self.current: ListScreen[Any] | None = None
        self.history = History()
        self.keys = keys
        self.trail: tuple[View, ...] = ()
        """The views that Esc returns to, the nearest last: one for each inner screen that was opened from another view.
        """

    # Interface for screens and dialogs, implemented in tui/shell/main_screen.py.

    def show_keys(self) -> None:
        """Update the footer for the screen and the record under the cursor."""
        raise NotImplementedError

    def action_context(self) -> ActionContext:
        """Return the state that decides which actions are available."""
        raise NotImplementedError

    def toast(self, text: str, severity: Severity = "information") -> str:
        """Show a message and return its text as shown. Control characters are made visible."""
        raise NotImplementedError

    def perform(self, action_id: str, argument: str = "") -> None:
        """Run an action, or show why it is disabled."""
        raise NotImplementedError

    def use_tenant(self, tenant_id: str) -> None:
        """Switch to a tenant. The view does not change."""
        raise NotImplementedError

    def make(self, name: str) -> ListScreen[Any]:
        """Create a screen."""
        screen: ListScreen[Any] = load(routes.BY_NAME[name].path)(self.workspace)
        return screen

    async def open(self, name: str, subject: Subject | None = None) -> ListScreen[Any]:
        """Show a screen and create it on the first visit. An inner one shows the contents of `subject`."""
        screen = next(iter(self.query(f"#screen-{name}").results(ListScreen)), None)
        if screen is None:
            screen = self.make(name)
            await self.query_one("#body").mount(screen)
        elif not screen.is_mounted:  # an earlier call was cancelled
            await AwaitMount(self.query_one("#body"), [screen])
        for other in self.query(ListScreen):
            other.display = other is screen
        self.current = screen
        if subject is not None:
            screen.enter(subject)
        screen.refresh_on_open()
        screen.focus_list()
        self.show_keys()
        return screen

    def view(self) -> View:
        """Return the current view: screen, filter, subject and trail."""
        assert self.current is not None
        return View(self.current.NAME, self.current.table.view.filter, self.current.subject, self.trail)

    def origin_of(self, view: View) -> str:
        """Return the screen of the navigation from which a view was entered. Esc returns there."""
        first = view.trail[0].screen if view.trail else view.screen
        return routes.BY_NAME[first].parent or first

    @property
    def origin(self) -> str:
        """The screen of the navigation from which the current view was entered."""
        return self.origin_of(self.view())

    def _mark_origin(self) -> None:
        """Mark the origin in the navigation. The next start opens it, for the same principal."""
        self.workspace.state.screen, self.workspace.state.screen_of = self.origin, self.workspace.who
        self.query_one(Navigation).show(self.origin)

    # Forward

    def go(self, name: str, filter_line: str = "") -> None:
        """Open a screen in the background, optionally with a filter, and add it to the history."""
        _: Worker[None] = self.run_worker(partial(self.navigate, name, filter_line), group="go", exclusive=True)

    async def navigate(self, name: str, filter_line: str = "", subject: Subject | None = None) -> None:
        """Open a screen, filtered only by `filter_line`, and wait until it is open.

        From an inner screen, Esc returns to the previous view.
        """
        before = self._save_view()
        screen = await self.open(name, subject)
        if subject is None:
            self.trail = ()
        elif (before.screen, before.subject) != (name, subject):
            self.trail = (*before.trail, before._replace(trail=()))[-MAX_VIEWS:]
        self._mark_origin()
        screen.set_filter(filter_line)
        self.history.visit(View(name, filter_line, screen.subject, self.trail))

    def _save_view(self) -> View:
        """Return the current view, with the record under the cursor, and update the history with it.

        An inner screen without a subject is not saved: its subject belonged to another tenant.
        """
        assert self.current is not None
        view = self.view()
        if view.subject is not None or not routes.BY_NAME[view.screen].parent:
            self.history.replace(view)
        record = self.current.record
        return view._replace(record=self.current.id_of(record) if record is not None else "")

    async def action_go(self, name: str) -> None:
        await self.navigate(name)

    @on(Navigate)
    def _navigate_requested(self, event: Navigate) -> None:
        _: Worker[None] = self.run_worker(partial(self._open_for, event), group="go", exclusive=True)

    async def _open_for(self, request: Navigate) -> None:
        await self.navigate(request.screen, request.filter, request.subject)
        if request.record and self.current is not None:
            self.current.select(request.record)

    @on(Navigation.Chosen)
    def _chosen(self, event: Navigation.Chosen) -> None:
        self.go(event.screen)

    # Back

    async def action_back(self) -> None:
        """Go back one level. Esc never quits."""
        if self.current is None or self.current.escape():
            return
        if self.has_class("-zoom"):
            self.do_zoom()
        elif parent := routes.BY_NAME[self.current.NAME].parent:
            self._save_view()
            *trail, view = self.trail or (View(parent),)
            await self._show(view._replace(trail=tuple(trail)))
            self.history.visit(self.view())

    async def do_earlier(self) -> None:
        await self._return_to(self.history.back(self.view()))

    async def do_later(self) -> None:
        await self._return_to(self.history.forth(self.view()))

    async def _return_to(self, view: View | None) -> None:
        if view is None:
            return
        parent = routes.BY_NAME[view.screen].parent
        if parent and (view.subject is None or view.subject.tenant_id != self.workspace.tenant_id):
            view = View(self.origin_of(view))  # the subject belongs to another tenant
        await self._show(view)

    async def _show(self, view: View) -> None:
        screen = await self.open(view.screen, view.subject)
        self.trail = view.trail
        self._mark_origin()
        screen.set_filter(view.filter)
        if view.record:
            screen.select(view.record)
        self.show_keys()

    def open_own_first(self) -> None:
        """Replace the screen that another principal had open by the first one, unless the user has moved on.

        The principal is unknown until the first response.
        """
        state, who = self.workspace.state, self.workspace.who
        is_foreign = state.screen_of not in ("", who)
        state.screen_of = who
        if is_foreign and self.history.earlier is None and self.history.later is None and not self.trail:
            _: Worker[None] = self.run_worker(self._start_over, group="go", exclusive=True)

    async def _start_over(self) -> None:
        await self._show(View(routes.NAMES[0]))
        self.history.replace(self.view())

    def do_zoom(self) -> None:
        if self.current is not None:
            zoomed = not self.has_class("-zoom")
            self.set_class(zoomed, "-zoom")
            self.current.zoom(zoomed, detail=self.current.query_one(Detail).has_focus)


def frame_of(widget: Widget) -> Navigator:
    """Return the main screen of a widget."""
    assert isinstance(widget.screen, Navigator)
    return widget.screen
