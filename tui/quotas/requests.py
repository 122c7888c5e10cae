"""The quota requests of a tenant and its organization, with their decisions."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from client.tables.columns import Column, Record
from client.tables.quotas import QUOTA_REQUEST
from tui.quotas import detail as quotas_detail
from tui.quotas import request_flow, table
from tui.quotas.base import REQUESTS
from tui.quotas.detail import titles
from tui.shell import keymap
from tui.shell.remote_list_screen import ChildListScreen
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones


class QuotaRequests(ChildListScreen):
    """Opened from quotas. The subject is the organization; empty for an API key, which sees only tenant requests."""

    NAME = "requests"
    TITLE = "Requests for other limits"
    KIND = QUOTA_REQUEST
    PRIMARY = "requests.show"
    LIST_NAME = REQUESTS
    REQUIRES_USER = False
    EMPTY_TEXT = "No requests yet."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("requests")]

    def title_for(self, name: str) -> str:
        return f"{self.TITLE} in {name}"

    def columns(self) -> Sequence[Column]:
        return table.request_columns(self._title)

    def tones(self) -> Tones:
        return table.REQUEST_TONES

    def _title(self, resource_type: str) -> str:
        known = self.workspace.collections.rows("quotas", self.tenant_id).records
        return titles(known).get(resource_type, resource_type)

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        tenant = self.workspace.name_of(self.tenant_id)
        return self._title(str(record["resourceType"])), quotas_detail.of_request(record, tenant)

    # Actions

    async def do_again(self) -> None:
        one = self.record
        if one is None:
            return
        limit, reason = int(one["limit"]), str(one.get("reason", ""))
        fill = self.app.push_screen_wait
        if one.get("scope") == "organization":
            await request_flow.request_of_organization(self, one, fill, limit=limit, reason=reason)
            return
        known = self.workspace.collections.rows("quotas", self.tenant_id).records
        quota = next((row for row in known if row["resourceType"] == one["resourceType"]), None)
        if quota is not None:
            await request_flow.request(self, quota, fill, limit=limit, reason=reason)
