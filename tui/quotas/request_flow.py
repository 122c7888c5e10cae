"""Request another limit, for a tenant (decided immediately) or its organization (decided by review)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from client import quota_rules
from client.api import quotas
from client.errors import FrostError
from client.quota_rules import Foreseen
from client.tables.quotas import amount_text, decision_text
from tui.quotas import table
from tui.quotas.actions import ORGANIZATION_NEEDS_A_PERSON
from tui.quotas.request_dialog import QuotaForm, RequestDraft
from tui.shell.remote_list_screen import sentence
from tui.shell.routes import UndoCleared
from tui.widgets.dialog import Confirm, Result

if TYPE_CHECKING:
    from client.models.quotas import Quota, QuotaRequest
    from tui.shell.remote_list_screen import RemoteListScreen

UNITS = {"mb": "MB", "gb": "GB"}
"""Unit shown after the number of a limit, by the quota's unit."""


class Fill(Protocol):
    """Shows a form and returns its result; None if the user cancelled it."""

    async def __call__(self, form: QuotaForm[Result], /) -> Result | None: ...


class TenantLimit(NamedTuple):
    """A limit for a tenant that needs a higher limit of its organization."""

    quota: "Quota"
    limit: int


async def request(
    screen: "RemoteListScreen[Any]", quota: "Quota", fill: Fill, *, limit: int | None = None, reason: str = ""
) -> None:
    """Request another limit for the tenant. Above the limit without review, continue with the organization's limit."""
    tenant_id, resource_type = screen.tenant_id, quota.resource_type
    tenant = screen.workspace.name_of(tenant_id)

    def newest() -> "Quota":
        known: Sequence[Quota] = screen.workspace.collections.get("quotas", tenant_id).records
        return next((one for one in known if one.resource_type == resource_type), quota)

    async def send(draft: RequestDraft) -> "QuotaRequest | RequestDraft | None":
        if draft.outcome == quota_rules.REVIEW:
            if screen.workspace.keyed:
                raise FrostError(sentence(ORGANIZATION_NEEDS_A_PERSON).removesuffix("."), code="SESSION_REQUIRED")
            return draft
        if draft.outcome == quota_rules.LOWER and not await _confirm_lower(screen, newest(), tenant, draft.limit):
            return None
        try:
            answer = await screen.workspace.ask(quotas.request(tenant_id, resource_type, draft.limit, draft.reason))
        finally:
            screen.workspace.refresh()  # the expected outcome may have been based on outdated figures
        if answer.status == "denied":
            raise FrostError(f"denied: {decision_text(answer.wire())}", code="DENIED")
        return answer

    form: QuotaForm[QuotaRequest | RequestDraft] = QuotaForm(
        f"{quota.name} of {tenant}",
        lambda: _facts(newest()),
        lambda number: quota_rules.foreseen(newest().wire(), number),
        send,
        unit=UNITS.get(quota.unit, ""),
        limit=limit,
        reason=reason,
    )
    answer = await fill(form)
    if isinstance(answer, RequestDraft):
        raised = TenantLimit(newest(), answer.limit)
        await request_of_organization(screen, resource_type, fill, raised=raised, reason=answer.reason)
    elif answer is not None:
        _announce(screen, answer, quota.name)


async def request_of_organization(
    screen: "RemoteListScreen[Any]",
    resource_type: str,
    fill: Fill,
    *,
    raised: TenantLimit | None = None,
    limit: int | None = None,
    reason: str = "",
) -> None:
    """Request another limit for the organization.

    Args:
        resource_type: The type of the quota.
        raised: A limit for the tenant. The form begins with the limit that the organization needs for it.
        limit: Initial limit if `raised` is None.
        reason: Initial reason.
    """
    tenant = screen.workspace.tenant
    organization_id, name = (tenant.organization_id, tenant.organization_name) if tenant is not None else ("", "")
    report = await screen.workspace.ask(quotas.organization_report(organization_id))
    own = next(quota for quota in report if quota.resource_type == resource_type)
    facts = [
        ("In use", amount_text(own.used, own.unit)),
        ("Limit", amount_text(own.limit, own.unit)),
        ("Allocated", f"{amount_text(own.allocated, own.unit)} to all its tenants"),
    ]
    if raised is not None:
        limit = quota_rules.needed_of_organization(raised.quota.wire(), own.wire(), raised.limit)
        needed, raised_text = amount_text(limit, own.unit), amount_text(raised.limit, own.unit)
        facts.append(("Needed", f"{needed}, for {screen.workspace.name_of(screen.tenant_id)} to have {raised_text}"))

    def foresee(number: int) -> Foreseen:
        requests = screen.workspace.collections.get("quota requests", screen.tenant_id, organization_id).records
        pending = table.pending_requests(requests).get(resource_type)
        return quota_rules.foreseen_of_organization(own.wire(), number, pending.wire() if pending is not None else None)

    async def send(draft: RequestDraft) -> "QuotaRequest":
        try:
            return await screen.workspace.ask(
                quotas.request_organization(organization_id, resource_type, draft.limit, draft.reason)
            )
        finally:
            screen.workspace.refresh()

    form = QuotaForm(
        f"{own.name} of the organization {name}",
        lambda: facts,
        foresee,
        send,
        unit=UNITS.get(own.unit, ""),
        limit=limit,
        reason=reason,
    )
    answer = await fill(form)
    if answer is not None:
        _announce(screen, answer, own.name)


async def _confirm_lower(screen: "RemoteListScreen[Any]", quota: "Quota", tenant: str, limit: int) -> bool:
    """Confirm a lower limit. The default is Cancel."""
    facts = [
        ("Quota", f"{quota.name}  {quota.resource_type}"),
        ("Tenant", tenant),
        ("Limit", f"{amount_text(quota.limit, quota.unit)} → {amount_text(limit, quota.unit)}"),
        ("In use", amount_text(quota.used, quota.unit)),
        ("Effect", "takes effect now; existing resources stay, new ones must fit the limit"),
    ]
    return await screen.app.push_screen_wait(Confirm("Lower the limit?", facts, yes="Lower"))


def _announce(screen: "RemoteListScreen[Any]", answer: "QuotaRequest", title: str) -> None:
    """Show the outcome of a request."""
    outcome = table.outcome_text(answer, title)
    screen.frame.toast(f"{outcome}{', in review' if answer.status == 'pending' else ''}")
    screen.post_message(UndoCleared("requesting a limit"))


def _facts(quota: "Quota") -> Sequence[tuple[str, str]]:
    creating = f", {amount_text(quota.creating, quota.unit)} in creation" if quota.creating else ""
    return [
        ("In use", f"{amount_text(quota.used, quota.unit)}{creating}"),
        ("Limit", amount_text(quota.limit, quota.unit)),
        ("No review", f"up to {amount_text(quota.requestable, quota.unit)}"),
    ]
