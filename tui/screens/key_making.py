"""What comes by the secret of a key: making one and rotating one; and changing one, which does not."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from client import clock, expiry
from client.errors import FrostError
from client.records import Record, parse_time, time_text
from tui import clipboard, key_table
from tui.effects import counted
from tui.messages import Lasting, Undoable
from tui.widgets.key_form import RATE, KeyDraft, KeyForm
from tui.widgets.new_secret import NewSecret
from tui.widgets.rotation import Rotation, Times
from tui.widgets.secret import Unsaid

if TYPE_CHECKING:
    from client.models.keys import NewKey, RotatedKey
    from tui.screens.api_keys import ApiKeys


async def create(place: "ApiKeys", name: str = "") -> None:
    """Fill in a form until the platform takes it, then show the secret."""
    tenant_id = place.workspace.tenant_id
    if not tenant_id:
        place.frame.toast("New API key: a key belongs to a tenant, and none is in use", "warning")
        return

    async def send(draft: KeyDraft) -> "NewKey":
        return await place.workspace.ask(
            lambda client: client.keys.create(
                tenant_id,
                draft.name,
                draft.scopes,
                description=draft.description,
                expires_at=expiry.wire(draft.expires_at) if draft.expires_at else None,
                rate_limit=draft.rate_limit,
            )
        )

    title = f"New API key in {place.workspace.name_of(tenant_id)}"
    form = KeyForm(title, KeyDraft(name, "", (), RATE), scopes_of(place, tenant_id), send)
    made: NewKey | None = await place.fill(form, tenant_id)
    if made is None:
        place.read(quiet=True)  # an answer that was lost may have left a key
        return
    await _shown(place, made, f"New API key {made.api_key.name}", [])
    place.post_message(Lasting("making an API key"))


async def edit(place: "ApiKeys", key: Record) -> None:
    """Change what may be changed of a key."""
    tenant_id, key_id = place.tenant_of(key), str(key["id"])
    before = KeyDraft(
        str(key["name"]), str(key.get("description") or ""), tuple(key.get("scopes", ())), key.get("rateLimit") or RATE
    )

    async def send(draft: KeyDraft) -> Record:
        if draft._replace(scopes=sorted(draft.scopes)) == before._replace(scopes=sorted(before.scopes)):
            return key
        changed = await place.workspace.ask(
            lambda client: client.keys.update(
                tenant_id,
                key_id,
                name=draft.name if draft.name != before.name else None,
                description=draft.description if draft.description != before.description else None,
                scopes=draft.scopes if set(draft.scopes) != set(before.scopes) else None,
                rate_limit=draft.rate_limit if draft.rate_limit != before.rate_limit else None,
            )
        )
        found: Record = changed.record.wire()
        return found

    title = f"Change API key {key['name']} in {place.workspace.name_of(tenant_id)}"
    form = KeyForm(title, before, scopes_of(place, tenant_id), send, expires=False, button="Save")
    changed: Record | None = await place.fill(form, tenant_id)
    if changed is not None:
        place.workspace.collections.put(place.ROWS, "", changed)
        place.read(quiet=True)
        if changed is not key:
            _offer_back(place, key, changed)


def _offer_back(place: "ApiKeys", before: Record, after: Record) -> None:
    """What was changed can be taken back (reversible actions do not ask)."""
    members = ("name", "description", "scopes", "rateLimit")
    old = {member: before.get(member) for member in members if before.get(member) != after.get(member)}

    async def undo() -> None:
        again = await place.workspace.ask(
            lambda client: client.keys.update(
                place.tenant_of(before),
                str(before["id"]),
                name=old.get("name"),
                description=(old["description"] or "") if "description" in old else None,
                scopes=old.get("scopes"),
                rate_limit=old.get("rateLimit"),
            )
        )
        place.workspace.collections.put(place.ROWS, "", again.record.wire())
        place.read(quiet=True)

    place.post_message(Undoable(f"Changed {after['name']}", undo, f"{before['name']} is as it was"))


async def rotate(place: "ApiKeys", key: Record) -> None:
    """Make the key that takes another's place, show its secret, and have the old one end when it was said."""
    tenant_id, key_id, ends = place.tenant_of(key), str(key["id"]), parse_time(key.get("expiresAt"))

    async def send(times: Times) -> "RotatedKey":
        # Where the old one ends by itself before, or is revoked, it keeps its expiry.
        retires = times.retires_at if times.retires_at and (ends is None or times.retires_at < ends) else None
        made: RotatedKey = await place.workspace.ask(
            lambda client: client.keys.rotate(
                tenant_id,
                key_id,
                expires_at=expiry.wire(times.expires_at),
                retire_at=expiry.wire(retires) if retires else None,
            )
        )
        return made if times.retires_at is not None else await _revoked(place, made)

    facts = [
        ("Old key", f"{key['name']}  {key.get('keyPrefix', '')}…"),
        ("Tenant", str(key.get("tenantName", ""))),
        ("New key", "the same name, description, scopes, rate limit, groups and policies; its secret is shown once"),
    ]
    made: RotatedKey | None = await place.app.push_screen_wait(Rotation(f"Rotate {key['name']}", facts, ends, send))
    if made is None:
        place.read(quiet=True)
        return
    old = made.replaced.wire()
    place.workspace.collections.put(place.ROWS, "", old)
    works = old["status"] == "active"
    ending = f"works until {time_text(old.get('expiresAt'))}" if works else f"is {old['status']}"
    more = [("Old key", f"{old['id']} {ending}")]
    if made.grants:
        more.append(("Taken over", counted(made.grants, "group or policy", "groups and policies")))
    await _shown(place, made, f"New API key {made.api_key.name}", more)
    place.post_message(Lasting("rotating an API key"))


