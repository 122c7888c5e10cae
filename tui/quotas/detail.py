"""Details of quotas and quota requests."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from client import times
from client.quota_rules import requestable
from client.tables.columns import age, exact
from client.tables.quotas import amount_text, decision_text
from client.texts.effects import counted
from tui.quotas import bars
from tui.quotas.table import change_text, status_text
from tui.widgets.detail import Section

if TYPE_CHECKING:
    from client.models.quotas import BaseQuota, OrganizationQuota, Quota, QuotaRequest

MOST_REQUESTS = 5
MOST_TENANTS = 40
LEGEND: Section = (
    "The bar",
    [
        ("━", "used"),
        ("·", "free"),
        ("┃", "the limit; beyond it, 1 cell is one more full limit"),
        ("─", "can be requested without review"),
        ("╱", "use is unknown"),
    ],
)

ORGANIZATION_LEGEND: Section = (
    "The bar",
    [
        (bars.OWN, "the current tenant"),
        ("a", "another tenant, by its letter"),
        (bars.REST, "tenants with small shares"),
        ("·", "not allocated"),
    ],
)


def of_tenant(quota: "Quota", requests: "Iterable[QuotaRequest]") -> Sequence[Section]:
    unit, limit, used = quota.unit, quota.limit, quota.used
    facts = [*_use(quota), ("Limit", amount_text(limit, unit))]
    if used is not None:
        free = ("Free", amount_text(limit - used, unit))
        facts.append(free if used <= limit else ("Over by", amount_text(used - limit, unit)))
    if requestable(quota.wire()) and quota.requestable is not None:
        facts.append(("No review", f"up to {amount_text(quota.requestable, unit)}"))
    return [
        ("", facts),
        *_remarks(quota),
        _requests_section(quota, requests),
        LEGEND,
        ("Resource type", [("", quota.resource_type)]),
    ]


def of_organization(quota: "OrganizationQuota", own: str, requests: "Iterable[QuotaRequest]") -> Sequence[Section]:
    unit, limit, allocated = quota.unit, quota.limit, quota.allocated
    facts = [*_use(quota), ("Limit", amount_text(limit, unit)), ("Allocated", amount_text(allocated, unit))]
    left = ("Left", amount_text(limit - allocated, unit))
    facts.append(left if allocated <= limit else ("Over by", amount_text(allocated - limit, unit)))
    organizations = [request for request in requests if request.scope == "organization"]
    return [
        ("", facts),
        *_remarks(quota),
        (f"Allocated to {counted(len(quota.tenants), 'tenant')}", _shares(quota, own)),
        _requests_section(quota, organizations),
        ORGANIZATION_LEGEND,
        ("Resource type", [("", quota.resource_type)]),
    ]


def of_request(request: "QuotaRequest", tenant: str) -> Sequence[Section]:
    unit, now = request.unit, times.now()
    owner = "the organization" if request.scope == "organization" else tenant
    by = request.requested_by
    facts = [
        ("Status", status_text(request.status)),
        ("For", owner),
        ("From", amount_text(request.limit_before, unit)),
        ("To", amount_text(request.limit, unit)),
        ("Requested", exact(request.created_at, now)),
        ("Requested by", (by.name or by.email or by.id if by is not None else "") or "—"),
    ]
    if request.decided_at:
        facts += [("Decided", exact(request.decided_at, now)), ("Decided by", request.decided_by or "—")]
    elif request.status == "pending":
        facts.append((" ", "in review by the platform's operator"))
    sections: list[Section] = [("", facts), ("Reason", [("", request.reason or "—")])]
    if decision := decision_text(request.wire()):
        sections.append(("Decision", [("", decision)]))
    return [*sections, ("ID", [("", request.id)])]


def _use(quota: "BaseQuota") -> Sequence[tuple[str, str]]:
    facts = [("In use", amount_text(quota.used, quota.unit))]
    if quota.creating:
        facts.append((" ", f"{amount_text(quota.creating, quota.unit)} in creation"))
    return facts


def _remarks(quota: "BaseQuota") -> Sequence[Section]:
    """Return remarks on figures that need an explanation."""
    remarks = []
    if quota.used is None:
        remarks.append("The current use is unknown; the limit still applies.")
    if not quota.limit:
        remarks.append("No allowance: none can be created.")
    elif bars.over(quota.used, quota.limit):
        remarks.append("! Over the limit: no more can be created.")
    if not requestable(quota.wire()):
        remarks.append("This limit cannot be requested; contact support.")
    return [("", [("", line)]) for line in remarks]


def _requests_section(quota: "BaseQuota", requests: "Iterable[QuotaRequest]") -> Section:
    matches = [request for request in requests if request.resource_type == quota.resource_type]
    lines = []
    for request in matches[:MOST_REQUESTS]:
        suffix = " organization" if request.scope == "organization" else ""
        change = change_text(request.limit_before, request.limit, request.unit)
        ago = age(request.created_at, times.now())
        lines.append(("", f"{status_text(request.status)}{suffix}  {change}  {ago}"))
    if len(matches) > MOST_REQUESTS:
        lines.append(("", f"{len(matches) - MOST_REQUESTS} more: t to show"))
    return "Requests", lines or [("", "none")]


def _shares(quota: "OrganizationQuota", own: str) -> Sequence[tuple[str, str]]:
    """Return the shares, `own` first, then by limit. Tenants that the user cannot enter have no name."""
    limits = {share.tenant_id: share.limit for share in quota.tenants}
    unit, signs = quota.unit, bars.letters(limits, own, bars.span_of(quota.limit, quota.allocated))
    shares = sorted(quota.tenants, key=lambda share: (share.tenant_id != own, -share.limit))
    lines = []
    for share in shares[:MOST_TENANTS]:
        name = share.display_name
        use = f", {amount_text(share.used, unit)} in use" if name is not None else ""
        title = name if name is not None else "(no access)"
        lines.append((signs[share.tenant_id], f"{title}  {amount_text(share.limit, unit)}{use}"))
    rest = shares[MOST_TENANTS:]
    if rest:
        lines.append(("", f"{len(rest):,} more  {amount_text(sum(share.limit for share in rest), unit)}"))
    return lines


def titles(quotas: "Iterable[BaseQuota]") -> Mapping[str, str]:
    return {quota.resource_type: quota.name for quota in quotas}
