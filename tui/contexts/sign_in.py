"""Sign in with a device code, sign out, and the dialog of an ended session."""

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Static

from client.errors import FrostError
from client.text import safe
from tui.shell.routes import PrincipalLoaded
from tui.state import contexts
from tui.state.workspace import Workspace
from tui.widgets.dialog import SOON, Confirm, Dialog, hint

if TYPE_CHECKING:
    from client.auth.oidc import DeviceCode as Code

KEY_REJECTED = [
    ("Why", "the key, or the account that created it, is revoked, expired or deleted"),
    ("Next", "use another context, or set a new key:"),
    (" ", "frost config set api_key -"),
]
QR_FRAME = 7, 30
"""Lines and cells that the dialog needs besides the QR code."""


class DeviceCode(Dialog[bool | None]):
    """Shows a device code. The caller dismisses it with True after the sign-in; Esc returns None and cancels."""

    DEFAULT_CSS = """
    DeviceCode {
        & > .dialog { width: 76; }
        .device--code { text-style: bold; color: $text-accent; margin: 1 0; }
        .device--qr { width: auto; height: auto; background: white; color: black; padding: 0 1; }
        .device--instructions { width: 1fr; height: auto; }
        .device--row { height: auto; }
    }
    """
    LISTENS_AT_ONCE: ClassVar[bool] = True

    def __init__(self, context: str, user_code: str, address: str, complete_address: str | None = None) -> None:
        super().__init__()
        self.context = context
        self.user_code = user_code
        self.address = address
        self.qr = qr_text(complete_address or address)

    def title_text(self) -> str:
        return f"Sign in to {self.context}"

    def content(self) -> ComposeResult:
        instructions = Vertical(
            Static("Open this address in a browser:", markup=False),
            Static(Content(safe(self.address)), markup=False),
            Static("and enter this code:", markup=False),
            Static(Content(safe(self.user_code)), classes="device--code", markup=False),
            Static("Waiting for your approval …", markup=False, classes="dialog--hint"),
            classes="device--instructions",
        )
        qr = Static(self.qr, classes="device--qr", markup=False)
        qr.display = self._has_room_for_qr()
        yield Horizontal(instructions, qr, classes="device--row")
        yield hint("Esc cancel")

    def _has_room_for_qr(self) -> bool:
        rows = self.qr.split("\n")
        lines, cells = QR_FRAME
        return len(rows) + lines <= self.app.size.height and len(rows[0]) + cells <= self.app.size.width

    def on_resize(self) -> None:
        self.query_one(".device--qr").display = self._has_room_for_qr()


class Contacting(Dialog[bool | None]):
    """Names the platform until it responds to a sign-in. Esc returns None and cancels."""

    LISTENS_AT_ONCE: ClassVar[bool] = True

    def __init__(self, context: str, endpoint: str) -> None:
        super().__init__()
        self.context, self.endpoint = context, endpoint

    def title_text(self) -> str:
        return f"Sign in to {self.context}"

    def content(self) -> ComposeResult:
        yield Static(Content(safe(f"Contacting {self.endpoint} …")), markup=False)
        yield hint("Esc cancel")


def qr_text(address: str) -> str:
    """Return a QR code in half blocks, two rows per line, dark on light."""
    import segno

    rows = [list(row) for row in segno.make(address, error="l", micro=False).matrix_iter(border=1)]
    if len(rows) % 2:
        rows.append([0] * len(rows[0]))
    blocks = {(0, 0): " ", (1, 0): "▀", (0, 1): "▄", (1, 1): "█"}
    return "\n".join(
        "".join(blocks[int(bool(upper)), int(bool(lower))] for upper, lower in zip(top, bottom, strict=True))
        for top, bottom in zip(rows[::2], rows[1::2], strict=True)
    )