async def _revoked(place: "ApiKeys", made: "RotatedKey") -> "RotatedKey":
    """The old key ended at once. Should that fail, the secret of the new one is shown all the same."""
    old = made.replaced
    try:
        changed = await place.workspace.ask(lambda client: client.keys.revoke(old.tenant_id, old.id))
    except FrostError as error:
        place.tell(error, "The new key is made, but the old one still works: ")
        return made
    return made.model_copy(update={"replaced": changed.record})


def scopes_of(place: "ApiKeys", tenant_id: str) -> Callable[[], tuple[Sequence[Record], str]]:
    """The scopes of a tenant as far as they are known, and why there are none."""

    def scopes() -> tuple[Sequence[Record], str]:
        rows = place.workspace.collections.rows("grantable", tenant_id)
        if rows.state == "failed" and rows.error is not None:
            return rows.records, rows.error.message
        return rows.records, "The platform lists no scope." if rows.known else "Asking the platform …"

    return scopes


async def _shown(place: "ApiKeys", made: "NewKey", title: str, more: Sequence[tuple[str, str]]) -> None:
    """The new key into the list, and its secret before the eyes once."""
    key = made.api_key.wire()
    place.set_filter("")
    place.workspace.collections.put(place.ROWS, "", key)
    place.select(str(key["id"]))
    place.read(quiet=True)
    facts = [
        ("Id", str(key["id"])),
        ("Tenant", str(key.get("tenantName", ""))),
        ("Scopes", ", ".join(key.get("scopes", ()))),
        ("Expires", key_table.exact(key.get("expiresAt"), clock.now())),
        *more,
    ]

    def copy(secret: str, say: Callable[[str], None]) -> None:
        clipboard.to_terminal(place.app, secret)
        say("Copied to the clipboard.")
        place.app.run_worker(_into_tmux(place, secret, say), group="copy secret", exit_on_error=False)

    await place.app.push_screen_wait(NewSecret(title, facts, Unsaid(made.key), copy))


async def _into_tmux(place: "ApiKeys", secret: str, say: Callable[[str], None]) -> None:
    if await asyncio.to_thread(clipboard.to_tmux, secret, place.workspace.environ):
        say("Copied to the clipboard, and into tmux.")
