"""The quotas of the organization the tenant belongs to: what it uses, and which tenant has how much of its limits."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from client.records import Column, Record
from client.records_quotas import ORGANIZATION_QUOTA
from tui import keymaps, quota_details, quota_table
from tui.messages import Travel
from tui.quota_actions import ORGANIZATION_NEEDS_A_PERSON
from tui.quota_table import name_text
from tui.screens import quota_asking
from tui.screens.collected import Inner
from tui.screens.quota_places import OfQuotas
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones


class OrganizationQuotas(OfQuotas, Inner):
    """Entered from a tenant's quotas, for people only (checklist Q11 to Q14)."""

    NAME = "organization-quotas"
    TITLE = "Quotas"
    KIND = ORGANIZATION_QUOTA
    PRIMARY = "organization-quotas.show"
    ROWS = "organization quotas"
    NEEDED = ORGANIZATION_NEEDS_A_PERSON
    NOTHING = "The platform counts nothing of this organization."
    BINDINGS: ClassVar[list[BindingType]] = [*keymaps.bindings("organization-quotas")]

    @property
    def organization_id(self) -> str:
        return self.subject.id if self.subject else ""

    def columns(self) -> Sequence[Column]:
        return quota_table.organization_columns(self.shown)

    def tones(self) -> Tones:
        return quota_table.tones(self.shown)

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        return name_text(record), quota_details.of_organization(record, self.tenant_id, self.requests.records)

    def _follow(self) -> None:
        """Another tenant of the same organization: what is shown stays, and its own part is another one."""
        tenant = self.workspace.tenant or {}
        if self.subject is not None and tenant.get("organizationId") == self.subject.id:
            self.subject = self.subject._replace(tenant_id=self.workspace.tenant_id)
        super()._follow()

    # Actions

    async def do_request(self) -> None:
        if self.record is not None:
            await quota_asking.request_of_organization(self, self.record, self.fill)

    def do_tenant(self) -> None:
        here = str(self.record["resourceType"]) if self.record is not None else ""
        self.post_message(Travel("quotas", record=here))

    def do_requests(self) -> None:
        self.post_message(Travel("requests", self.whose_requests()))
