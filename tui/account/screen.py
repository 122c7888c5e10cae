"""The account screens: user, credential, organizations, deletion of the account, and the user's sessions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Static

from client import times
from client.api import account
from client.errors import FrostError
from client.tables.account import SESSION
from client.tables.columns import ORGANIZATION, Column, Record, age, exact, number_column, time_text
from client.tenancy import MAY_CREATE
from client.text import cut, safe
from client.texts.effects import counted
from tui.account.actions import KEYS_NEED_A_PERSON
from tui.shell import keymap
from tui.shell.list_screen import ListScreen
from tui.shell.remote_list_screen import RemoteListScreen
from tui.shell.routes import Navigate, SignInRequired
from tui.state.context_state import credential_words
from tui.state.refresh import Topic, Update
from tui.widgets.detail import Section
from tui.widgets.dialog import Confirm, Dialog, hint
from tui.widgets.policy_text import record_names
from tui.widgets.record_table import Tones

if TYPE_CHECKING:
    from client.models.account import DeletedAccount, Organization, Session
    from client.models.analysis import NamedResource
    from tui.state.preferences import TenantRecord

NAMED = 8
"""Maximum number of organizations listed by name."""


def organization_filter(name: str) -> str:
    """Return a filter of tenants by the name of their organization. A filter has no escape for double quotes."""
    return " ".join(f'organization:"{part}"' for part in name.split('"') if part.strip())


class LastOwner(Dialog[None]):
    """Explains that the account was not deleted because the user is the last owner of organizations."""

    DEFAULT_CSS = "LastOwner > .dialog { width: 72; } LastOwner .last--names { margin: 1 0; }"

    def __init__(self, organizations: "Sequence[NamedResource]") -> None:
        super().__init__()
        self.organizations = organizations

    def title_text(self) -> str:
        return "Your account was not deleted"

    def content(self) -> ComposeResult:
        several = len(self.organizations) > 1
        which = "these organizations, which have" if several else "this organization, which has"
        yield Static(f"You are the last owner of {which} other members:", markup=False)
        lines = [
            cut(f"· {safe(organization.name)}  {safe(organization.id)}", 66)
            for organization in self.organizations[:NAMED]
        ]
        if len(self.organizations) > NAMED:
            lines.append(f"· and {len(self.organizations) - NAMED:,} more")
        yield Static(Content("\n".join(lines)), classes="last--names", markup=False)
        each = " of each" if several else ""
        yield Static(f"Make another member an owner{each}, then delete the account.", markup=False)
        yield Horizontal(Button("Close", id="understood", variant="primary"), classes="dialog--buttons")
        yield hint("Enter or Esc close")

    def first_focus(self) -> Widget:
        return self.query_one(Button)

    @on(Button.Pressed)
    def _pressed(self) -> None:
        self.dismiss(None)


class Profile(Static):
    """Lines of label and value, each cut to the width."""

    DEFAULT_CSS = "Profile { height: auto; padding: 0 1 0 2; margin-bottom: 1; }"

    def __init__(self) -> None:
        super().__init__("", markup=False)
        self._facts: Sequence[tuple[str, str]] = ()

    def show(self, facts: Sequence[tuple[str, str]]) -> None:
        self._facts = facts
        self._paint()

    def on_resize(self) -> None:
        self._paint()

    def _paint(self) -> None:
        label = max((len(name) for name, _ in self._facts), default=0)
        room = max(0, self.content_size.width - label - 2)
        self.update(
            Content("\n").join(
                Content.assemble((f"{name:<{label}}  ", "$text-muted"), cut(safe(value), room) if room else safe(value))
                for name, value in self._facts
            )
        )


class Account(ListScreen["Organization"]):
    """Profile and organizations, both from the identity response."""

    NAME = "account"
    TITLE = "Account"
    KIND = ORGANIZATION
    PRIMARY = "account.tenants"
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("account")]

    def compose_header(self) -> ComposeResult:
        yield Profile()

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in ORGANIZATION.columns}
        tenants = number_column("tenants", "Tenants")._replace(
            cell=lambda record: "" if self._tenants_hidden else str(len(self._tenants(record["id"]))),
            sort=lambda record: len(self._tenants(record["id"])),
        )
        may = Column("may", "This role can", cell=lambda record: _role_text(str(record.get("role"))))
        return (by_key["name"]._replace(title="Organization"), by_key["role"], tenants, may)

    def tones(self) -> Tones:
        return {"may": lambda record: "dim"}

    def empty(self) -> str:
        if self.workspace.me is None:
            return self.workspace.tenants_error or "Loading …"
        return "You belong to no organization."

    def records(self) -> "Sequence[Organization]":
        return self.workspace.organizations

    @property
    def known(self) -> bool:
        return self.workspace.me is not None

    def freshness_text(self) -> str:
        state = self.workspace.tenants_state  # both are loaded together
        if state == "failed":
            return "not refreshed"
        return "" if self.workspace.me or state == "refused" else "refreshing"

    def changed(self, update: Update) -> None:
        if update in (Topic.IDENTITY, Topic.CONTEXT, Topic.TENANTS):
            self.show()
            self.show_detail()

    def refresh_on_open(self) -> None:
        self.show()

    def show(self) -> None:
        super().show()
        for profile in self.query(Profile):
            profile.show(self.profile())

    def profile(self) -> list[tuple[str, str]]:
        """Return the user's facts; empty before the first response."""
        me, now = self.workspace.me, times.now()
        if me is None:
            return []
        credential = me.credential
        kind = credential.kind if credential is not None else ""
        ends = f", ends {exact(credential.expires_at, now)}" if credential is not None and credential.expires_at else ""
        facts = [
            ("Name", me.name or "—"),
            ("E-mail", me.email or "—"),
            ("Since", time_text(me.created_at)),
            ("Credential", f"{credential_words(kind)}{ends}"),
        ]
        if credential is not None and credential.scopes is not None:
            facts.append(("Scopes", ", ".join(credential.scopes)))
        default = self.workspace.find(me.tenant_id)
        if default is not None:
            facts.append(("Default", f"tenant {default.display_name}"))
        return [*facts, ("ID", me.id)]

    def detail(self, record: "Organization") -> tuple[str, Sequence[Section]]:
        tenants, known = self._tenants(record.id), self.workspace.tenants_state == "fresh"
        listed = record_names(tenants, lambda tenant: tenant.display_name or tenant.id, known, "no tenants with access")
        return record.name, [
            ("", [("Your role", record.role), (" ", _role_text(record.role)), ("Slug", record.slug)]),
            ("Tenants", [("", self.workspace.tenants_error)])
            if self._tenants_hidden
            else (counted(len(tenants), "tenant", "tenants"), listed),
            ("ID", [("", record.id)]),
        ]

    @property
    def _tenants_hidden(self) -> bool:
        """Whether the credential may not list tenants, so that their number is unknown."""
        return self.workspace.tenants_state == "refused"

    def _tenants(self, organization_id: str) -> "list[TenantRecord]":
        return [tenant for tenant in self.workspace.tenants if tenant.organization_id == organization_id]

    # Actions

    def do_tenants(self, argument: str = "") -> None:
        record = next((row for row in self.records() if row.id == argument), self.record)
        if record is not None:
            self.post_message(Navigate("tenants", None, organization_filter(record.name)))

    async def do_delete(self) -> None:
        me = self.workspace.me
        name, email = (me.name, me.email) if me is not None else ("", "")
        facts = [
            ("Account", f"{name}  {email}"),
            ("Ends now", "all your sessions and all API keys that you created"),
            ("Effect", "support can restore the account for 30 days, but not its sessions and keys"),
        ]
        if not await self.app.push_screen_wait(Confirm("Delete your account?", facts, yes="Delete", typed=email)):
            return
        try:
            gone = await self.workspace.end_session(
                account.delete(email), lambda gone: f"your account is deleted; {_restorable_text(gone)}"
            )
        except FrostError as error:
            if error.code != "LAST_OWNER":
                raise
            from client.models.analysis import ErrorDetails

            await self.app.push_screen_wait(LastOwner(ErrorDetails.read(error.details).organizations))
            return
        message = f"The account {email} was deleted; {_restorable_text(gone)}"
        self.app.notify(message, severity="warning", timeout=30, markup=False)


