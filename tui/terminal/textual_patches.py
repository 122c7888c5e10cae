"""Patches of Textual, the list of its private names that the screens use, and the list of all work-arounds.

`WORK_AROUNDS` has those of all packages, also for CPython, with the last version that needs each. For Textual, that is
8.2.8, the newest release. tests/tui/test_textual_patches.py fails if frost requires a later version than a work-around
names, if a private name is missing in Textual or is used without an entry, or if a patched defect is gone.

Textual passes escape sequences in text to the terminal. Its own sequences are not part of the text of segments, so
replacing control characters in that text is safe.

The queue of keys is for the same release. Textual sends a key to the focused widget while the action of the previous
key may still bubble up to the application. In a burst (a slow connection, a script), keys would overtake each other:
the letters after `/` would run actions of the table, and ctrl+u would clear text typed after it.
"""

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.segment import Segment, Segments
from rich.style import Style
from textual import events
from textual._compositor import Compositor
from textual._styles_cache import StylesCache
from textual.app import App, ScreenStackError
from textual.color import Color
from textual.containers import Horizontal, Vertical
from textual.driver import Driver
from textual.events import Key, Paste
from textual.filter import LineFilter
from textual.geometry import Region
from textual.message_pump import MessagePump
from textual.notifications import Notification
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget
from textual.widgets._toast import ToastHolder, ToastRack

from client.text import safe

if TYPE_CHECKING:
    from textual.screen import Screen


class PrivateName(NamedTuple):
    """A private name of Textual that the screens use."""

    owner: str
    """The class or module that defines it, as `module:Class`."""
    name: str
    reason: str


PRIVATE_NAMES = (
    PrivateName("textual.app:App", "_fatal_error", "prints local variables, which may contain secrets"),
    PrivateName("textual.app:App", "_exit_renderables", "prints after the screens are closed"),
    PrivateName("textual.app:App", "_close_messages_no_wait", "closes the application after a fatal error"),
    PrivateName("textual.app:App", "_refresh_notifications", "keeps the container of a withdrawn toast mounted"),
    PrivateName("textual.app:App", "_notifications", "has no public list of notifications"),
    PrivateName("textual.app:App", "_unnotify", "has no public way to remove one notification"),
    PrivateName("textual.app:App", "_registered_themes", "is copied by the public property"),
    PrivateName("textual.app:App", "_driver", "has no public access to the driver"),
    PrivateName("textual.app:App", "_refresh_truecolor_filter", "computes all styles again for the first theme"),
    PrivateName("textual.widgets._toast:ToastRack", "_toast_id", "names the toast of a notification"),
    PrivateName("textual.widgets._toast:ToastHolder", "", "is the container of the toast of a notification"),
    PrivateName("textual._styles_cache:StylesCache", "get_inner_outer", "keeps removed widgets in a cache"),
    PrivateName("textual._compositor:Compositor", "_get_renders", "paints lines that did not change"),
    PrivateName("textual.screen:Screen", "_modal_binding_chain", "has the bindings after the keymap"),
    PrivateName("textual.screen:Screen", "_on_resize", "lays out the screen for sizes that are outdated"),
    PrivateName("textual._xterm_parser:XTermParser", "", "is needed for an input loop that obeys ESCDELAY"),
    PrivateName("textual.drivers._byte_stream:ByteStream", "", "reads the packets of a browser tab"),
    PrivateName("textual.drivers.linux_driver:LinuxDriver", "_debug", "is a parameter of the parser"),
    PrivateName("textual.drivers.linux_driver:LinuxDriver", "_file", "blocks in a write to a stopped terminal"),
    PrivateName("textual.drivers.linux_driver:LinuxDriver", "_writer_thread", "may have ended before a write"),
    PrivateName("textual.drivers.linux_driver:LinuxDriver", "_sigtstp_application", "writes in a signal handler"),
    PrivateName("textual.drivers.linux_driver:LinuxDriver", "_sigcont_application", "writes in a signal handler"),
    PrivateName("textual.drivers.linux_driver:LinuxDriver", "_must_signal_resume", "has no public state of a stop"),
    PrivateName("textual.drivers.linux_driver:LinuxDriver", "_disable_mouse_support", "keeps the pixel mode on"),
    PrivateName("textual.drivers.linux_driver:LinuxDriver", "_mouse_pixels", "has no public state of the pixel mode"),
    PrivateName("textual.driver:Driver", "_auto_restart", "has no public name of this state"),
    PrivateName("textual.drivers.linux_driver:LinuxDriver", "_get_terminal_size", "prefers COLUMNS to the real size"),
    PrivateName("textual.drivers.web_driver:WebDriver", "_app", "is needed to report the focus of a page"),
    PrivateName("textual.drivers.web_driver:WebDriver", "_debug", "is a parameter of the parser"),
    PrivateName("textual.drivers.web_driver:WebDriver", "_on_meta", "handles the other packets of a tab"),
    PrivateName("textual.drivers.web_driver:WebDriver", "_write", "blocks on a browser that reads no output"),
    PrivateName("textual.document._document:Location", "", "has no public name of this type"),
    PrivateName("textual.widgets:TextArea", "_line_cache", "keeps lines painted before a change of the highlights"),
    PrivateName("textual.widgets:TextArea", "_matching_bracket_location", "has no public name of this property"),
    PrivateName("textual.widgets:TextArea", "_on_key", "is the handler to override for keys of the editor"),
    PrivateName("textual.widgets:Input", "_on_key", "is the handler to override for keys of the completion popup"),
    PrivateName("textual.widgets:Input", "_on_paste", "keeps only the first line of a paste"),
    PrivateName(
        "textual_serve.app_service:AppService", "_build_environment", "builds the environment of the program of a tab"
    ),
    PrivateName("textual_serve.app_service:AppService", "_open_app_process", "starts the program through a shell"),
    PrivateName("textual_serve.app_service:AppService", "_process", "is the program of the tab"),
    PrivateName("textual_serve.app_service:AppService", "_stdin", "is the input of the program"),
    PrivateName("textual_serve.app_service:AppService", "_task", "is the task that reads the output of the program"),
)


