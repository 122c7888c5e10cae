"""The account place: who calls and how, the role in each organization, and the end of the account."""

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from client import clock
from client.errors import FrostError
from client.records import ORGANIZATION, Column, Record, number_column, time_text
from tui import contexts, keymaps
from tui.contexts import credential_words
from tui.effects import counted
from tui.key_table import exact
from tui.messages import Travel
from tui.policy_text import names
from tui.screens.place import Place
from tui.widgets.confirm import Confirm
from tui.widgets.detail import Section
from tui.widgets.last_owner import LastOwner
from tui.widgets.profile import Profile
from tui.widgets.record_table import Tones
from tui.workspace import MAY_CREATE


class Account(Place):
    """The profile stands above the organizations; it comes with the identity everything is done as."""

    NAME = "account"
    TITLE = "Account"
    KIND = ORGANIZATION
    PRIMARY = "account.tenants"
    BINDINGS: ClassVar[list[BindingType]] = [*keymaps.bindings("account")]

    def above(self) -> ComposeResult:
        yield Profile()

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in ORGANIZATION.columns}
        tenants = number_column("tenants", "Tenants")._replace(
            cell=lambda record: str(len(self._tenants(record))), sort=lambda record: len(self._tenants(record))
        )
        may = Column("may", "With it", cell=lambda record: _may(record))
        return (by_key["name"]._replace(title="Organization"), by_key["role"], tenants, may)

    def tones(self) -> Tones:
        return {"may": lambda record: "dim"}

    def empty(self) -> str:
        if self.workspace.me is None:
            return self.workspace.tenants_error or "Asking the platform …"
        return "You belong to no organization."

    def records(self) -> Sequence[Record]:
        return self.workspace.organizations

    @property
    def known(self) -> bool:
        return self.workspace.me is not None

    def state_words(self) -> str:
        failed = self.workspace.tenants_state == "failed"  # both are read together
        return "not refreshed, r tries again" if failed else "" if self.workspace.me else "refreshing"

    def changed(self, topic: str) -> None:
        if topic in ("identity", "context", "tenants"):
            self.show()
            self.show_detail()

    def in_sight(self) -> None:
        self.show()

    def show(self) -> None:
        super().show()
        for profile in self.query(Profile):
            profile.show(self.profile())

    def profile(self) -> list[tuple[str, str]]:
        """What is known of the caller; nothing before the first answer."""
        me, now = self.workspace.me, clock.now()
        if me is None:
            return []
        credential = me.get("credential") or {}
        kind = str(credential.get("kind", ""))
        ends = f", ends {exact(credential['expiresAt'], now)}" if credential.get("expiresAt") else ""
        facts = [
            ("Name", str(me.get("name") or "—")),
            ("E-mail", str(me.get("email") or "—")),
            ("Since", time_text(me.get("createdAt"))),
            ("Works with", f"{credential_words(kind)}{ends}"),
        ]
        if credential.get("scopes") is not None:
            facts.append(("Scopes", ", ".join(map(str, credential["scopes"]))))
        default = self.workspace.find(str(me.get("tenantId") or ""))
        if default is not None:
            facts.append(("Default", f"tenant {default['displayName']}"))
        return [*facts, ("Id", str(me.get("id", "")))]

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        role = str(record.get("role", ""))
        tenants = self._tenants(record)
        return str(record["name"]), [
            ("", [("Your role", role), (" ", _may(record)), ("Slug", str(record.get("slug", "")))]),
            (
                counted(len(tenants), "tenant", "tenants"),
                names(tenants, "displayName", self.workspace.tenants_state == "fresh", "none you may enter"),
            ),
            ("Id", [("", str(record["id"]))]),
        ]

    def _tenants(self, organization: Record) -> list[Record]:
        return [one for one in self.workspace.tenants if one.get("organizationId") == organization["id"]]

    # Actions

    def do_tenants(self, argument: str = "") -> None:
        record = next((row for row in self.records() if row["id"] == argument), self.record)
        if record is not None:
            self.post_message(Travel("tenants", None, f'organization:"{record["name"]}"'))

    async def do_delete(self) -> None:
        me = self.workspace.me or {}
        email = str(me.get("email", ""))
        facts = [
            ("Account", f"{me.get('name', '')}  {email}"),
            ("Ends at once", "every session on every device, and every API key you made"),
            ("Effect", "for 30 days support can bring the account back; its sessions and keys stay ended"),
        ]
        if not await self.app.push_screen_wait(Confirm("Delete your account?", facts, yes="Delete", typed=email)):
            return
        try:
            gone = await self.workspace.ask(lambda client: client.account.delete(email))
        except FrostError as error:
            if error.code != "LAST_OWNER":
                raise
            await self.app.push_screen_wait(LastOwner((error.details or {}).get("organizations") or ()))
            return
        until = time_text(gone.wire()["restorableUntil"])
        fresh = await asyncio.to_thread(contexts.session_ended, self.workspace.connection)
        self.workspace.arrive(fresh, signed_out=f"your account is deleted; support can bring it back until {until}")
        words = f"The account {email} is deleted; support can bring it back until {until}"
        self.app.notify(words, severity="warning", timeout=30, markup=False)


def _may(record: Record) -> str:
    """What a role is needed for here; what it gives on resources, the roles of the platform say."""
    return "creates and renames tenants" if record.get("role") in MAY_CREATE else "creates no tenants"