def _restorable_text(account: "DeletedAccount") -> str:
    return f"support can restore it until {time_text(account.restorable_until)}"


def _role_text(role: str) -> str:
    """Return the permissions of a role on tenants. The platform defines those on resources."""
    return "create and rename tenants" if role in MAY_CREATE else "use tenants only"


class Sessions(RemoteListScreen["Session"]):
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
            seen._replace(cell=_last_seen_text),
            by_key["startedAt"]._replace(wide=True),
        )

    def tones(self) -> Tones:
        return {
            "device": lambda record: "mark" if record.get("current") else None,
            "lastSeenAt": lambda record: "good" if record.get("current") else "dim",
            "startedAt": lambda record: "dim",
        }

    def detail(self, record: "Session") -> tuple[str, Sequence[Section]]:
        now = times.now()
        facts = [
            ("Place", record.place or "—"),
            ("Started", exact(record.started_at, now)),
            ("Last seen", exact(record.last_seen_at, now)),
            ("Ends", exact(record.expires_at, now)),
        ]
        here: list[Section] = [("", [("", "This is your current session.")])] if record.current else []
        return record.device or record.id, [("", facts), *here, ("ID", [("", record.id)])]

    # Actions

    async def do_end_all(self) -> None:
        sessions = self.record_list.records
        others = counted(sum(not session.current for session in sessions), "other session", "other sessions")
        facts = [
            ("Person", self.workspace.who),
            ("Sessions", f"{len(sessions):,}: this session and {others}" if sessions else "all"),
            ("Effect", "ends all sessions now, including this one; sign in again on every device"),
            ("API keys", "stay valid"),
        ]
        if not await self.app.push_screen_wait(Confirm("End all sessions?", facts, yes="End all")):
            return
        why = "you ended all sessions, including this one"
        ended = (await self.workspace.end_session(account.revoke_all_sessions(), lambda _: why)).ended
        self.frame.toast(f"Ended {counted(ended, 'session', 'sessions')}, including this one")
        self.app.post_message(SignInRequired())


def _last_seen_text(record: Record) -> str:
    if record.get("current"):
        return "this session, now"
    ago = age(record.get("lastSeenAt"), times.now())
    return ago if ago in ("now", "—") else f"{ago} ago"
