"""Create, edit and rotate API keys, and show a new secret once."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Static
from textual.worker import Worker

from client import times
from client.api import keys
from client.errors import FrostError
from client.tables.columns import exact, time_text
from client.text import safe
from client.texts.effects import counted
from tui.account.key_form import RATE, KeyDraft, KeyForm
from tui.account.rotate_dialog import Rotation, Times
from tui.shell import clipboard
from tui.shell.remote_list_screen import RemoteListScreen
from tui.shell.routes import UndoAvailable, UndoCleared
from tui.state.list_store import RecordList
from tui.state.refresh import ListChanged, Update
from tui.widgets.dialog import Dialog, Result, hint
from tui.widgets.lines import Secret, Unsaid

if TYPE_CHECKING:
    from client.connection import Connection
    from client.models.account import ApiKey, GrantableScope, NewKey, RotatedKey

WARNING = "Not copied. The secret will not be shown again. Press Esc again to close."


class NewSecret(Dialog[None]):
    """y copies the secret, Esc closes the dialog and discards it. Without a copy, Esc must be pressed twice."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,c", "copy", "Copy", show=False),
        Binding("left,h", "app.focus_previous", show=False),
        Binding("right,l", "app.focus_next", show=False),
    ]
    DEFAULT_CSS = """
    NewSecret {
        & > .dialog { width: 76; overflow-y: auto; scrollbar-size-vertical: 1; }
        .secret--facts { grid-size: 2; grid-columns: auto 1fr; grid-gutter: 0 2; grid-rows: auto; height: auto; }
        .secret--label { width: auto; color: $text-muted; }
        .secret--status { height: auto; min-height: 1; margin-top: 1; color: $text-warning; }
    }
    """

    def __init__(
        self,
        title: str,
        facts: Sequence[tuple[str, str]],
        secret: str,
        copy: Callable[[str, Callable[[str], None]], None],
    ) -> None:
        """`copy` writes the secret to the clipboard and reports the result."""
        super().__init__()
        self._title, self._facts = title, facts
        self._secret = secret
        self._copy = copy
        self._copied = self._warned = False

    def title_text(self) -> str:
        return self._title

    def content(self) -> ComposeResult:
        yield Static("The secret of the key is shown only once. Store it in a safe location.", markup=False)
        yield Secret(self._secret)
        yield Grid(*self._lines(), classes="secret--facts")
        yield Static("", classes="secret--status", markup=False)
        buttons = (Button("Copy", id="copy", variant="primary"), Button("Done", id="done"))
        yield Horizontal(*buttons, classes="dialog--buttons")
        yield hint("y copy · Esc close. You cannot see this secret again")

    def _lines(self) -> Sequence[Static]:
        return [
            part
            for name, value in self._facts
            for part in (
                Static(name, classes="secret--label", markup=False),
                Static(Content(safe(value)), markup=False),
            )
        ]

    def first_focus(self) -> Widget:
        return self.query_one("#copy", Button)

    def say(self, text: str) -> None:
        if self.is_attached:
            self.query_one(".secret--status", Static).update(Content(safe(text)))

    def action_copy(self) -> None:
        self._copied = True
        self._copy(self._secret, self.say)

    def action_cancel(self) -> None:
        if not self._copied and not self._warned:
            self._warned = True
            self.say(WARNING)
            return
        self._secret = ""
        self.query_one(Secret).forget()
        self.dismiss(None)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        if event.button.id == "copy":
            self.action_copy()
        else:
            self.action_cancel()


class KeyForms(RemoteListScreen["ApiKey"]):
    """A screen with key forms. An open form is updated when the scopes are loaded."""

    _form: KeyForm[Any] | None = None

    def changed(self, update: Update) -> None:
        super().changed(update)
        if update == ListChanged("grantable") and self._form is not None and self._form.is_mounted:
            self._form.show()

    async def fill(self, form: KeyForm[Result], tenant_id: str) -> Result | None:
        """Show a form and return its result."""
        self.workspace.collections.read("grantable", tenant_id, quiet=True)
        self._form = form
        try:
            return await self.app.push_screen_wait(form)
        finally:
            self._form = None


