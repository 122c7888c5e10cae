"""The application: wiring only. Places, actions and state have their own modules."""

import asyncio
import contextlib
import gc
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import events, on
from textual.app import App, ScreenStackError
from textual.binding import Binding
from textual.driver import Driver
from textual.filter import LineFilter
from textual.notifications import Notification
from textual.screen import Screen
from textual.widgets._toast import ToastHolder, ToastRack
from textual.worker import Worker, WorkerState

from client.errors import Exit, FrostError
from client.waiting import unless_cancelled
from tui import keymaps, painted_lines, state, themes
from tui.display_filter import VisibleControls
from tui.driver import FrostDriver
from tui.ending import HUNG_UP, Ending, await_threads
from tui.following import Work
from tui.launch import Launch
from tui.messages import SignInWanted
from tui.notices import Notice, Notices, Severity, seconds
from tui.screens.frame import FrameScreen
from tui.type_ahead import TypeAhead
from tui.widgets.record_table import RecordTable
from tui.workspace import Workspace

if TYPE_CHECKING:
    from client.connection import Connection


class FrostApp(App[None]):
    """Full-screen frost on one connection."""

    TITLE = "frost"
    ENABLE_COMMAND_PALETTE = False  # ours is an action like every other: tui/palette.py
    PAUSE_GC_ON_SCROLL = True
    CSS = """
    * { link-style: none; }
    ToastRack { margin-bottom: 2; align-horizontal: right; }
    Toast { background: $panel; color: $foreground; padding: 0 1; margin-top: 1; }
    """

    def __init__(self, connection: "Connection", launch: Launch, state_path: Path) -> None:
        painted_lines.let_go()
        super().__init__(driver_class=_driver(launch))
        for theme in (themes.DARK, themes.LIGHT):
            self.register_theme(theme)
        self.ending: Ending | None = None
        """What ends this program from outside; none where the screens are driven by a test."""
        self.state_path = state_path
        self.remembered = state.load(state_path)
        self.theme = themes.choose(os.environ, self.remembered.theme, launch.no_color)
        movement = [binding for binding in RecordTable.BINDINGS if isinstance(binding, Binding)]
        self.keys = keymaps.resolve(connection.config.keys, movement, browser=launch.browser)
        self.set_keymap(self.keys.changed)
        self.workspace = Workspace(
            connection,
            self.remembered,
            spawn=self.spawn,
            changed=self._changed,
            notice=self._notice,
            tenant_flag=launch.tenant,
            read_only=launch.read_only,
        )
        self.frame = FrameScreen(self.workspace, self.keys)
        self._net = VisibleControls()
        self._notices = Notices()
        self._type_ahead = TypeAhead(self)
        self._asking_to_sign_in = False

    def get_default_screen(self) -> Screen[Any]:
        return self.frame

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), self._net]

    def export_screenshot(self, *, title: str | None = None, simplify: bool = False) -> str:
        """A picture of the screen, without a secret that may stand on it (checklist I08)."""
        from tui.widgets.secret import pictured

        with pictured():
            return super().export_screenshot(title=title, simplify=simplify)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded and self._type_ahead.holds(event):
            return
        await super().on_event(event)

    def _fatal_error(self) -> None:
        """A defect of ours is told with the places it came through and no variable: they hold keys and tokens."""
        import rich
        from rich.segment import Segments
        from rich.traceback import Traceback

        self.bell()
        told = Traceback(width=None, suppress=[rich])
        self._exit_renderables.append(Segments(self.console.render(told, self.console.options)))
        self._close_messages_no_wait()

    # Beginning and end

    def on_ready(self) -> None:
        """The first frame is on the screen: now ask the platform, and let garbage be collected again."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(unless_cancelled)
        gc.enable()
        self.frame.furnish()
        self.workspace.start()
        if self.workspace.first_run:
            # The hint of the first run is on the screen: it was shown, however this run ends.
            state.save(self.state_path, self.remembered)
        for problem in (*self.workspace.connection.config.notices, *self.keys.problems):
            self.frame.toast(problem, "warning")

    def leave(self, code: int) -> None:
        """End with an exit code, as soon as there is something to be ended."""
        if self.is_running:
            self.exit(return_code=code)
        else:
            asyncio.get_running_loop().call_later(0.02, self.leave, code)

    def hung_up(self) -> None:
        """The terminal is gone; told by the driver, from its own thread."""
        if self.ending is not None:
            self.ending.begin(HUNG_UP)

    def let_go(self) -> None:
        """Nothing waits for the terminal any more; from any thread."""
        let_go: Callable[[], None] = getattr(self._driver, "let_go", lambda: None)
        let_go()

    async def on_unmount(self) -> None:
        state.save(self.state_path, self.remembered)
        await self.workspace.close()

    def action_interrupt(self) -> None:
        """Nothing is lost by a habit: ctrl+c says how to leave."""
        runs = self.workspace.provisioning.running or self.workspace.applies.running
        going_on = " What is running goes on without this screen." if runs else ""
        key = self.keys.label("app.quit")
        self.frame.toast(f"{key} quits.{going_on}" if key else f"Quit with :quit.{going_on}")

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: Severity = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Tell something at the edge, with the few other things told lately. Its text is never markup."""
        now, stays = time.monotonic(), seconds(message, severity) if timeout is None else timeout
        anew = self._notices.add(Notice(message, severity, now + stays), now)
        if anew is not None:
            self.clear_notifications()
        for notice in anew or (Notice(message, severity, now + stays),):
            super().notify(
                notice.words, title=title, severity=notice.severity, timeout=notice.until - now, markup=False
            )

    def withdraw(self, stale: Callable[[Notification], bool]) -> None:
        """Take messages away before their time: what was done since says otherwise, or something else is read now."""
        for notification in [one for one in self._notifications if stale(one)]:
            self._notices.drop(notification.message)
            self._unnotify(notification)

    def _refresh_notifications(self) -> None:
        """Textual takes the words of a message away and leaves what held them: a day of work was 100 MB of it."""
        super()._refresh_notifications()
        with contextlib.suppress(ScreenStackError):
            told = {ToastRack._toast_id(notification) for notification in self._notifications}
            for holder in self.screen.query(ToastHolder):
                if holder.id not in told and holder.is_mounted:
                    holder.remove()

    # The workspace's wires

    def spawn(self, name: str, work: Work | None) -> None:
        """Run in the background in place of the one of the same name."""
        if work is None:
            self.workers.cancel_group(self, name)
        else:
            _: Worker[None] = self.run_worker(work, name=name, group=name, exclusive=True, exit_on_error=False)

    def _changed(self, topic: str) -> None:
        self.frame.changed(topic)
        if topic == "link" and self.workspace.link.state == "signed_out":
            self.post_message(SignInWanted())

    def _notice(self, words: str, severity: Severity) -> None:
        self.frame.toast(words, severity)

    @on(SignInWanted)
    def _sign_in(self) -> None:
        """One dialog, however many requests were refused."""
        if not self._asking_to_sign_in:
            self._asking_to_sign_in = True
            _: Worker[None] = self.run_worker(self._signing_in, group="sign in", exit_on_error=False)

    async def _signing_in(self) -> None:
        from tui.screens.sign_in import session_is_over

        try:
            await session_is_over(self, self.workspace)
        finally:
            self._asking_to_sign_in = False

    # Failures end here

    @on(Worker.StateChanged)
    def _worker_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            self.failed(event.worker.error)

    def failed(self, error: BaseException) -> None:
        """Say what failed and what to do next; the view stays as it is."""
        if not isinstance(error, FrostError):
            self.log.error(error)
            self.frame.toast(f"Something unforeseen happened: {type(error).__name__}: {error}", "error")
        elif error.exit_code is not Exit.NOT_SIGNED_IN:
            request = f"\nrequest {error.request_id}" if error.request_id else ""
            hint = f"\n{error.hint}" if error.hint else ""
            self.frame.toast(f"{error.message}{hint}{request}", "error")


def _driver(launch: Launch) -> type[Driver]:
    if launch.browser:
        from tui.web.driver import BrowserDriver

        return BrowserDriver
    return FrostDriver


def _tell(loop: asyncio.AbstractEventLoop, leave: Callable[[int], None], code: int) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: it is over already
        loop.call_soon_threadsafe(leave, code)


def start(connection: "Connection", launch: Launch, ending: Ending) -> int:
    """Run the application until it is left; the exit code.

    asyncio's own end would wait for its threads for ever.
    """
    app = FrostApp(connection, launch, state.path_of(os.environ))
    loop = asyncio.new_event_loop()
    threads = ThreadPoolExecutor(thread_name_prefix="frost")
    loop.set_default_executor(threads)
    app.ending = ending
    ending.attach(lambda code: _tell(loop, app.leave, code), app.let_go)
    try:
        app.run(loop=loop)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
    code = ending.code or app.return_code or 0
    await_threads(code)
    loop.close()
    return code
