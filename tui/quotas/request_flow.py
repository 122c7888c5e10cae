"""Request another limit, for a tenant (decided immediately) or its organization (decided by review)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from client import quota_rules
from client.api import quotas
from client.errors import FrostError
from client.quota_rules import Foreseen
from client.tables.columns import Record
from client.tables.quotas import amount_text
from tui.quotas import table
from tui.quotas.actions import ORGANIZATION_NEEDS_A_PERSON
from tui.quotas.request_dialog import QuotaForm, RequestDraft
from tui.quotas.table import name_text
from tui.shell.remote_list_screen import sentence
from tui.shell.routes import UndoCleared
from tui.widgets.dialog import Confirm

if TYPE_CHECKING:
    from tui.shell.remote_list_screen import RemoteListScreen

UNITS = {"mb": "MB", "gb": "GB"}
"""Unit shown after the number of a limit, by the quota's unit."""
Fill = Callable[[QuotaForm], Awaitable[Any]]


async def request(
    screen: "RemoteListScreen[Any]", quota: Record, fill: Fill, *, limit: int | None = None, reason: str = ""
) -> None:
    """Request another limit for the tenant. Above the limit without review, continue with the organization's limit."""
    tenant_id, resource_type = screen.tenant_id, str(quota["resourceType"])
    tenant = screen.workspace.name_of(tenant_id)

    def newest() -> Record:
        known = screen.workspace.collections.rows("quotas", tenant_id).records
        return next((one for one in known if one["resourceType"] == resource_type), quota)

    async def send(draft: RequestDraft) -> Record | RequestDraft | None:
        if draft.outcome == quota_rules.REVIEW:
            if screen.workspace.keyed:
                raise FrostError(sentence(ORGANIZATION_NEEDS_A_PERSON).removesuffix("."), code="SESSION_REQUIRED")
            return draft
        if draft.outcome == quota_rules.LOWER and not await _confirm_lower(screen, newest(), tenant, draft.limit):
            return None
        try:
            record: Record = (
                await screen.workspace.ask(quotas.request(tenant_id, resource_type, draft.limit, draft.reason))
            ).wire()
        finally:
            screen.workspace.refresh()  # the expected outcome may have been based on outdated figures
        if record.get("status") == "denied":
            raise FrostError(f"denied: {record.get('decision')}", code="DENIED")
        return record

    form = QuotaForm(
        f"{name_text(quota)} of {tenant}",
        lambda: _facts(newest()),
        lambda number: quota_rules.foreseen(newest(), number),
        send,
        unit=UNITS.get(str(quota.get("unit")), ""),
        limit=limit,
        reason=reason,
    )
    answer = await fill(form)
    if isinstance(answer, RequestDraft):
        await request_of_organization(screen, newest(), fill, tenant_limit=answer.limit, reason=answer.reason)
    elif answer is not None:
        _announce(screen, answer, name_text(quota))


async def request_of_organization(
    screen: "RemoteListScreen[Any]",
    quota: Record,
    fill: Fill,
    *,
    tenant_limit: int | None = None,
    limit: int | None = None,
    reason: str = "",
) -> None:
    """Request another limit for the organization.

    Args:
        quota: The quota of the tenant or of the organization.
        tenant_limit: Limit for the tenant. The form begins with the limit that the organization needs for it.
        limit: Initial limit if `tenant_limit` is None.
        reason: Initial reason.
    """
    resource_type, tenant = str(quota["resourceType"]), screen.workspace.tenant
    organization_id, name = (tenant.organization_id, tenant.organization_name) if tenant is not None else ("", "")
    report = await screen.workspace.ask(quotas.organization_report(organization_id))
    own: Record = next(one.wire() for one in report if one.resource_type == resource_type)
    facts = [
        ("In use", _amount(own, "used")),
        ("Limit", _amount(own, "limit")),
        ("Allocated", f"{_amount(own, 'allocated')} to all its tenants"),
    ]
    if tenant_limit is not None:
        limit = quota_rules.needed_of_organization(quota, own, tenant_limit)
        unit, own_name = own.get("unit"), screen.workspace.name_of(screen.tenant_id)
        facts.append(
            ("Needed", f"{amount_text(limit, unit)}, for {own_name} to have {amount_text(tenant_limit, unit)}")
        )

    def foresee(number: int) -> Foreseen:
        requests = screen.workspace.collections.rows("quota requests", screen.tenant_id, organization_id).records
        return quota_rules.foreseen_of_organization(own, number, table.waiting(requests).get(resource_type))

    async def send(draft: RequestDraft) -> Record:
        try:
            response = await screen.workspace.ask(
                quotas.request_organization(organization_id, resource_type, draft.limit, draft.reason)
            )
        finally:
            screen.workspace.refresh()
        record: Record = response.wire()
        return record

    form = QuotaForm(
        f"{name_text(own)} of the organization {name}",
        lambda: facts,
        foresee,
        send,
        unit=UNITS.get(str(own.get("unit")), ""),
        limit=limit,
        reason=reason,
    )
    answer = await fill(form)
    if answer is not None:
        _announce(screen, answer, name_text(own))


async def _confirm_lower(screen: "RemoteListScreen[Any]", quota: Record, tenant: str, limit: int) -> bool:
    """Confirm a lower limit. Default to No."""
    facts = [
        ("Quota", f"{name_text(quota)}  {quota['resourceType']}"),
        ("Tenant", tenant),
        ("Limit", f"{_amount(quota, 'limit')} → {amount_text(limit, quota.get('unit'))}"),
        ("In use", _amount(quota, "used")),
        ("Effect", "takes effect now; existing resources stay, new ones must fit the limit"),
    ]
    return await screen.app.push_screen_wait(Confirm("Lower the limit?", facts, yes="Lower"))


def _announce(screen: "RemoteListScreen[Any]", record: Record, title: str) -> None:
    """Show the outcome of a request."""
    outcome = table.outcome_text(record, {str(record["resourceType"]): title})
    screen.frame.toast(f"{outcome}{', in review' if record.get('status') == 'pending' else ''}")
    screen.post_message(UndoCleared("requesting a limit"))


def _facts(quota: Record) -> Sequence[tuple[str, str]]:
    creating = f", {_amount(quota, 'creating')} in creation" if quota.get("creating") else ""
    return [
        ("In use", f"{_amount(quota, 'used')}{creating}"),
        ("Limit", _amount(quota, "limit")),
        ("No review", f"up to {_amount(quota, 'requestable')}"),
    ]


def _amount(quota: Record, member: str) -> str:
    return amount_text(quota.get(member), quota.get("unit"))
