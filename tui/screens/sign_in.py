"""Signing in and out from the screens: the device flow with its code, and the dialog of a session that is over."""

import asyncio
import threading
from typing import TYPE_CHECKING, Any

from textual.app import App

from client.errors import FrostError
from tui import contexts
from tui.messages import Travel
from tui.widgets.confirm import Confirm
from tui.widgets.device_code import DeviceCode
from tui.workspace import Workspace

if TYPE_CHECKING:
    from client.device import DeviceCode as Code


async def sign_in(app: App[Any], workspace: Workspace, name: str) -> bool:
    """Sign in to a context by device code; True when somebody is signed in now.

    The local platform approves by itself, so its code is never shown. The waiting is a thread, which cannot be
    stopped from outside: left with Esc, it is told by `cancelled` and ends between two polls.
    """
    from client import login

    connection = await asyncio.to_thread(contexts.again, workspace.connection, name)
    loop = asyncio.get_running_loop()
    shown: list[DeviceCode] = []
    given_up = asyncio.Event()
    cancelled = threading.Event()

    def leave(_: bool | None) -> None:
        cancelled.set()
        given_up.set()

    def show(code: "Code") -> None:
        dialog = DeviceCode(name, code.user_code, code.verification_uri, code.verification_uri_complete)
        shown.append(dialog)
        app.push_screen(dialog, leave)

    def on_code(code: "Code") -> None:
        loop.call_soon_threadsafe(show, code)

    waiting = asyncio.ensure_future(
        asyncio.to_thread(login.sign_in_device, connection, on_code=on_code, cancelled=cancelled)
    )
    leaving = asyncio.ensure_future(given_up.wait())
    try:
        await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            return False
        waiting.result()
    finally:
        leaving.cancel()
        if shown and shown[0].is_attached and not given_up.is_set():
            shown[0].dismiss(True)
    if name == workspace.context:
        workspace.arrive(await asyncio.to_thread(contexts.again, workspace.connection))
    if connection.context.credentials.kinds[:1] == ("api_key",):
        words = f"Signed in to {name}, but it has an API key, which goes before the session"
        app.notify(words, severity="warning", markup=False)
    else:
        app.notify(f"Signed in to {name}", markup=False)
    return True


async def sign_out(app: App[Any], workspace: Workspace, name: str) -> None:
    """End the session of a context on the platform and forget it here."""
    from client import login

    connection = await asyncio.to_thread(contexts.again, workspace.connection, name)
    await asyncio.to_thread(login.sign_out, connection)
    for notice in connection.notices:
        app.notify(notice, severity="warning", markup=False)
    app.notify(f"Signed out of {name}", markup=False)


async def session_is_over(app: App[Any], workspace: Workspace) -> bool:
    """The one dialog of a lost session: sign in again, and the view comes back as it was.

    A context with an API key is not helped by signing in: the key goes before the session.
    """
    if workspace.key_first:
        return await _key_is_refused(app, workspace)
    if workspace.read_only:
        app.notify(f"You are not signed in, and {workspace.read_only}: signing in is refused", markup=False)
        return False
    facts = [("Context", workspace.context), ("Endpoint", workspace.endpoint), ("Why", workspace.link.why)]
    if not await app.push_screen_wait(Confirm("You are not signed in", facts, yes="Sign in", destructive=False)):
        return False
    try:
        return await sign_in(app, workspace, workspace.context)
    except FrostError as error:
        app.notify(f"{error.message}\n{error.hint}", severity="error", markup=False)
        return False


async def _key_is_refused(app: App[Any], workspace: Workspace) -> bool:
    facts = [
        ("Context", workspace.context),
        ("Endpoint", workspace.endpoint),
        ("Why", "its key is revoked, expired or deleted, or the account that made it is"),
        ("Go on", "in another context, or with a new key:"),
        (" ", "frost config set api_key -"),
    ]
    if await app.push_screen_wait(Confirm("The API key is refused", facts, yes="Contexts", destructive=False)):
        from tui.app import FrostApp

        assert isinstance(app, FrostApp)
        app.frame.post_message(Travel("contexts"))
    return False