async def sign_in(app: App[Any], workspace: Workspace, name: str) -> bool:
    """Sign in to a context with a device code (RFC 8628). Return False if the user cancels.

    The local platform approves over its socket, so its code is not shown. A thread waits for the approval.
    After Esc, `cancelled` stops it between two polls.

    Raises:
        FrostError: The sign-in failed.
    """
    from client.auth import sign_in as auth_sign_in

    connection = await asyncio.to_thread(contexts.again, workspace.connection, name)
    loop = asyncio.get_running_loop()
    dialogs: list[Contacting | DeviceCode] = []
    closed = asyncio.Event()
    cancelled = threading.Event()

    def leave(is_over: bool | None) -> None:
        if not is_over:
            cancelled.set()
            closed.set()

    def close() -> None:
        if dialogs and not closed.is_set():
            dialogs[-1].close_with(True)

    def show(dialog: Contacting | DeviceCode) -> None:
        if closed.is_set():
            return  # the code arrived after Esc
        close()
        dialogs.append(dialog)
        app.push_screen(dialog, leave)

    def on_code(code: "Code") -> None:
        dialog = DeviceCode(name, code.user_code, code.verification_uri, code.verification_uri_complete)
        loop.call_soon_threadsafe(show, dialog)

    waiting = asyncio.ensure_future(
        asyncio.to_thread(auth_sign_in.sign_in_device, connection, on_code=on_code, cancelled=cancelled)
    )
    waiting.add_done_callback(lambda task: task.cancelled() or task.exception())  # nothing reads it after Esc
    leaving = asyncio.ensure_future(closed.wait())
    endpoint = contexts.homely(contexts.endpoint_text(connection), workspace.environ)
    contacting = loop.call_later(SOON, lambda: None if dialogs else show(Contacting(name, endpoint)))
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done() or (closed.is_set() and waiting.exception() is not None):
            return False
        waiting.result()
    finally:
        cancelled.set()  # also if the program ends, which waits for the thread
        contacting.cancel()
        leaving.cancel()
        close()
    await workspace.reload_config(name)
    if connection.context.credentials.kinds[:1] == ("api_key",):
        message = f"Signed in to {name}, but the context has an API key, which takes precedence over the session"
        app.notify(message, severity="warning", markup=False)
    else:
        app.notify(f"Signed in to {name}", markup=False)
    return True


async def sign_out(app: App[Any], workspace: Workspace, name: str) -> None:
    """End the session of a context on the platform and delete it here."""
    from client.auth import sign_in as auth_sign_in

    connection = await asyncio.to_thread(contexts.again, workspace.connection, name)
    await asyncio.to_thread(auth_sign_in.sign_out, connection)
    await workspace.reload_config(name)
    for notice in connection.notices:
        app.notify(notice, severity="warning", markup=False)
    app.notify(f"Signed out of {name}", markup=False)


class SessionEnded(Confirm):
    """Offers a way to a valid credential. Closes if another program stores one."""

    def __init__(
        self, question: str, facts: list[tuple[str, str]], is_signed_out: Callable[[], bool], *, yes: str
    ) -> None:
        super().__init__(question, facts, yes=yes, destructive=False)
        self._is_signed_out = is_signed_out

    @on(PrincipalLoaded)
    def _principal_loaded(self) -> None:
        if not self._is_signed_out():
            self.close_with(False)

    def close_for_principal(self) -> None:
        self.close_with(False)


async def session_is_over(app: App[Any], workspace: Workspace, open_contexts: Callable[[], object]) -> bool:
    """Show the dialog of an ended session. Return whether the user has signed in again.

    A new session does not help a context with an API key, because requests use the key.
    """

    def is_signed_out() -> bool:
        return workspace.link.state == "signed_out"

    if not is_signed_out():
        return True
    facts = [("Context", workspace.context), ("Endpoint", contexts.homely(workspace.endpoint, workspace.environ))]
    if workspace.key_first:
        facts += KEY_REJECTED
        if await app.push_screen_wait(SessionEnded("API key rejected", facts, is_signed_out, yes="Contexts")):
            open_contexts()
        return False
    if workspace.read_only:
        app.notify(f"You are not signed in, and {workspace.read_only}: sign-in is disabled", markup=False)
        return False
    facts.append(("Why", workspace.link.why))
    if not await app.push_screen_wait(SessionEnded("You are not signed in", facts, is_signed_out, yes="Sign in")):
        return False
    try:
        return await sign_in(app, workspace, workspace.context)
    except FrostError as error:
        app.notify(f"{error.message}\n{error.hint}", severity="error", markup=False)
        return False