class WorkAround(NamedTuple):
    """Code that exists only because of a defect or a limit of CPython or of a package."""

    place: str
    """The file, with a name in it."""
    package: str
    last: str
    """The last version that needs the work-around; the newest checked one if no version without the defect is known."""
    reason: str


WORK_AROUNDS = (
    WorkAround("client/commands/root.py:__cause__", "python", "3.11", "wraps Ctrl-C in a class body in a RuntimeError"),
    WorkAround('tui/__main__.py:exec("")', "python", "3.11", "exits `-m` by a signal after a Ctrl-C in an exec"),
    WorkAround("service/http_server/collection_pauses.py:CollectionPauses", "python", "3.13", "collects in one step"),
    WorkAround("client/lazy_modules.py:LazyModule", "python", "3.14", "has no lazy imports (PEP 810)"),
    WorkAround("client/commands/invocation.py:_load_http_without_ssl", "python", "3.14", "has no lazy imports"),
    WorkAround("tui/__main__.py:gc.disable", "python", "3.11", "collects garbage while a command loads"),
    WorkAround("client/commands/interruption.py:_repeat_if_dropped", "python", "3.11", "drops Ctrl-C in destructors"),
    WorkAround("tui/__main__.py:omit_palette", "textual", "8.2.8", "imports its palette before the first frame"),
    WorkAround("tui/terminal/textual_patches.py:start_with_theme", "textual", "8.2.8", "parses styles twice"),
    WorkAround("tui/terminal/textual_patches.py:VisibleControls", "textual", "8.2.8", "passes controls in text"),
    WorkAround("tui/terminal/textual_patches.py:LaysOutOnce", "textual", "8.2.8", "lays out outdated sizes"),
    WorkAround("tui/terminal/textual_patches.py:fix_style_cache_leak", "textual", "8.2.8", "keeps removed widgets"),
    WorkAround("tui/terminal/textual_patches.py:paint_changed_lines", "textual", "8.2.8", "paints unchanged lines"),
    WorkAround("tui/terminal/textual_patches.py:get_theme", "textual", "8.2.8", "copies the table of themes"),
    WorkAround("tui/terminal/textual_patches.py:_fatal_error", "textual", "8.2.8", "prints variables in tracebacks"),
    WorkAround("tui/terminal/textual_patches.py:_refresh_notifications", "textual", "8.2.8", "keeps holders of toasts"),
    WorkAround("tui/terminal/textual_patches.py:withdraw_notifications", "textual", "8.2.8", "only clears all toasts"),
    WorkAround("tui/terminal/textual_patches.py:PaintsNothing", "textual", "8.2.8", "paints containers whole"),
    WorkAround("tui/terminal/textual_patches.py:TypeAhead", "textual", "8.2.8", "lets keys overtake each other"),
    WorkAround("tui/terminal/driver.py:listen", "textual", "8.2.8", "ignores ESCDELAY below 100 ms"),
    WorkAround("tui/terminal/driver.py:Output", "textual", "8.2.8", "blocks in a write to a stopped terminal"),
    WorkAround("tui/terminal/driver.py:_sigtstp_application", "textual", "8.2.8", "hangs if it stops in a write"),
    WorkAround("tui/terminal/driver.py:_get_terminal_size", "textual", "8.2.8", "prefers COLUMNS to the real size"),
    WorkAround("tui/terminal/browser_driver.py:BrowserDriver", "textual", "8.2.8", "ignores that a tab is gone"),
    WorkAround("tui/shell/main_screen.py:sizes", "textual", "8.2.8", "lays out twice for the classes of the size"),
    WorkAround("tui/widgets/record_table.py:on_key", "textual", "8.2.8", "queues a key in each container"),
    WorkAround("tui/iam/editor/text_pane.py:_matching_bracket_location", "textual", "8.2.8", "matches slowly"),
    WorkAround("tui/iam/editor/screen.py:_worker_changed", "textual", "8.2.8", "does not bubble worker states"),
    WorkAround("tui/web/tab.py:AppService", "textual-serve", "1.1.3", "starts a program through a shell"),
)


