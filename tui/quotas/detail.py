"""Details of quotas and quota requests."""

from collections.abc import Iterable, Mapping, Sequence

from client import times
from client.quota_rules import requestable
from client.tables.columns import Record, age, exact
from client.tables.quotas import amount_text
from tui.quotas import bars
from tui.quotas.table import change_text, name_text, status_text
from tui.widgets.detail import Section

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


def of_tenant(quota: Record, requests: Iterable[Record]) -> Sequence[Section]:
    unit, limit = quota.get("unit"), int(quota["limit"])
    used, bound = quota.get("used"), quota.get("requestable")
    facts = [("In use", _amount(used, unit))]
    if quota.get("creating"):
        facts.append((" ", f"{_amount(quota['creating'], unit)} in creation"))
    facts.append(("Limit", _amount(limit, unit)))
    if used is not None:
        free = ("Free", _amount(limit - used, unit))
        facts.append(free if used <= limit else ("Over by", _amount(used - limit, unit)))
    if requestable(quota) and bound is not None:
        facts.append(("No review", f"up to {_amount(bound, unit)}"))
    return [
        ("", facts),
        *_remarks(quota),
        _requests_section(quota, requests),
        LEGEND,
        ("Resource type", [("", str(quota["resourceType"]))]),
    ]


def of_organization(quota: Record, own: str, requests: Iterable[Record]) -> Sequence[Section]:
    unit, limit, allocated = quota.get("unit"), int(quota["limit"]), int(quota.get("allocated") or 0)
    facts = [("In use", _amount(quota.get("used"), unit))]
    if quota.get("creating"):
        facts.append((" ", f"{_amount(quota['creating'], unit)} in creation"))
    facts += [("Limit", _amount(limit, unit)), ("Allocated", _amount(allocated, unit))]
    left = ("Left", _amount(limit - allocated, unit))
    facts.append(left if allocated <= limit else ("Over by", _amount(allocated - limit, unit)))
    organizations = [request for request in requests if request.get("scope") == "organization"]
    return [
        ("", facts),
        *_remarks(quota),
        (f"Allocated to {len(quota.get('tenants', ())):,} tenants", _shares(quota, own)),
        _requests_section(quota, organizations),
        ("Resource type", [("", str(quota["resourceType"]))]),
    ]


def of_request(request: Record, tenant: str) -> Sequence[Section]:
    unit, now = request.get("unit"), times.now()
    owner = "the organization" if request.get("scope") == "organization" else tenant
    by = request.get("requestedBy") or {}
    facts = [
        ("Status", status_text(request)),
        ("Of", owner),
        ("From", _amount(request.get("from"), unit)),
        ("To", _amount(request.get("limit"), unit)),
        ("Requested", exact(request.get("createdAt"), now)),
        ("By", str(by.get("name") or by.get("email") or by.get("id") or "—")),
    ]
    if request.get("decidedAt"):
        facts += [("Decided", exact(request["decidedAt"], now)), ("By", str(request.get("decidedBy") or "—"))]
    elif request.get("status") == "pending":
        facts.append((" ", "in review by the platform's operator"))
    sections: list[Section] = [("", facts), ("Reason", [("", str(request.get("reason") or "—"))])]
    if request.get("decision"):
        sections.append(("Decision", [("", str(request["decision"]))]))
    return [*sections, ("Id", [("", str(request["id"]))])]


def _amount(value: object, unit: object) -> str:
    return amount_text(value if isinstance(value, int) else None, unit)


def _remarks(quota: Record) -> Sequence[Section]:
    """Return remarks on figures that need an explanation."""
    remarks = []
    if quota.get("used") is None:
        remarks.append("The current use is unknown; the limit still applies.")
    if not quota["limit"]:
        remarks.append("No allowance: none can be created.")
    elif bars.over(quota):
        remarks.append("! Over the limit: no more can be created.")
    if not requestable(quota):
        remarks.append("This limit cannot be requested; contact support.")
    return [("", [("", line)]) for line in remarks]


def _requests_section(quota: Record, requests: Iterable[Record]) -> Section:
    matches = [request for request in requests if request.get("resourceType") == quota["resourceType"]]
    lines = []
    for matche in matches[:MOST_REQUESTS]:
        suffix = " organization" if matche.get("scope") == "organization" else ""
        ago = age(matche.get("createdAt"), times.now())
        lines.append(("", f"{status_text(matche)}{suffix}  {change_text(matche)}  {ago}"))
    if len(matches) > MOST_REQUESTS:
        lines.append(("", f"{len(matches) - MOST_REQUESTS} more: t to show"))
    return "Requests", lines or [("", "none")]


def _shares(quota: Record, own: str) -> Sequence[tuple[str, str]]:
    """Return the shares, `own` first, then by limit. Tenants that the user cannot enter have no name."""
    unit, signs = quota.get("unit"), bars.letters(quota, own)
    shares = sorted(quota.get("tenants", ()), key=lambda one: (one["tenantId"] != own, -int(one["limit"])))
    lines = []
    for one in shares[:MOST_TENANTS]:
        name = one.get("displayName")
        use = f", {_amount(one.get('used'), unit)} in use" if name is not None else ""
        title = str(name) if name is not None else "(no access)"
        lines.append((signs[str(one["tenantId"])], f"{title}  {_amount(one['limit'], unit)}{use}"))
    rest = shares[MOST_TENANTS:]
    if rest:
        lines.append(("", f"{len(rest):,} more  {_amount(sum(int(one['limit']) for one in rest), unit)}"))
    return lines


def titles(quotas: Iterable[Record]) -> Mapping[str, str]:
    return {str(quota["resourceType"]): name_text(quota) for quota in quotas}
