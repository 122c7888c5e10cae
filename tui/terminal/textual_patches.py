"""Patches of Textual, and the list of its private names that the screens use.

Each entry of `PRIVATE_NAMES` and each class here is for Textual 8.2.8, the newest release. None of the patches is known
to be unnecessary in a later one. tests/tui/test_textual_patches.py fails if a private name is missing in Textual, is
used without an entry, or if a patched defect is gone.

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
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.segment import Segment, Segments
from rich.style import Style
from textual import events
from textual._compositor import Compositor
from textual._styles_cache import StylesCache
from textual.app import App, ScreenStackError
from textual.color import Color
from textual.containers import Horizontal, Vertical
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
    PrivateName(
        "textual_serve.app_service:AppService", "_build_environment", "builds the environment of the program of a tab"
    ),
    PrivateName("textual_serve.app_service:AppService", "_open_app_process", "starts the program through a shell"),
    PrivateName("textual_serve.app_service:AppService", "_process", "is the program of the tab"),
    PrivateName("textual_serve.app_service:AppService", "_stdin", "is the input of the program"),
    PrivateName("textual_serve.app_service:AppService", "_task", "is the task that reads the output of the program"),
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
    """Prints no secrets in a traceback, removes withdrawn toasts with their holders, and can withdraw notifications."""

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

ROUNDS = 3
"""Passes up to the application: the key, the messages of the widget, and their consequences."""


class TypeAhead:
    """The queue of keys to dispatch."""

    def __init__(self, app: "App[None]") -> None:
        self._app = app
        self._waiting: deque[Key | Paste] = deque()
        self._next: Key | Paste | None = None
        self._busy = False
        self._task: asyncio.Task[None] | None = None
        self._opening: tuple[Screen[Any], asyncio.Event] | None = None

    def holds(self, event: Key | Paste) -> bool:
        """Return whether an event must wait. It is posted again in its turn."""
        if self._busy and event is not self._next:
            self._waiting.append(event)
            return True
        self._next = None
        self._start()
        return False

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
            async with asyncio.timeout(PATIENCE_SECONDS):
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


async def _caught_up(node: MessagePump) -> None:
    """Wait until a node has handled the messages in its queue."""
    handled = asyncio.Event()
    if node.call_later(handled.set):
        await handled.wait()
