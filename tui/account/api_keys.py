"""The user's API keys in all tenants."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from client import times
from client.tables.columns import Column, Record, exact, time_text
from client.texts.effects import counted
from tui.account import key_create, key_revoke, key_table
from tui.account.actions import KEYS_NEED_A_PERSON
from tui.shell import actions, keymap
from tui.shell.routes import Navigate, Subject
from tui.widgets.detail import Section
from tui.widgets.policy_text import Fact, names
from tui.widgets.record_table import Tones


class ApiKeys(key_create.KeyForms):
    """A key belongs to the user, in any tenant, so the list does not depend on the current tenant."""

    NAME = "api-keys"
    TITLE = "API keys"
    KIND = key_table.KIND
    PRIMARY = "api-keys.access"
    LIST_NAME = "own keys"
    RELATED = ("groups of", "policies of", "grantable")
    OF_TENANT = False
    UNAVAILABLE_TEXT = KEYS_NEED_A_PERSON
    EMPTY_TEXT = "No API keys yet."
    EMPTY_ACTION = "api-keys.create"
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("api-keys")]

    def columns(self) -> Sequence[Column]:
        self._scale = key_table.SharedScale()
        return key_table.columns(self._scale)

    def tones(self) -> Tones:
        return key_table.TONES

    def show(self) -> None:
        self._scale.take(self.records())
        super().show()

    def empty(self) -> str:
        homeless = not self.workspace.tenant_id and self.workspace.me is not None
        if homeless and self.rows.known and not self.unavailable_reason():
            return "You have no API key. A key belongs to a tenant, and none is in use."
        return super().empty()

    def freshness_text(self) -> str:
        failed = self.rows.state == "failed"  # there is no room for both
        scale = f"bars span {self._scale.axis.label}" if self.records() and not failed else ""
        return " · ".join(part for part in (scale, super().freshness_text()) if part)

    def tenant_of(self, record: Record) -> str:
        return str(record.get("tenantId") or self.tenant_id)

    def related_key(self, name: str, record: Record) -> str:
        return "" if name == "grantable" else f"api_key:{record['id']}"

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        tenant, subject, now = self.tenant_of(record), f"api_key:{record['id']}", times.now()
        groups = self.related("groups of", subject, tenant)
        policies = self.related("policies of", subject, tenant)
        known = {str(scope["scope"]): scope for scope in self.related("grantable", "", tenant).records}
        used = "never" if not record.get("lastUsedAt") else exact(record.get("lastUsedAt"), now)
        facts = [
            ("State", str(record.get("status", ""))),
            ("Tenant", str(record.get("tenantName", ""))),
            ("Expires", exact(record.get("expiresAt"), now)),
            ("Last used", f"{used}{': unused' if key_table.unused(record) else ''}"),
            ("Limit", f"{record.get('rateLimit') or '—'} requests a minute"),
            ("Prefix", str(record.get("keyPrefix") or "—")),
            ("Made", f"{time_text(record.get('createdAt'))} by {_creator(record)}"),
        ]
        if record.get("revokedAt"):
            facts.insert(1, ("Revoked", exact(record.get("revokedAt"), now)))
        about: list[Section] = [("", [("", str(record["description"]))])] if record.get("description") else []
        return str(record["name"]), [
            *about,
            ("", facts),
            ("Scopes", [_scope(str(scope), known.get(str(scope)), bool(known)) for scope in record.get("scopes", ())]),
            ("In groups", names(groups.records, "name", groups.known, "none")),
            ("Policies attached to it directly", names(policies.records, "name", policies.known, "none")),
            ("Id", [("", str(record["id"]))]),
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
            self.post_message(
                Navigate("access", Subject(self.tenant_of(key), f"api_key:{key['id']}", str(key["name"])))
            )

    async def do_create(self, argument: str = "") -> None:
        await key_create.create(self, argument)

    async def do_edit(self) -> None:
        if self.record is not None:
            await key_create.edit(self, self.record)

    async def do_rotate(self) -> None:
        if self.record is not None:
            await key_create.rotate(self, self.record)

    async def do_revoke(self) -> None:
        await key_revoke.revoke(self, self.table.selected_records)

    async def do_delete(self) -> None:
        await key_revoke.delete(self, self.table.selected_records)


def _creator(record: Record) -> str:
    return str(record.get("creatorName") or record.get("creatorEmail") or "—")


def _scope(scope: str, known: Record | None, loaded: bool) -> Fact:
    """Return a scope with the number of operations that it permits, or `unenforced` if no service requires it."""
    note = ""
    if known is not None and known.get("enforced", True):
        note = counted(int(known.get("operations", 0)), "operation", "operations")
        note += ", your role lacks some" if known.get("lacks") else ""
    elif loaded:
        note = "unenforced"
    return "", f"{scope}  {note}".rstrip()
