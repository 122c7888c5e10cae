"""The user's sessions."""

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from client import times
from client.api import account
from client.tables.account import SESSION
from client.tables.columns import Column, Record, age, exact
from client.texts.effects import counted
from tui.account.actions import KEYS_NEED_A_PERSON
from tui.shell import keymap
from tui.shell.remote_list_screen import RemoteListScreen
from tui.shell.routes import SignInRequired
from tui.state import contexts
from tui.widgets.detail import Section
from tui.widgets.dialog import Confirm
from tui.widgets.record_table import Tones


class Sessions(RemoteListScreen):
    """Sessions on all devices. API keys have no session and remain valid when sessions end."""

    NAME = "sessions"
    TITLE = "Sessions"
    KIND = SESSION
    PRIMARY = "sessions.show"
    LIST_NAME = "sessions"
    OF_TENANT = False
    UNAVAILABLE_TEXT = KEYS_NEED_A_PERSON
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("sessions")]

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in SESSION.columns}
        device, seen = by_key["device"], by_key["lastSeenAt"]
        return (
            device._replace(
                title="  Device",
                cell=lambda record: ("► " if record.get("current") else "  ") + device.text(record),
                sort=lambda record: device.text(record).casefold(),
            ),
            by_key["place"],
            seen._replace(cell=_seen),
            by_key["startedAt"]._replace(wide=True),
        )

    def tones(self) -> Tones:
        return {
            "device": lambda record: "mark" if record.get("current") else None,
            "lastSeenAt": lambda record: "good" if record.get("current") else "dim",
            "startedAt": lambda record: "dim",
        }

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        now = times.now()
        facts = [
            ("Place", str(record.get("place") or "—")),
            ("Started", exact(record.get("startedAt"), now)),
            ("Last seen", exact(record.get("lastSeenAt"), now)),
            ("Ends", exact(record.get("expiresAt"), now)),
        ]
        here: list[Section] = [("", [("", "This is the session you work in.")])] if record.get("current") else []
        return str(record.get("device") or record["id"]), [("", facts), *here, ("Id", [("", str(record["id"]))])]

    # Actions

    async def do_end_all(self) -> None:
        sessions = self.rows.records
        others = counted(sum(not session.get("current") for session in sessions), "other device", "other devices")
        facts = [
            ("Person", self.workspace.who),
            ("Sessions", f"{len(sessions):,}: this one, and {others}" if sessions else "all of them"),
            ("Effect", "each ends at once, including this one; sign in again on every device"),
            ("API keys", "stay valid"),
        ]
        if not await self.app.push_screen_wait(Confirm("End every session?", facts, yes="End all")):
            return
        ended = (await self.workspace.ask(account.revoke_all_sessions())).ended
        self.frame.toast(f"Ended {counted(ended, 'session', 'sessions')}, this one too")
        fresh = await asyncio.to_thread(contexts.session_ended, self.workspace.connection)
        self.workspace.arrive(fresh, signed_out="you ended every session, this one too")
        self.app.post_message(SignInRequired())


def _seen(record: Record) -> str:
    if record.get("current"):
        return "this one, now"
    ago = age(record.get("lastSeenAt"), times.now())
    return ago if ago in ("now", "—") else f"{ago} ago"
