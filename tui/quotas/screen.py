"""Quotas of the current tenant, and requests for other limits."""

from collections.abc import Sequence
from typing import Any, ClassVar

from textual.binding import BindingType

from client.quota_request import whole_number
from client.tables.columns import Column, Record
from client.tables.quotas import QUOTA
from tui.quotas import detail as quotas_detail
from tui.quotas import request_flow, table
from tui.quotas.base import REQUESTS, OfQuotas
from tui.quotas.detail import titles
from tui.quotas.table import name_text
from tui.shell import actions, keymap
from tui.shell.routes import Navigate, RunAction, Subject
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones


class Quotas(OfQuotas):
    """All resource types, highest share first. Available to API keys for their own tenant."""

    NAME = "quotas"
    TITLE = "Quotas"
    KIND = QUOTA
    PRIMARY = "quotas.show"
    LIST_NAME = "quotas"
    REQUIRES_USER = False
    EMPTY_TEXT = "The platform counts nothing of this tenant."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("quotas")]

    _waited: tuple[tuple[str, str], Sequence[Record]] = (("", ""), ())
    """Tenant and organization of the requests seen last, and those requests."""

    @property
    def organization_id(self) -> str:
        tenant = self.workspace.tenant or {}
        return "" if self.workspace.keyed else str(tenant.get("organizationId", ""))

    def columns(self) -> Sequence[Column]:
        return table.columns(self.row_layout)

    def tones(self) -> Tones:
        return table.tones(self.row_layout)

    def restore_sort(self, state: Sequence[Any]) -> None:
        """Sort by share, highest first, until the user chooses another order."""
        super().restore_sort(state if self.NAME in self.workspace.state.sort else ["share", True])

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        return name_text(record), quotas_detail.of_tenant(record, self.requests.records)

    def changed(self, topic: str) -> None:
        super().changed(topic)
        if topic == REQUESTS and self.requests.state == "fresh":
            self._announce_decisions()

    def _announce_decisions(self) -> None:
        """Announce the decisions on requests that were pending."""
        owner = (self.tenant_id, self.organization_id)
        before, self._waited = self._waited, (owner, self.requests.records)
        for one in table.decided(before[1], self.requests.records) if before[0] == owner else ():
            text = table.outcome_text(one, titles(self.rows.records))
            self.frame.toast(text, "information" if one.get("status") == "approved" else "warning")
            self.read(quiet=True)

    # Actions

    async def do_request(self, argument: str = "") -> None:
        quota, limit = await self._resolve_target(argument, "quotas.request")
        if quota is not None:
            await request_flow.request(self, quota, self.fill, limit=limit)

    async def do_request_organization(self, argument: str = "") -> None:
        quota, limit = await self._resolve_target(argument, "quotas.request_organization")
        if quota is not None:
            await request_flow.request_of_organization(self, quota, self.fill, limit=limit)

    async def _resolve_target(self, argument: str, action: str) -> tuple[Record | None, int | None]:
        """Return quota and limit of `TYPE LIMIT`, or the selected quota. Show why if it cannot be requested."""
        resource_type, _, number = argument.partition(" ")
        quota = await self.named(resource_type)
        if quota is None or not argument:
            return quota, None
        reason = actions.BY_ID[action].disabled_reason(self.frame.action_context()._replace(record=quota))
        try:
            limit = whole_number(number.strip()) if number else None
        except ValueError as problem:
            reason = reason or str(problem)
        if reason:
            self.frame.toast(f"{actions.BY_ID[action].title}: {reason}", "warning")
            return None, None
        return quota, limit

    async def do_what_if(self, argument: str = "") -> None:
        from tui.quotas.what_if import QuotaPlanner

        await self.rows.settled.wait()
        start = argument or (f"{self.record['resourceType']}=" if self.record is not None else "")
        need = await self.app.push_screen_wait(QuotaPlanner(lambda: self.rows.records, start))
        if need is not None:
            self.post_message(RunAction("quotas.request", f"{need.resource_type} {need.after}"))

    def do_organization(self) -> None:
        tenant = self.workspace.tenant or {}
        subject = Subject(self.tenant_id, self.organization_id, str(tenant.get("organizationName", "")))
        here = str(self.record["resourceType"]) if self.record is not None else ""
        self.post_message(Navigate("organization-quotas", subject, record=here))

    def do_requests(self) -> None:
        self.post_message(Navigate("requests", self.requests_subject()))