async def create(screen: KeyForms, name: str = "") -> None:
    """Show a form until the platform accepts the key, then show the secret."""
    tenant_id = screen.workspace.tenant_id
    if not tenant_id:
        screen.frame.toast("New API key: a key belongs to a tenant, and none is in use", "warning")
        return

    async def send(draft: KeyDraft) -> "NewKey":
        return await screen.workspace.ask(
            keys.create(
                tenant_id,
                draft.name,
                draft.scopes,
                description=draft.description,
                expires_at=times.wire(draft.expires_at) if draft.expires_at else None,
                rate_limit=draft.rate_limit,
            )
        )

    title = f"New API key in {screen.workspace.name_of(tenant_id)}"
    form = KeyForm(title, KeyDraft(name, "", (), RATE), scopes_of(screen, tenant_id), send)
    new_key = await screen.fill(form, tenant_id)
    if new_key is None:
        screen.read(quiet=True)  # a key may exist even if the response was lost
        return
    await _show_secret(screen, new_key, f"New API key {new_key.api_key.name}", [])
    screen.post_message(UndoCleared("creating an API key"))


async def edit(screen: KeyForms, key: "ApiKey") -> None:
    tenant_id, before = screen.tenant_of(key), _draft_of(key)

    async def send(draft: KeyDraft) -> "ApiKey":
        if draft._replace(scopes=sorted(draft.scopes)) == before._replace(scopes=sorted(before.scopes)):
            return key
        return await _update(screen, key, before, draft)

    title = f"Edit API key {key.name} in {screen.workspace.name_of(tenant_id)}"
    form = KeyForm(title, before, scopes_of(screen, tenant_id), send, expires=False, button="Save")
    changed = await screen.fill(form, tenant_id)
    if changed is not None:
        screen.workspace.collections.put(screen.LIST_NAME, "", changed)
        screen.read(quiet=True)
        if changed is not key:
            _offer_undo(screen, key, changed)


def _draft_of(key: "ApiKey") -> KeyDraft:
    return KeyDraft(key.name, key.description, key.scopes, key.rate_limit or RATE)


async def _update(screen: KeyForms, key: "ApiKey", before: KeyDraft, after: KeyDraft) -> "ApiKey":
    """Send the differences of two drafts of a key. Return the changed key."""
    changed = await screen.workspace.change(
        keys.update(
            screen.tenant_of(key),
            key.id,
            name=after.name if after.name != before.name else None,
            description=after.description if after.description != before.description else None,
            scopes=after.scopes if set(after.scopes) != set(before.scopes) else None,
            rate_limit=after.rate_limit if after.rate_limit != before.rate_limit else None,
        )
    )
    return changed.record


def _offer_undo(screen: KeyForms, before: "ApiKey", after: "ApiKey") -> None:
    """Offer undo. Reversible actions need no confirmation."""

    async def undo() -> None:
        restored = await _update(screen, before, _draft_of(after), _draft_of(before))
        screen.workspace.collections.put(screen.LIST_NAME, "", restored)
        screen.read(quiet=True)

    screen.post_message(UndoAvailable(f"Edited API key {after.name}", undo, f"API key {before.name} is as before"))


