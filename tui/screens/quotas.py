"""The quotas place: what the tenant uses of what it may, as bars, and other limits asked for."""

from collections.abc import Sequence
from typing import Any, ClassVar

from textual.binding import BindingType

from client.quota_request import whole_number
from client.records import Column, Record
from client.records_quotas import QUOTA
from tui import actions, keymaps, quota_details, quota_news, quota_table
from tui.history import Subject
from tui.messages import Travel
from tui.quota_details import titles
from tui.quota_table import name_text
from tui.screens import quota_asking
from tui.screens.quota_places import REQUESTS, OfQuotas
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones


class Quotas(OfQuotas):
    """Every resource type there is, the tightest first; an API key sees those of its own tenant (checklist Q15)."""

    NAME = "quotas"
    TITLE = "Quotas"
    KIND = QUOTA
    PRIMARY = "quotas.show"
    ROWS = "quotas"
    PERSON = False
    NOTHING = "The platform counts nothing of this tenant."
    BINDINGS: ClassVar[list[BindingType]] = [*keymaps.bindings("quotas")]

    _waited: tuple[tuple[str, str], Sequence[Record]] = (("", ""), ())
    """Whose requests were seen last, and they."""

    @property
    def organization_id(self) -> str:
        tenant = self.workspace.tenant or {}
        return "" if self.workspace.keyed else str(tenant.get("organizationId", ""))

    def columns(self) -> Sequence[Column]:
        return quota_table.columns(self.shown)

    def tones(self) -> Tones:
        return quota_table.tones(self.shown)

    def restore_sort(self, state: Sequence[Any]) -> None:
        """What is tightest stands first until another order was chosen."""
        super().restore_sort(state if self.NAME in self.workspace.state.sort else ["share", True])

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        return name_text(record), quota_details.of_tenant(record, self.requests.records)

    def changed(self, topic: str) -> None:
        super().changed(topic)
        if topic == REQUESTS and self.requests.state == "fresh":
            self._tell_decided()

    def _tell_decided(self) -> None:
        """A request that waited was reviewed: that is what somebody waits for (checklist U23)."""
        whose = (self.tenant_id, self.organization_id)
        before, self._waited = self._waited, (whose, self.requests.records)
        for one in quota_news.decided(before[1], self.requests.records) if before[0] == whose else ():
            words = quota_news.outcome_words(one, titles(self.rows.records))
            self.frame.toast(words, "information" if one.get("status") == "approved" else "warning")
            self.read(quiet=True)

    # Actions

    async def do_request(self, argument: str = "") -> None:
        quota, limit = await self._meant(argument, "quotas.request")
        if quota is not None:
            await quota_asking.request(self, quota, self.fill, limit=limit)

    async def do_request_organization(self, argument: str = "") -> None:
        quota, limit = await self._meant(argument, "quotas.request_organization")
        if quota is not None:
            await quota_asking.request_of_organization(self, quota, self.fill, limit=limit)

    async def _meant(self, argument: str, action: str) -> tuple[Record | None, int | None]:
        """The quota and the limit of `TYPE LIMIT`, or the one under the cursor; none where it cannot be requested."""
        resource_type, _, number = argument.partition(" ")
        quota = await self.named(resource_type)
        if quota is None or not argument:
            return quota, None
        reason = actions.BY_ID[action].reason(self.frame.situation()._replace(record=quota))
        try:
            limit = whole_number(number.strip()) if number else None
        except ValueError as problem:
            reason = reason or str(problem)
        if reason:
            self.frame.toast(f"{actions.BY_ID[action].title}: {reason}", "warning")
            return None, None
        return quota, limit

    async def do_what_if(self, argument: str = "") -> None:
        from tui.widgets.what_if import WhatIf

        await self.rows.settled.wait()
        start = argument or (f"{self.record['resourceType']}=" if self.record is not None else "")
        need = await self.app.push_screen_wait(WhatIf(lambda: self.rows.records, start))
        if need is not None:
            await self.do_request(f"{need.resource_type} {need.after}")

    def do_organization(self) -> None:
        tenant = self.workspace.tenant or {}
        subject = Subject(self.tenant_id, self.organization_id, str(tenant.get("organizationName", "")))
        here = str(self.record["resourceType"]) if self.record is not None else ""
        self.post_message(Travel("organization-quotas", subject, record=here))

    def do_requests(self) -> None:
        self.post_message(Travel("requests", self.whose_requests()))
