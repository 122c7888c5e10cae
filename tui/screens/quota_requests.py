"""The requests for other limits, of the tenant and of its organization: what waits, and what was decided."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from client.records import Column, Record
from client.records_quotas import QUOTA_REQUEST
from tui import keymaps, quota_details, quota_table
from tui.quota_details import titles
from tui.screens import quota_asking
from tui.screens.collected import Inner
from tui.screens.quota_places import REQUESTS
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones


class QuotaRequests(Inner):
    """Entered from quotas; the subject is the organization, empty for an API key, which sees its tenant's only."""

    NAME = "requests"
    TITLE = "Requests for other limits"
    KIND = QUOTA_REQUEST
    PRIMARY = "requests.show"
    ROWS = REQUESTS
    PERSON = False
    NOTHING = "No other limit was asked for yet; n asks for one, in quotas."
    BINDINGS: ClassVar[list[BindingType]] = [*keymaps.bindings("requests")]

    def headline(self, name: str) -> str:
        return f"{self.TITLE} in {name}"

    def columns(self) -> Sequence[Column]:
        return quota_table.request_columns(self._title)

    def tones(self) -> Tones:
        return quota_table.REQUEST_TONES

    def _title(self, resource_type: str) -> str:
        known = self.workspace.collections.rows("quotas", self.tenant_id).records
        return titles(known).get(resource_type, resource_type)

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        tenant = self.workspace.name_of(self.tenant_id)
        return self._title(str(record["resourceType"])), quota_details.of_request(record, tenant)

    # Actions

    async def do_again(self) -> None:
        one = self.record
        if one is None:
            return
        limit, reason = int(one["limit"]), str(one.get("reason", ""))
        fill = self.app.push_screen_wait
        if one.get("scope") == "organization":
            await quota_asking.request_of_organization(self, one, fill, limit=limit, reason=reason)
            return
        known = self.workspace.collections.rows("quotas", self.tenant_id).records
        quota = next((row for row in known if row["resourceType"] == one["resourceType"]), None)
        if quota is not None:
            await quota_asking.request(self, quota, fill, limit=limit, reason=reason)
