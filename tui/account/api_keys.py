"""The user's API keys in all tenants. Revocations and deletions are confirmed, with Cancel as the default."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType

from client import times
from client.api import keys as key_calls
from client.tables.columns import Column, exact, time_text
from client.texts.effects import counted
from tui.account import key_create, key_tables
from tui.account.actions import KEYS_NEED_A_PERSON
from tui.shell import actions, keymap
from tui.shell.remote_list_screen import RemoteListScreen, each
from tui.shell.routes import Navigate, Subject, UndoCleared
from tui.state.workspace import Workspace
from tui.widgets.detail import Section
from tui.widgets.dialog import Confirm
from tui.widgets.policy_text import Fact, record_names
from tui.widgets.record_table import Tones

if TYPE_CHECKING:
    from datetime import datetime

    from client.models.account import ApiKey, GrantableScope

NO_BREAK = "\N{NO-BREAK SPACE}"
NAMED = 4
"""Maximum number of keys listed by name in a confirmation."""


async def revoke(screen: "RemoteListScreen[ApiKey]", chosen: "Sequence[ApiKey]") -> None:
    keys = [key for key in chosen if key.status == "active"]
    if not keys:
        subject = "the key is" if len(chosen) == 1 else "the keys are"
        screen.frame.toast(f"Revoke API key: {subject} already {chosen[0].status if chosen else ''}", "warning")
        return
    effect = "the next request with this key is denied; this cannot be undone"
    if not await _confirm(screen, keys, "Revoke", effect):
        return

    async def change(key: "ApiKey") -> None:
        revoked = await screen.workspace.change(key_calls.revoke(screen.tenant_of(key), key.id))
        screen.workspace.collections.put(screen.LIST_NAME, "", revoked.record)

    await _change_each(screen, keys, change, "Revoked", "revoking an API key")


async def delete(screen: "RemoteListScreen[ApiKey]", chosen: "Sequence[ApiKey]") -> None:
    keys = list(chosen)
    effect = "deletes the key permanently, with its memberships and attachments; its next request is denied"
    if not await _confirm(screen, keys, "Delete", effect):
        return

    async def change(key: "ApiKey") -> None:
        await screen.workspace.ask(key_calls.delete(screen.tenant_of(key), key.id))
        screen.workspace.collections.remove(screen.LIST_NAME, "", key.id)

    await _change_each(screen, keys, change, "Deleted", "deleting an API key")


async def _confirm(screen: "RemoteListScreen[ApiKey]", keys: "Sequence[ApiKey]", verb: str, effect: str) -> bool:
    one = len(keys) == 1
    facts = _facts_of_one(keys[0]) if one else _facts_of_several(keys, screen.records())
    facts.append(("Effect", effect if one else f"each: {effect}"))
    question = f"{verb} API key?" if one else f"{verb} {len(keys):,} API keys?"
    return await screen.app.push_screen_wait(Confirm(question, facts, yes=verb))


def _facts_of_one(key: "ApiKey") -> list[tuple[str, str]]:
    return [
        ("Key", f"{key.name}  {key.id}"),
        ("Prefix", key.key_prefix or "—"),
        ("Tenant", key.tenant_name),
        ("Last used", _last_used_text(key)),
    ]


def _facts_of_several(keys: "Sequence[ApiKey]", every: "Sequence[ApiKey]") -> list[tuple[str, str]]:
    """Return the facts of marked keys. Names that occur more than once in `every` have the key prefix."""
    occurrences = Counter(key.name for key in every)

    def label(key: "ApiKey") -> str:
        return f"{key.name} ({key.key_prefix or key.id})" if occurrences[key.name] > 1 else key.name

    more = f" and {len(keys) - NAMED:,} more" if len(keys) > NAMED else ""
    tenants = list(dict.fromkeys(key.tenant_name for key in keys))
    used = [key for key in keys if key.last_used_at and key.status == "active" and not key_tables.is_unused(key)]
    return [
        ("Keys", ", ".join(map(label, keys[:NAMED])) + more),
        ("Tenants" if len(tenants) > 1 else "Tenant", ", ".join(tenants)),
        ("In use", counted(len(used), "of them", "of them") if used else "none of them"),
    ]


async def _change_each(
    screen: "RemoteListScreen[ApiKey]",
    keys: "Sequence[ApiKey]",
    change: "Callable[[ApiKey], Awaitable[None]]",
    did: str,
    lasting: str,
) -> None:
    done = await each(screen, keys, change)
    if done:
        screen.table.clear_marks()
        screen.post_message(UndoCleared(lasting))
        name = f"API key {done[0].name}" if len(done) == 1 else counted(len(done), "API key", "API keys")
        screen.frame.toast(f"{did} {name}")
    screen.read(quiet=True)


class ApiKeys(key_create.KeyForms):
    """A key belongs to the user, in any tenant, so the list does not depend on the current tenant."""

    NAME = "api-keys"
    TITLE = "API keys"
    KIND = key_tables.KIND
    PRIMARY = "api-keys.access"
    LIST_NAME = "own keys"
    RELATED = ("groups of", "policies of", "grantable")
    OF_TENANT = False
    UNAVAILABLE_TEXT = KEYS_NEED_A_PERSON
    EMPTY_TEXT = "No API keys yet."
    EMPTY_ACTION = "api-keys.create"
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("api-keys")]

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._scale = key_tables.SharedScale()

    def columns(self) -> Sequence[Column]:
        return key_tables.columns(self._scale)

    def tones(self) -> Tones:
        return key_tables.TONES

    def show(self) -> None:
        self._scale.take(self.records())
        super().show()

    def empty(self) -> str:
        workspace = self.workspace
        homeless = (not workspace.tenant_id and workspace.me is not None) or workspace.tenant_missing
        if homeless and self.record_list.known and not self.unavailable_reason():
            reason = "you have none" if workspace.without_tenants else "none is selected"
            return f"You have no API key. A key belongs to a tenant, and {reason}."
        return super().empty()

    def freshness_text(self) -> str:
        failed = self.record_list.state == "failed"  # there is no room for both
        scale = f"bars span {self._scale.axis.label}" if self.records() and not failed else ""
        return " · ".join(part for part in (scale, super().freshness_text()) if part)

    def tenant_of(self, record: "ApiKey") -> str:
        return record.tenant_id or self.tenant_id

    def related_key(self, name: str, record: "ApiKey") -> str:
        return "" if name == "grantable" else f"api_key:{record.id}"

    def detail(self, record: "ApiKey") -> tuple[str, Sequence[Section]]:
        tenant, subject, now = self.tenant_of(record), f"api_key:{record.id}", times.now()
        groups = self.related("groups of", subject, tenant)
        policies = self.related("policies of", subject, tenant)
        scopes: Sequence[GrantableScope] = self.related("grantable", "", tenant).records
        known = {scope.scope: scope for scope in scopes}
        facts = [
            ("Status", record.status),
            ("Tenant", record.tenant_name),
            ("Expires", _instant_text(record.expires_at, now)),
            ("Last used", _last_used_text(record)),
            ("Rate limit", f"{record.rate_limit or '—'} per minute"),
            ("Prefix", record.key_prefix or "—"),
            ("Created", f"{time_text(record.created_at)} by {record.creator_name or record.creator_email or '—'}"),
        ]
        if record.revoked_at:
            facts.insert(1, ("Revoked", _instant_text(record.revoked_at, now)))
        about: list[Section] = [("", [("", record.description)])] if record.description else []
        return record.name, [
            *about,
            ("", facts),
            ("Scopes", [_scope(scope, known.get(scope), bool(known)) for scope in record.scopes]),
            ("In groups", record_names(groups.records, lambda group: group.name, groups.known, "none")),
            (
                "Directly attached policies",
                record_names(policies.records, lambda policy: policy.name, policies.known, "none"),
            ),
            ("ID", [("", record.id)]),
        ]

    # Actions

    async def do_access(self, argument: str = "") -> None:
        key = await self.named(argument)
        if key is None:
            return
        # The action was enabled for the record under the cursor, which may be another key.
        access = actions.BY_ID["api-keys.access"]
        if reason := access.disabled_reason(self.frame.action_context()._replace(record=key)):
            self.frame.toast(f"{access.title}: {reason}", "warning")
        else:
            self.post_message(Navigate("access", Subject(self.tenant_of(key), f"api_key:{key.id}", key.name)))

    async def do_create(self, argument: str = "") -> None:
        await key_create.create(self, argument)

    async def do_edit(self) -> None:
        if self.record is not None:
            await key_create.edit(self, self.record)

    async def do_rotate(self) -> None:
        if self.record is not None:
            await key_create.rotate(self, self.record)

    async def do_revoke(self) -> None:
        await revoke(self, self.table.selected_records)

    async def do_delete(self) -> None:
        await delete(self, self.table.selected_records)


def _instant_text(value: object, now: "datetime") -> str:
    """Format an instant so that a narrow pane wraps before its distance, not within."""
    instant, comma, distance = exact(value, now).partition(", ")
    return f"{instant}{comma}{distance.replace(' ', NO_BREAK)}"


def _last_used_text(key: "ApiKey") -> str:
    return _instant_text(key.last_used_at, times.now()) if key.last_used_at else "never"


def _scope(scope: str, known: "GrantableScope | None", loaded: bool) -> Fact:
    """Return a scope with the number of operations that it permits, or `unenforced` if no service requires it."""
    note = ""
    if known is not None and known.enforced:
        note = counted(known.operations, "operation", "operations")
        note += ", your role lacks some" if known.lacks else ""
    elif loaded:
        note = "unenforced"
    return "", f"{scope}  {note}".rstrip()
