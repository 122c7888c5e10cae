"""The organization's quotas and their allocation to tenants."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from client.tables.columns import Column, Record
from client.tables.quotas import ORGANIZATION_QUOTA
from tui.quotas import detail as quotas_detail
from tui.quotas import request_flow, table
from tui.quotas.actions import ORGANIZATION_NEEDS_A_PERSON
from tui.quotas.base import OfQuotas
from tui.quotas.table import name_text
from tui.shell import keymap
from tui.shell.remote_list_screen import ChildListScreen
from tui.shell.routes import Navigate
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones


class OrganizationQuotas(OfQuotas, ChildListScreen):
    """Opened from the quotas of a tenant. Not available with an API key."""

    NAME = "organization-quotas"
    TITLE = "Quotas"
    KIND = ORGANIZATION_QUOTA
    PRIMARY = "organization-quotas.show"
    LIST_NAME = "organization quotas"
    UNAVAILABLE_TEXT = ORGANIZATION_NEEDS_A_PERSON
    EMPTY_TEXT = "The platform counts nothing of this organization."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("organization-quotas")]

    @property
    def organization_id(self) -> str:
        return self.subject.id if self.subject else ""

    def columns(self) -> Sequence[Column]:
        return table.organization_columns(self.row_layout)

    def tones(self) -> Tones:
        return table.tones(self.row_layout)

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        return name_text(record), quotas_detail.of_organization(record, self.tenant_id, self.requests.records)

    def _follow(self) -> None:
        """Remain open if the new tenant is in the same organization, and mark its part as the own one."""
        tenant = self.workspace.tenant or {}
        if self.subject is not None and tenant.get("organizationId") == self.subject.id:
            self.subject = self.subject._replace(tenant_id=self.workspace.tenant_id)
        super()._follow()

    # Actions

    async def do_request(self) -> None:
        if self.record is not None:
            await request_flow.request_of_organization(self, self.record, self.fill)

    def do_tenant(self) -> None:
        here = str(self.record["resourceType"]) if self.record is not None else ""
        self.post_message(Navigate("quotas", record=here))

    def do_requests(self) -> None:
        self.post_message(Navigate("requests", self.requests_subject()))