async def rotate(screen: KeyForms, key: "ApiKey") -> None:
    """Create a successor of a key, show its secret, and end the old key at the chosen time."""
    tenant_id, ends = screen.tenant_of(key), key.expires_at

    async def send(chosen: Times) -> "RotatedKey":
        # The old key retains its expiry if that is earlier, or if it is revoked.
        retires = chosen.retires_at if chosen.retires_at and (ends is None or chosen.retires_at < ends) else None
        rotated = await screen.workspace.ask(
            keys.rotate(
                tenant_id,
                key.id,
                expires_at=times.wire(chosen.expires_at),
                retire_at=times.wire(retires) if retires else None,
            )
        )
        return rotated if chosen.retires_at is not None else await _revoke_old_key(screen, rotated)

    facts = [
        ("Old key", f"{key.name}  {key.key_prefix}…"),
        ("Tenant", key.tenant_name),
        ("New key", "same name, description, scopes, rate limit, groups and policies; the secret is shown once"),
    ]
    rotated = await screen.app.push_screen_wait(Rotation(f"Rotate {key.name}", facts, ends, send))
    if rotated is None:
        screen.read(quiet=True)
        return
    old = rotated.replaced
    screen.workspace.collections.put(screen.LIST_NAME, "", old)
    ending = f"works until {time_text(old.expires_at)}" if old.status == "active" else f"is {old.status}"
    more = [("Old key", f"{old.id} {ending}")]
    if rotated.grants:
        more.append(("Copied", counted(rotated.grants, "group or policy", "groups and policies")))
    await _show_secret(screen, rotated, f"New API key {rotated.api_key.name}", more)
    screen.post_message(UndoCleared("rotating an API key"))
    contexts = await asyncio.to_thread(_contexts_with, screen.workspace.connection, old.key_prefix)
    if contexts:
        from client.contexts import old_key_notice

        screen.frame.toast(old_key_notice(contexts), "warning")


def _contexts_with(connection: "Connection", prefix: str) -> list[str]:
    """Return the contexts that have a key. Reads the keyring."""
    from client.contexts import find_by_api_key

    return find_by_api_key(connection.config, str(connection.endpoint), prefix)


async def _revoke_old_key(screen: KeyForms, rotated: "RotatedKey") -> "RotatedKey":
    """Revoke the old key. If that fails, report it, but return the new key so that its secret is shown."""
    old = rotated.replaced
    try:
        changed = await screen.workspace.change(keys.revoke(old.tenant_id, old.id))
    except FrostError as error:
        screen.show_error(error, "The new key was created, but the old key is still valid: ")
        return rotated
    return rotated.model_copy(update={"replaced": changed.record})


def scopes_of(screen: KeyForms, tenant_id: str) -> "Callable[[], tuple[Sequence[GrantableScope], str]]":
    """Return a function for the loaded scopes of a tenant and the reason if there are none."""

    def scopes() -> "tuple[Sequence[GrantableScope], str]":
        grantable: RecordList[GrantableScope] = screen.workspace.collections.get("grantable", tenant_id)
        if grantable.state == "failed" and grantable.error is not None:
            return grantable.records, grantable.error.message
        return grantable.records, "No scopes are available." if grantable.known else "Loading …"

    return scopes


async def _show_secret(screen: KeyForms, new_key: "NewKey", title: str, more: Sequence[tuple[str, str]]) -> None:
    """Add the new key to the list and show its secret once."""
    key = new_key.api_key
    screen.workspace.collections.put(screen.LIST_NAME, "", key)
    screen.select_new(key.id)
    screen.read(quiet=True)
    facts = [
        ("ID", key.id),
        ("Tenant", key.tenant_name),
        ("Scopes", ", ".join(key.scopes)),
        ("Expires", exact(key.expires_at, times.now())),
        *more,
    ]

    def copy(secret: str, say: Callable[[str], None]) -> None:
        clipboard.to_terminal(screen.app, secret)
        say("Copied to the clipboard.")
        work = partial(_into_tmux, screen, secret, say)
        _: Worker[None] = screen.app.run_worker(work, group="copy secret", exit_on_error=False)

    await screen.app.push_screen_wait(NewSecret(title, facts, Unsaid(new_key.key), copy))


async def _into_tmux(screen: KeyForms, secret: str, say: Callable[[str], None]) -> None:
    if await asyncio.to_thread(clipboard.to_tmux, secret, screen.workspace.environ):
        say("Copied to the clipboard, and into tmux.")