# Controls, direction marks and overrides, zero-width characters and line separators.
DANGEROUS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


class VisibleControls(LineFilter):
    """Replaces control characters by visible signs of one cell."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if not any(DANGEROUS.search(segment.text) for segment in segments if not segment.control):
            return segments
        return [
            segment if segment.control else Segment(DANGEROUS.sub(sign, segment.text), segment.style)
            for segment in segments
        ]


def sign(match: re.Match[str]) -> str:
    """Return the visible sign for a control character."""
    character = match.group()
    # One cell: the line is measured already, and a longer sign would shift its columns.
    return safe(character)[0] if ord(character) < 0x20 or character == "\x7f" else "�"


class LaysOutOnce(MessagePump):
    """Mixin before `Screen`: lays out the screen only for the current size of the terminal, and computes styles once.

    Textual sends resizes as messages, and a layout sends another one. Two different sizes in the queue caused each
    other without end. The styles of a new screen were computed when its widgets were mounted.
    """

    stack_updates: int

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        if self.stack_updates == 0:
            event.refresh_styles = False

    async def _on_resize(self, event: events.Resize) -> None:
        if event.size != self.app.size:
            event.stop()
            event.prevent_default()


def fix_style_cache_leak() -> None:
    """Release the painted lines of removed widgets.

    Textual caches two colours with the instance in the key, which it does not need (the first parameter is called
    `cls`). The cache kept the lines of the last thousand widgets.
    """
    function = StylesCache.__dict__["get_inner_outer"]
    if not isinstance(function, classmethod):
        StylesCache.get_inner_outer = classmethod(function)  # type: ignore[method-assign, assignment]


def paint_changed_lines() -> None:
    """Paint only the lines of a partial update.

    Textual asks all widgets in the same container as a changed one for all their lines, filters them, and drops those
    that did not change. For a cursor that moves down, that was two thirds of the time of the frame.
    """
    Compositor._get_renders = _renders  # type: ignore[method-assign, assignment]


def _renders(compositor: Compositor, crop: Region | None = None) -> Iterator[tuple[Region, Region, list[Strip]]]:
    """Yield region, clip and lines of the visible parts of the widgets; with `crop`, only of its lines."""
    for widget, (region, clip) in compositor.visible_widgets.items():
        if crop is not None:
            clip = clip.intersection(Region(clip.x, crop.y, clip.width, crop.height))
        visible = region.intersection(clip)
        if visible and (crop is None or crop.overlaps(visible)):
            yield region, clip, widget.render_lines(visible.translate((-region.x, -region.y)))


class PatchedApp(App[None]):
    """Paints visible controls, prints no secrets in a traceback, removes withdrawn toasts with their holders, and can
    withdraw notifications.

    Dialogs need its `type_ahead`.
    """

    def __init__(self, driver_class: type[Driver] | None = None) -> None:
        super().__init__(driver_class=driver_class)
        self.type_ahead = TypeAhead(self)
        self._visible_controls = VisibleControls()

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), self._visible_controls]

    def get_theme(self, theme_name: str) -> Theme | None:
        """Return a registered theme. Textual copies its table of themes for each of the many calls of a frame."""
        return self._registered_themes.get(theme_name) or super().get_theme(theme_name)

    def start_with_theme(self, name: str) -> None:
        """Set the theme before the application runs. Setting `theme` would parse all styles a second time."""
        self.set_reactive(App.theme, name)
        is_dark = self.current_theme.dark
        self.update_classes({f"-theme-{name}": True, "-dark-mode": is_dark, "-light-mode": not is_dark}, update=False)
        self._refresh_truecolor_filter(self.ansi_theme)
        self.stylesheet.set_variables(self.get_css_variables())

    def _fatal_error(self) -> None:
        """Print a traceback without variables: they may contain keys and tokens."""
        import rich
        from rich.traceback import Traceback

        self.bell()
        traceback = Traceback(width=None, suppress=[rich])
        self._exit_renderables.append(Segments(self.console.render(traceback, self.console.options)))
        self._close_messages_no_wait()

    def _refresh_notifications(self) -> None:
        """Remove the holders of withdrawn toasts. Textual removes only the toasts, which leaked 100 MB in a day."""
        super()._refresh_notifications()
        with contextlib.suppress(ScreenStackError):
            current = {ToastRack._toast_id(notification) for notification in self._notifications}
            for holder in self.screen.query(ToastHolder):
                if holder.id not in current and holder.is_mounted:
                    holder.remove()

    def withdraw_notifications(self, stale: Callable[[Notification], bool]) -> list[Notification]:
        """Remove the notifications that match, before their timeout, and return them."""
        withdrawn = [notification for notification in self._notifications if stale(notification)]
        for notification in withdrawn:
            self._unnotify(notification)
        return withdrawn

    def discard_output(self) -> None:
        """Discard further output to the terminal. Callable from any thread."""
        discard: Callable[[], None] = getattr(self._driver, "discard_output", lambda: None)
        discard()


class KeyQueueApp(PatchedApp):
    """Dispatches keys through the queue."""

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, Key | Paste) and not event.is_forwarded and self.type_ahead.holds(event):
            return
        await super().on_event(event)


class PaintsNothing(Widget):
    """Paints one cached blank line. Textual paints every container whole before its children; with four containers
    around a list, that is half of the time of a frame.

    It must be the last base class: Textual takes the styles of the first one.
    """

    _blank: Style | None = None

    def render_lines(self, crop: Region) -> list[Strip]:
        if self._blank is None:
            self._blank = self.rich_style
        return [Strip.blank(crop.width, self._blank)] * crop.height

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._blank = None


class Row(Horizontal, PaintsNothing):
    """A horizontal container."""


class Stack(Vertical, PaintsNothing):
    """A vertical container."""


PATIENCE_SECONDS = 0.3
"""How long keys wait at most: a slow action must not block the keyboard."""

QUESTION_SECONDS = 0.15
"""How long a question discards keys: too short to read it, so they were meant for the screen behind it."""

ROUNDS = 3
"""Passes up to the application: the key, the messages of the widget, and their consequences."""


class TypeAhead:
    """The queue of typed keys. All rules about keys typed early are here.

    - A key is dispatched when the previous one is handled, and the dialog that it opens has the focus. So keys typed
      ahead of a form arrive in the form, in their order.
    - After `patience_seconds`, a key is dispatched without further waiting.
    - Keys typed ahead of a question, and in the first `question_seconds` of it, are discarded except Esc. So they
      never answer it.
    """

    def __init__(
        self,
        app: "App[None]",
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        question_seconds: float = QUESTION_SECONDS,
    ) -> None:
        self._app = app
        self._patience_seconds, self._question_seconds = patience_seconds, question_seconds
        self._waiting: deque[Key | Paste] = deque()
        self._next: Key | Paste | None = None
        self._busy = False
        self._task: asyncio.Task[None] | None = None
        self._opening: tuple[Screen[Any], asyncio.Event] | None = None
        self._question: Screen[Any] | None = None

    def holds(self, event: Key | Paste) -> bool:
        """Return whether an event must not be dispatched now: it is posted again in its turn, or discarded."""
        discarded = self._question is self._app.screen and not _is_escape(event)
        if discarded and event is not self._next:
            return True
        if self._busy and event is not self._next:
            self._waiting.append(event)
            return True
        self._next = None
        self._start()
        return discarded

    def open_question(self, question: "Screen[Any]", listen: Callable[[], None]) -> None:
        """Discard the typed keys. Call `listen` when the question may be answered."""
        self._question = question
        self._waiting = deque(filter(_is_escape, self._waiting))
        if self._opening is not None:
            self._opening[1].set()

        def end() -> None:
            if self._question is question:
                self._question = None
            listen()

        question.set_timer(self._question_seconds, end)

    def hold_for_dialog(self, ended: asyncio.Event) -> None:
        """Queue keys for a dialog until it has the focus. `ended` is set if the action ends before."""
        self._opening = self._app.screen, ended
        if not self._busy:
            self._start()

    def _start(self) -> None:
        self._busy = True
        self._task = asyncio.get_running_loop().create_task(self._release())

    async def _release(self) -> None:
        """Wait until the dispatched key is handled and its dialog is open, then post the next one."""
        try:
            async with asyncio.timeout(self._patience_seconds):
                for _ in range(ROUNDS):
                    await self._handled()
                    if not self._waiting:
                        break
                if self._opening is not None:
                    await self._opened(*self._opening)
        except TimeoutError:
            pass
        finally:
            self._opening = None
            if self._waiting:
                self._next = self._waiting.popleft()
                self._app.post_message(self._next)
            else:
                self._busy = False

    async def _handled(self) -> None:
        """Wait until the messages have bubbled up to the application, and a new screen has its focus."""
        app, screen = self._app, self._app.screen
        for node in (app.focused or screen).ancestors_with_self:
            await _caught_up(node)
        if app.screen is not screen:
            await _caught_up(app.screen)

    async def _opened(self, behind: "Screen[Any]", ended: asyncio.Event) -> None:
        """Wait until a screen other than `behind` has a focused widget, or until the action has ended."""
        app = self._app

        def focused(widget: "Widget | None") -> None:
            if widget is not None:
                ended.set()

        def changed(screen: "Screen[Any]") -> None:
            if screen is not behind:
                app.watch(screen, "focused", focused)

        app.screen_change_signal.subscribe(app, changed, immediate=True)
        try:
            changed(app.screen)
            await ended.wait()
        finally:
            app.screen_change_signal.unsubscribe(app)


def _is_escape(event: Key | Paste) -> bool:
    return isinstance(event, Key) and event.key == "escape"


async def _caught_up(node: MessagePump) -> None:
    """Wait until a node has handled the messages in its queue."""
    handled = asyncio.Event()
    if node.call_later(handled.set):
        await handled.wait()
