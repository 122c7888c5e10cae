"""The application, which connects screens, actions and state."""

import asyncio
import contextlib
import gc
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import on
from textual.binding import Binding
from textual.driver import Driver
from textual.notifications import Notification
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from client.errors import Exit, FrostError
from client.operations import unless_cancelled
from tui.launch import Launch
from tui.shell import keymap
from tui.shell.action import load
from tui.shell.main_screen import MainScreen
from tui.shell.routes import Navigate, PrincipalChanged, PrincipalLoaded, SignInRequired
from tui.state import contexts, preferences
from tui.state.context_state import Limits
from tui.state.event_stream import Work
from tui.state.notices import Notice, Notices, Severity, seconds
from tui.state.refresh import Topic, Update
from tui.state.workspace import Workspace
from tui.terminal import textual_patches, themes
from tui.terminal.driver import FrostDriver
from tui.terminal.shutdown import HUNG_UP, ShutdownWatcher, await_threads
from tui.terminal.textual_patches import KeyQueueApp
from tui.widgets.record_table import RecordTable

if TYPE_CHECKING:
    from client.connection import Connection
    from client.transport.exchange import RequestLogEntry
    from tui.state.debug_log import DebugLog


class FrostApp(KeyQueueApp):
    """Full-screen frost on one connection."""

    TITLE = "frost"
    ENABLE_COMMAND_PALETTE = False  # replaced by tui/shell/palette.py
    PAUSE_GC_ON_SCROLL = True
    CSS = """
    * { link-style: none; }
    ToastRack { dock: top; margin: 2 0 0 0; align: right top; overflow-y: hidden; }
    Toast { width: auto; max-width: 60; background: $panel; color: $foreground; padding: 0 1; margin: 0; }
    """

    def __init__(
        self,
        connection: "Connection",
        launch: Launch,
        state_path: Path,
        debug_log: "DebugLog | None" = None,
        *,
        limits: Limits | None = None,
    ) -> None:
        textual_patches.fix_style_cache_leak()
        textual_patches.paint_changed_lines()
        super().__init__(driver_class=_driver(launch))
        for theme in (themes.DARK, themes.LIGHT):
            self.register_theme(theme)
        self.shutdown: ShutdownWatcher | None = None
        """Ends the program on a signal or hang-up; None in tests."""
        self.state_path = state_path
        self.remembered = preferences.load(state_path)
        self._saved = self.remembered.copy()
        self.start_with_theme(themes.choose(os.environ, self.remembered.theme, launch.no_color))
        movement = [binding for binding in RecordTable.BINDINGS if isinstance(binding, Binding)]
        self.keys = keymap.resolve(connection.config.keys, movement, browser=launch.browser)
        self.set_keymap(self.keys.changed)
        self.workspace = Workspace(
            connection,
            self.remembered,
            spawn=self.spawn,
            changed=self._changed,
            notice=self._notice,
            tenant_flag=launch.tenant,
            read_only=launch.read_only,
            on_reply=partial(self._log_exchange, debug_log) if debug_log is not None else None,
            limits=limits,
        )
        self.frame = MainScreen(self.workspace, self.keys, self.withdraw, self.type_ahead.hold_for_dialog)
        self._notices = Notices()
        self._asking_to_sign_in = False
        self._is_ready = False

    def get_default_screen(self) -> Screen[Any]:
        return self.frame

    def export_screenshot(self, *, title: str | None = None, simplify: bool = False) -> str:
        """Take a picture of the screen, without secrets."""
        from tui.widgets.lines import pictured

        with pictured():
            return super().export_screenshot(title=title, simplify=simplify)

    # Start and exit

    def on_ready(self) -> None:
        """Send the first requests and enable garbage collection, after the first frame."""
        self._is_ready = True
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(unless_cancelled)
        gc.enable()
        self.frame.mount_deferred()
        self.workspace.start()
        if self.workspace.first_run:
            # The hint of the first run has been shown, even if this run crashes. Keys do not wait for the lock.
            self._save_state(lock_seconds=0)
            self.set_timer(self.workspace.limits.hint_seconds, self.workspace.end_hint)
        for problem in (*self.workspace.connection.config.notices, *self.keys.problems):
            self.frame.toast(problem, "warning")

    def leave(self, code: int) -> None:
        """Exit with a code, as soon as all widgets are mounted: before, some would fail without the others."""
        if self._is_ready:
            self.exit(return_code=code)
        else:
            asyncio.get_running_loop().call_later(0.02, self.leave, code)

    def hung_up(self) -> None:
        """End the program: the terminal hung up. The driver calls this from its own thread."""
        if self.shutdown is not None:
            self.shutdown.request(HUNG_UP)

    async def on_unmount(self) -> None:
        self._save_state()
        await self.workspace.close()

    def _save_state(self, lock_seconds: float = preferences.LOCK_SECONDS) -> None:
        if preferences.save(self.state_path, self.remembered, self._saved, lock_seconds=lock_seconds):
            self._saved = self.remembered.copy()

    def action_interrupt(self) -> None:
        """Show the key that quits: Ctrl-C, pressed by habit, must not lose anything."""
        runs = self.workspace.provisioning.running or self.workspace.applies.running
        note = " Running jobs continue." if runs else ""
        key = self.keys.label("app.quit")
        self.frame.toast(f"{key} to quit.{note}" if key else f":quit to quit.{note}")

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: Severity = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a message with other recent ones. The text is never markup."""
        now, stays = time.monotonic(), seconds(message, severity) if timeout is None else timeout
        notices = self._notices.add(Notice(message, severity, now + stays), now)
        if notices is not None:
            self.clear_notifications()
        for notice in notices or (Notice(message, severity, now + stays),):
            super().notify(
                notice.words, title=title, severity=notice.severity, timeout=notice.until - now, markup=False
            )

    def withdraw(self, stale: Callable[[Notification], bool]) -> None:
        """Remove outdated messages before their timeout."""
        for notification in self.withdraw_notifications(stale):
            self._notices.drop(notification.message)

    # Callbacks of the workspace

    def spawn(self, name: str, work: Work | None) -> None:
        """Run work in the background, in place of the task of the same name. None only cancels that task."""
        if work is None:
            self.workers.cancel_group(self, name)
        else:
            work = partial(contexts.run_as, None, work)
            _: Worker[None] = self.run_worker(work, name=name, group=name, exclusive=True, exit_on_error=False)

    def _changed(self, update: Update) -> None:
        is_covered = any(not screen.is_modal for screen in self.screen_stack[1:])
        if not (update is Topic.LINK and is_covered):  # the main screen shows the connection when it is uncovered
            self.frame.changed(update)
        if update in (Topic.CONTEXT, Topic.IDENTITY):
            for screen in self.screen_stack[1:]:
                screen.post_message(PrincipalLoaded())
        if update is Topic.PRINCIPAL:
            for screen in self.screen_stack[1:]:
                screen.post_message(PrincipalChanged())
        if update is Topic.SESSION_ENDED:
            self.post_message(SignInRequired())

    def _notice(self, text: str, severity: Severity) -> None:
        self.frame.toast(text, severity)

    def _log_exchange(self, debug_log: "DebugLog", entry: "RequestLogEntry") -> None:
        if problem := debug_log.write(entry):
            self.frame.toast(problem, "warning")

    @on(SignInRequired)
    def _sign_in(self) -> None:
        """Show one sign-in dialog, however many requests were refused."""
        if not self._asking_to_sign_in:
            self._asking_to_sign_in = True
            _: Worker[None] = self.run_worker(self._signing_in, group="sign in", exit_on_error=False)

    async def _signing_in(self) -> None:
        session_is_over = load("tui.contexts.sign_in:session_is_over")
        try:
            await session_is_over(self, self.workspace, lambda: self.frame.post_message(Navigate("contexts")))
        finally:
            self._asking_to_sign_in = False

    # Failures

    @on(Worker.StateChanged)
    def _worker_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            self.failed(event.worker.error)

    def failed(self, error: BaseException) -> None:
        """Show an error with its hint and request id. A refused sign-in has its own dialog."""
        if not isinstance(error, FrostError):
            self.log.error(error)
            self.frame.toast(f"Unexpected error: {type(error).__name__}: {error}", "error")
        elif error.exit_code is not Exit.NOT_SIGNED_IN or self.workspace.link.state != "signed_out":
            request = f"\nrequest {error.request_id}" if error.request_id else ""
            hint = f"\n{error.hint}" if error.hint else ""
            self.frame.toast(f"{error.message}{hint}{request}", "error")


def _driver(launch: Launch) -> type[Driver]:
    if launch.browser:
        from tui.terminal.browser_driver import BrowserDriver

        return BrowserDriver
    return FrostDriver


def _leave_soon(loop: asyncio.AbstractEventLoop, leave: Callable[[int], None], code: int) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(leave, code)


def start(
    connection: "Connection", launch: Launch, shutdown: ShutdownWatcher, debug_log: "DebugLog | None" = None
) -> int:
    """Run the application and return the exit code.

    Threads are awaited for a limited time; asyncio would wait without limit.
    """
    app = FrostApp(connection, launch, preferences.path_of(os.environ), debug_log)
    loop = asyncio.new_event_loop()
    threads = ThreadPoolExecutor(thread_name_prefix="frost")
    loop.set_default_executor(threads)
    app.shutdown = shutdown
    shutdown.attach(lambda code: _leave_soon(loop, app.leave, code), app.discard_output)
    try:
        app.run(loop=loop)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        if shutdown.is_late:
            shutdown.restore_terminal()
    code = shutdown.code or app.return_code or 0
    await_threads(code)
    loop.close()
    return code
