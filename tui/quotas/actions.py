"""Actions of the quota screens."""

from client.tables.columns import Record
from tui.shell.action import Action, ActionContext, Command, line

ORGANIZATION_NEEDS_A_PERSON = (
    "this context works with an API key; the organization's quotas need a person who is signed in"
)
MANAGERS = ("owner", "admin")
SCOPES = ("quotas:write", "quotas:*")
"""Scopes that allow an API key to request quotas."""


# --- reasons ---------------------------------------------------------------------------------------------------------


def _tenant(context: ActionContext) -> str:
    return "" if context.tenant else "no tenant is in use"


def _on_one(context: ActionContext) -> str:
    return _tenant(context) or ("" if context.record is not None else "nothing is selected")


def _person(context: ActionContext) -> str:
    return ORGANIZATION_NEEDS_A_PERSON if context.keyed else ""


def _of_organization(context: ActionContext) -> str:
    return _tenant(context) or _person(context)


def _may_request(context: ActionContext) -> str:
    """Return why role or scopes do not allow a request, as far as known. The platform decides."""
    if context.read_only:
        return context.read_only
    if context.keyed and not set(SCOPES) & set(context.scopes):
        return "this API key lacks the scope quotas:write"
    plain = context.role and context.role not in MANAGERS
    return "only an owner or admin of the organization requests other limits" if plain else ""


def _changeable(context: ActionContext) -> str:
    """Return why the limit of the selected quota cannot be requested."""
    from client.quota_request import requestable

    one = context.record
    return "its limit cannot be requested; contact support" if one is not None and not requestable(one) else ""


def _request(context: ActionContext) -> str:
    return _may_request(context) or _on_one(context) or _changeable(context)


def _request_organization(context: ActionContext) -> str:
    return context.read_only or _person(context) or _request(context)


# --- commands --------------------------------------------------------------------------------------------------------


def _asking(*flags: str) -> Command:
    def command(context: ActionContext) -> str:
        one = context.record
        if one is None:
            return ""
        return line("tenant", "quota", "request", str(one["resourceType"]), "LIMIT", "--reason", "REASON", *flags)

    return command


def _again(context: ActionContext) -> str:
    one: Record | None = context.record
    if one is None:
        return ""
    flags = ("--org",) if one.get("scope") == "organization" else ()
    number, reason = str(one.get("limit", "")), str(one.get("reason", ""))
    return line("tenant", "quota", "request", str(one["resourceType"]), number, "--reason", reason, *flags)


def _what_if(context: ActionContext) -> str:
    one = context.record
    return line("tenant", "quota", "what-if", f"{one['resourceType']}=1") if one is not None else ""


def _plain(*words: str) -> Command:
    return lambda _: line("tenant", "quota", *words)


QUOTA_ACTIONS: tuple[Action, ...] = (
    Action(
        "quotas.show",
        "Show quota",
        (),
        reason=_on_one,
        command=_plain(),
        help="Exact figures, what is being created, requests; Enter does the same",
        of_named=True,
    ),
    Action(
        "quotas.request",
        "Request another limit",
        ("n",),
        "request",
        reason=_request,
        command=_asking(),
        help="What will become of it is said before it is sent; lowering asks",
        dialog=True,
        of_named=True,
        writes=True,
    ),
    Action(
        "quotas.what_if",
        "What if",
        ("w",),
        "what if",
        reason=_tenant,
        command=_what_if,
        help="Which limit a plan breaks first, and what may be asked for at once",
        dialog=True,
        of_named=True,
    ),
    Action(
        "quotas.organization",
        "Quotas of the organization",
        ("o",),
        "organization",
        reason=_of_organization,
        command=_plain("--org"),
        help="Its limits, and which tenant has how much of them; the same key leads back",
    ),
    Action(
        "quotas.requests",
        "Requests for other limits",
        ("t",),
        "requests",
        reason=_tenant,
        command=_plain("requests"),
        help="Those that wait and those that were decided, newest first",
    ),
    Action(
        "quotas.request_organization",
        "Request another limit of the organization",
        ("N",),
        reason=_request_organization,
        command=_asking("--org"),
        help="Waits for review by the platform's staff",
        dialog=True,
        of_named=True,
        writes=True,
    ),
    Action(
        "organization-quotas.show",
        "Show quota",
        (),
        reason=_on_one,
        command=_plain("--org"),
        help="Exact figures, and what each tenant has; Enter does the same",
        of_named=True,
    ),
    Action(
        "organization-quotas.request",
        "Request another limit of the organization",
        ("n", "N"),
        "request",
        reason=_request_organization,
        command=_asking("--org"),
        help="Waits for review by the platform's staff",
        dialog=True,
        writes=True,
    ),
    Action(
        "organization-quotas.tenant",
        "Quotas of the tenant",
        ("o",),
        "tenant",
        command=_plain(),
        help="Back to what the tenant in use has",
    ),
    Action(
        "organization-quotas.requests",
        "Requests for other limits",
        ("t",),
        "requests",
        reason=_tenant,
        command=_plain("requests"),
        help="Those that wait and those that were decided, newest first",
    ),
    Action(
        "requests.show",
        "Show request",
        (),
        reason=_on_one,
        command=_plain("requests"),
        help="Reason, who asked, what was decided and why; Enter does the same",
        of_named=True,
    ),
    Action(
        "requests.again",
        "Request it again",
        ("n",),
        "request",
        reason=_request,
        command=_again,
        help="The same limit with the same reason, to be changed before it is sent",
        dialog=True,
        writes=True,
    ),
)
