"""Screens of quotas: those of the tenant, those of its organization, and the requests for other limits."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual.binding import BindingType

from client import quota_rules
from client.quota_rules import whole_number
from client.tables.columns import Column, cells, json_of
from client.tables.quotas import ORGANIZATION_QUOTA, QUOTA, QUOTA_REQUEST
from tui.quotas import detail as quotas_detail
from tui.quotas import request_flow, table
from tui.quotas.actions import ORGANIZATION_NEEDS_A_PERSON
from tui.quotas.detail import titles
from tui.quotas.request_dialog import QuotaForm
from tui.quotas.table import RowLayout
from tui.shell import actions, keymap
from tui.shell.remote_list_screen import ChildListScreen, RemoteListScreen
from tui.shell.routes import Navigate, RunAction, Subject
from tui.state.list_store import RecordList
from tui.state.refresh import ListChanged, Topic, Update
from tui.widgets.detail import Section
from tui.widgets.dialog import Result
from tui.widgets.record_table import Tones
from tui.widgets.row_painting import GUTTER

if TYPE_CHECKING:
    from client.models.quotas import BaseQuota, OrganizationQuota, Quota, QuotaRequest
    from tui.state.workspace import Workspace

REQUESTS = "quota requests"
Q = TypeVar("Q", bound="BaseQuota")


class OfQuotas(RemoteListScreen[Q]):
    """A list of quotas that marks pending requests. An open form is updated when the quotas change."""

    def __init__(self, workspace: "Workspace") -> None:
        super().__init__(workspace)
        self.row_layout = RowLayout(self._space)
        self._form: QuotaForm[Any] | None = None

    def _space(self) -> int:
        return self.table.size.width - GUTTER - 1 if self.is_mounted else 0

    @property
    def organization_id(self) -> str:
        """Organization of the included requests; empty if only those of the tenant are shown."""
        raise NotImplementedError

    @property
    def requests(self) -> "RecordList[QuotaRequest]":
        return self.workspace.collections.get(REQUESTS, self.tenant_id, self.organization_id)

    def records(self) -> Sequence[Q]:
        """Leave out quotas with a limit of 0 that cannot be requested, as the commands do."""
        return [quota for quota in super().records() if quota.limit or quota_rules.requestable(quota.wire())]

    def show(self) -> None:
        self.row_layout.take(self.records())
        self.row_layout.pending = table.pending_requests(self.requests.records)
        self.row_layout.own = self.tenant_id
        super().show()

    def read(self, *, quiet: bool = False) -> None:
        super().read(quiet=quiet)
        if not self.unavailable_reason():
            self.workspace.collections.read(REQUESTS, self.tenant_id, self.organization_id, quiet=quiet)

    def changed(self, update: Update) -> None:
        super().changed(update)
        if update == ListChanged(REQUESTS):
            self.show()
            self.show_detail()
        elif update is Topic.TENANTS and self.display and self.requests.state == "unread":
            self.read(quiet=True)  # the organization is known now
        if update == ListChanged(self.LIST_NAME) and self._form is not None and self._form.is_mounted:
            self._form.show()

    def requests_subject(self) -> Subject:
        """Return the subject of the requests screen."""
        tenant = self.workspace.find(self.tenant_id)
        return Subject(self.tenant_id, self.organization_id, tenant.display_name if tenant is not None else "")

    async def fill(self, form: QuotaForm[Result]) -> Result | None:
        """Show a form and return its result."""
        self._form = form
        try:
            return await self.app.push_screen_wait(form)
        finally:
            self._form = None

    def copies(self) -> Mapping[str, str]:
        """Copy the figures of a row instead of its bar."""
        texts = dict(super().copies())
        records = self.table.selected_records
        if records:
            texts["row"] = "\n".join("\t".join(cells(self.KIND, json_of(record))) for record in records)
        return texts


class Quotas(OfQuotas["Quota"]):
    """All resource types, highest share first. Available to API keys for their own tenant."""

    NAME = "quotas"
    TITLE = "Quotas"
    KIND = QUOTA._replace(filter_fields={**QUOTA.filter_fields, **table.STATE_FILTER})
    PRIMARY = "quotas.show"
    LIST_NAME = "quotas"
    REQUIRES_USER = False
    EMPTY_TEXT = "No quotas for this tenant."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("quotas")]

    _waited: "tuple[tuple[str, str], Sequence[QuotaRequest]]" = (("", ""), ())
    """Tenant and organization of the requests seen last, and those requests."""

    @property
    def organization_id(self) -> str:
        tenant = self.workspace.tenant
        return tenant.organization_id if tenant is not None and not self.workspace.keyed else ""

    def columns(self) -> Sequence[Column]:
        return table.columns(self.row_layout)

    def tones(self) -> Tones:
        return table.tones(self.row_layout)

    def restore_sort(self, state: Sequence[Any]) -> None:
        """Sort by share, highest first, until the user chooses another order."""
        super().restore_sort(state if self.NAME in self.workspace.state.sort else ["share", True])

    def detail(self, record: "Quota") -> tuple[str, Sequence[Section]]:
        return record.name, quotas_detail.of_tenant(record, self.requests.records)

    def changed(self, update: Update) -> None:
        super().changed(update)
        if update == ListChanged(REQUESTS) and self.requests.state == "fresh":
            self._announce_decisions()

    def _announce_decisions(self) -> None:
        """Announce the decisions on requests that were pending."""
        owner = (self.tenant_id, self.organization_id)
        before, self._waited = self._waited, (owner, self.requests.records)
        for request in table.decided(before[1], self.requests.records) if before[0] == owner else ():
            title = titles(self.record_list.records).get(request.resource_type, request.resource_type)
            text = table.outcome_text(request, title)
            self.frame.toast(text, "information" if request.status == "approved" else "warning")
            self.read(quiet=True)

    # Actions

    async def do_request(self, argument: str = "") -> None:
        quota, limit = await self._resolve_target(argument, "quotas.request")
        if quota is not None:
            await request_flow.request(self, quota, self.fill, limit=limit)

    async def do_request_organization(self, argument: str = "") -> None:
        quota, limit = await self._resolve_target(argument, "quotas.request_organization")
        if quota is not None:
            await request_flow.request_of_organization(self, quota.resource_type, self.fill, limit=limit)

    async def _resolve_target(self, argument: str, action: str) -> "tuple[Quota | None, int | None]":
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

        await self.record_list.settled.wait()
        proposal = f"{self.record.resource_type}=" if self.record is not None else ""
        planner = QuotaPlanner(lambda: self.record_list.records, argument or proposal, proposed=not argument)
        need = await self.app.push_screen_wait(planner)
        if need is not None:
            self.post_message(RunAction("quotas.request", f"{need.resource_type} {need.least}"))

    def do_organization(self) -> None:
        tenant = self.workspace.tenant
        name = tenant.organization_name if tenant is not None else ""
        subject = Subject(self.tenant_id, self.organization_id, name)
        here = self.record.resource_type if self.record is not None else ""
        self.post_message(Navigate("organization-quotas", subject, record=here))

    def do_requests(self) -> None:
        self.post_message(Navigate("requests", self.requests_subject()))


class OrganizationQuotas(OfQuotas["OrganizationQuota"], ChildListScreen["OrganizationQuota"]):
    """Opened from the quotas of a tenant. Not available with an API key."""

    NAME = "organization-quotas"
    TITLE = "Quotas"
    KIND = ORGANIZATION_QUOTA._replace(filter_fields={**ORGANIZATION_QUOTA.filter_fields, **table.STATE_FILTER})
    PRIMARY = "organization-quotas.show"
    LIST_NAME = "organization quotas"
    UNAVAILABLE_TEXT = ORGANIZATION_NEEDS_A_PERSON
    EMPTY_TEXT = "No quotas for this organization."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("organization-quotas")]

    @property
    def organization_id(self) -> str:
        return self.subject.id if self.subject else ""

    def columns(self) -> Sequence[Column]:
        return table.organization_columns(self.row_layout)

    def tones(self) -> Tones:
        return table.tones(self.row_layout)

    def detail(self, record: "OrganizationQuota") -> tuple[str, Sequence[Section]]:
        return record.name, quotas_detail.of_organization(record, self.tenant_id, self.requests.records)

    def _follow(self) -> None:
        """Remain open if the new tenant is in the same organization, and mark its part as the own one."""
        tenant = self.workspace.tenant
        if self.subject is not None and tenant is not None and tenant.organization_id == self.subject.id:
            self.subject = self.subject._replace(tenant_id=self.workspace.tenant_id)
        super()._follow()

    # Actions

    async def do_request(self) -> None:
        if self.record is not None:
            await request_flow.request_of_organization(self, self.record.resource_type, self.fill)

    def do_tenant(self) -> None:
        here = self.record.resource_type if self.record is not None else ""
        self.post_message(Navigate("quotas", record=here))

    def do_requests(self) -> None:
        self.post_message(Navigate("requests", self.requests_subject()))


class QuotaRequests(ChildListScreen["QuotaRequest"]):
    """Opened from quotas. The subject is the organization; empty for an API key, which sees only tenant requests."""

    NAME = "requests"
    TITLE = "Quota requests"
    KIND = QUOTA_REQUEST
    PRIMARY = "requests.show"
    LIST_NAME = REQUESTS
    REQUIRES_USER = False
    EMPTY_TEXT = "No requests yet. n in Quotas creates one."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("requests")]

    def title_for(self, name: str) -> str:
        return f"{self.TITLE} in {name}"

    def columns(self) -> Sequence[Column]:
        return table.request_columns(self._title)

    def tones(self) -> Tones:
        return table.REQUEST_TONES

    def _title(self, resource_type: str) -> str:
        return titles(self._quotas()).get(resource_type, resource_type)

    def _quotas(self) -> "Sequence[Quota]":
        return self.workspace.collections.get("quotas", self.tenant_id).records

    def detail(self, record: "QuotaRequest") -> tuple[str, Sequence[Section]]:
        tenant = self.workspace.name_of(self.tenant_id)
        return self._title(record.resource_type), quotas_detail.of_request(record, tenant)

    # Actions

    async def do_again(self) -> None:
        request = self.record
        if request is None:
            return
        resource_type, limit, reason = request.resource_type, request.limit, request.reason
        fill = self.app.push_screen_wait
        if request.scope == "organization":
            await request_flow.request_of_organization(self, resource_type, fill, limit=limit, reason=reason)
            return
        quota = next((quota for quota in self._quotas() if quota.resource_type == resource_type), None)
        if quota is not None:
            await request_flow.request(self, quota, fill, limit=limit, reason=reason)
