"""Revoke and delete API keys, after a confirmation that defaults to No."""

from collections.abc import Awaitable, Callable, Sequence

from client import times
from client.api import keys as key_calls
from client.tables.columns import Record, exact
from client.texts.effects import counted
from tui.account import key_table
from tui.shell.remote_list_screen import RemoteListScreen, each
from tui.shell.routes import UndoCleared
from tui.widgets.dialog import Confirm

NAMED = 4
"""Maximum number of keys listed by name in a confirmation."""


async def revoke(screen: RemoteListScreen, chosen: Sequence[Record]) -> None:
    keys = [key for key in chosen if key_table.active(key)]
    if not keys:
        subject = "it is" if len(chosen) == 1 else "they are"
        screen.frame.toast(f"Revoke API key: {subject} {chosen[0]['status'] if chosen else ''} already", "warning")
        return
    effect = "the next request with it is refused; it cannot be made active again"
    if not await _confirm(screen, keys, "Revoke", effect):
        return

    async def change(key: Record) -> None:
        revoked = await screen.workspace.change(key_calls.revoke(screen.tenant_of(key), str(key["id"])))
        screen.workspace.collections.put(screen.LIST_NAME, "", revoked.record.wire())

    await _change_each(screen, keys, change, "Revoked", "revoking an API key")


async def delete(screen: RemoteListScreen, chosen: Sequence[Record]) -> None:
    keys = list(chosen)
    effect = "removed for good with its memberships and attachments; what still uses it is refused from now on"
    if not await _confirm(screen, keys, "Delete", effect):
        return

    async def change(key: Record) -> None:
        await screen.workspace.ask(key_calls.delete(screen.tenant_of(key), str(key["id"])))
        screen.workspace.collections.remove(screen.LIST_NAME, "", str(key["id"]))

    await _change_each(screen, keys, change, "Deleted", "deleting an API key")


async def _confirm(screen: RemoteListScreen, keys: Sequence[Record], verb: str, effect: str) -> bool:
    one = len(keys) == 1
    facts = _facts_of_one(keys[0]) if one else _facts_of_several(keys)
    facts.append(("Effect", effect if one else f"each: {effect}"))
    question = f"{verb} API key?" if one else f"{verb} {len(keys):,} API keys?"
    return await screen.app.push_screen_wait(Confirm(question, facts, yes=verb))


def _facts_of_one(key: Record) -> list[tuple[str, str]]:
    used = exact(key.get("lastUsedAt"), times.now()) if key.get("lastUsedAt") else "never"
    return [
        ("Key", f"{key['name']}  {key['id']}"),
        ("Prefix", str(key.get("keyPrefix") or "—")),
        ("Tenant", str(key.get("tenantName", ""))),
        ("Last used", used),
    ]


def _facts_of_several(keys: Sequence[Record]) -> list[tuple[str, str]]:
    more = f" and {len(keys) - NAMED:,} more" if len(keys) > NAMED else ""
    tenants = list(dict.fromkeys(str(key.get("tenantName", "")) for key in keys))
    used = [key for key in keys if key.get("lastUsedAt") and key_table.active(key) and not key_table.unused(key)]
    return [
        ("Keys", ", ".join(str(key["name"]) for key in keys[:NAMED]) + more),
        ("Tenants" if len(tenants) > 1 else "Tenant", ", ".join(tenants)),
        ("In use", counted(len(used), "of them", "of them") if used else "none of them"),
    ]


async def _change_each(
    screen: RemoteListScreen,
    keys: Sequence[Record],
    change: Callable[[Record], Awaitable[None]],
    did: str,
    lasting: str,
) -> None:
    done = await each(screen, keys, change)
    if done:
        screen.table.clear_marks()
        screen.post_message(UndoCleared(lasting))
        name = str(done[0]["name"]) if len(done) == 1 else counted(len(done), "API key", "API keys")
        screen.frame.toast(f"{did} {name}")
    screen.read(quiet=True)
