"""Actions of the quota screens."""

from typing import TYPE_CHECKING

from tui.shell.action import (
    Action,
    ActionContext,
    Command,
    about_record,
    all_of,
    has_tenant,
    is_manager,
    line,
    requires_user,
    selected,
)

if TYPE_CHECKING:
    from client.models.quotas import BaseQuota, Quota, QuotaRequest

ORGANIZATION_NEEDS_A_PERSON = "this context works with an API key; the organization's quotas need a signed-in user"
SCOPES = ("quotas:write", "quotas:*")
"""Scopes that allow an API key to request quotas."""


# --- guards ----------------------------------------------------------------------------------------------------------


def _has_scope(context: ActionContext) -> str:
    # While the scopes are unknown, the platform decides.
    if context.keyed and context.scopes and not set(SCOPES) & set(context.scopes):
        return "this API key lacks the scope quotas:write"
    return ""


@about_record
def _is_requestable(_: ActionContext, record: "BaseQuota | QuotaRequest") -> str:
    from client.quota_rules import requestable

    return "" if requestable(record.wire()) else "its limit cannot be requested; contact support"


_is_user = requires_user(ORGANIZATION_NEEDS_A_PERSON)
_can_request = all_of(
    _has_scope,
    is_manager("only an owner or admin of the organization can request limits"),
    has_tenant,
    selected,
    _is_requestable,
)


# --- commands --------------------------------------------------------------------------------------------------------


def _request_line(*flags: str) -> Command:
    def command(context: ActionContext) -> str:
        quota: BaseQuota | None = context.record
        if quota is None:
            return ""
        return line("tenant", "quota", "request", quota.resource_type, "LIMIT", "--reason", "REASON", *flags)

    return command


def _repeat_line(context: ActionContext) -> str:
    request: QuotaRequest | None = context.record
    if request is None:
        return ""
    flags = ("--org",) if request.scope == "organization" else ()
    arguments = (request.resource_type, str(request.limit), "--reason", request.reason)
    return line("tenant", "quota", "request", *arguments, *flags)


def _plan_line(context: ActionContext) -> str:
    quota: Quota | None = context.record
    return line("tenant", "quota", "what-if", f"{quota.resource_type}=1") if quota is not None else ""


def _quota_line(*arguments: str) -> Command:
    return lambda _: line("tenant", "quota", *arguments)


QUOTA_ACTIONS: tuple[Action, ...] = (
    Action(
        "quotas.show",
        "Show quota",
        handler="tui.shell.remote_list_screen:RemoteListScreen.do_show",
        guard=all_of(has_tenant, selected),
        command=_quota_line(),
        help="Exact figures, resources in creation and requests; Enter does the same",
        accepts_record_argument=True,
    ),
    Action(
        "quotas.request",
        "Request a new limit",
        handler="tui.quotas.screen:Quotas.do_request",
        keys=("n",),
        footer_label="request",
        guard=_can_request,
        command=_request_line(),
        help="Shows the outcome before you send the request; a lower limit asks first",
        opens_dialog=True,
        accepts_record_argument=True,
        writes=True,
    ),
    Action(
        "quotas.what_if",
        "What if",
        handler="tui.quotas.screen:Quotas.do_what_if",
        keys=("w",),
        footer_label="what if",
        guard=has_tenant,
        command=_plan_line,
        help="Show which limit a plan exceeds first, and the limits without review",
        opens_dialog=True,
        accepts_record_argument=True,
    ),
    Action(
        "quotas.organization",
        "Quotas of the organization",
        handler="tui.quotas.screen:Quotas.do_organization",
        keys=("o",),
        footer_label="organization",
        guard=all_of(has_tenant, _is_user),
        command=_quota_line("--org"),
        help="Limits of the organization and the share of each tenant; same key to return",
    ),
    Action(
        "quotas.requests",
        "Quota requests",
        handler="tui.quotas.screen:Quotas.do_requests",
        keys=("t",),
        footer_label="requests",
        guard=has_tenant,
        command=_quota_line("requests"),
        help="Pending and decided requests, newest first",
    ),
    Action(
        "quotas.request_organization",
        "Request a new limit for the organization",
        handler="tui.quotas.screen:Quotas.do_request_organization",
        keys=("N",),
        guard=all_of(_is_user, _can_request),
        command=_request_line("--org"),
        help="The platform's operator reviews the request",
        opens_dialog=True,
        accepts_record_argument=True,
        writes=True,
    ),
    Action(
        "organization-quotas.show",
        "Show quota",
        handler="tui.shell.remote_list_screen:RemoteListScreen.do_show",
        guard=all_of(has_tenant, selected),
        command=_quota_line("--org"),
        help="Exact figures and the share of each tenant; Enter does the same",
        accepts_record_argument=True,
    ),
    Action(
        "organization-quotas.request",
        "Request a new limit for the organization",
        handler="tui.quotas.screen:OrganizationQuotas.do_request",
        keys=("n", "N"),
        footer_label="request",
        guard=all_of(_is_user, _can_request),
        command=_request_line("--org"),
        help="The platform's operator reviews the request",
        opens_dialog=True,
        writes=True,
    ),
    Action(
        "organization-quotas.tenant",
        "Quotas of the tenant",
        handler="tui.quotas.screen:OrganizationQuotas.do_tenant",
        keys=("o",),
        footer_label="tenant",
        command=_quota_line(),
        help="Return to the quotas of the current tenant",
    ),
    Action(
        "organization-quotas.requests",
        "Quota requests",
        handler="tui.quotas.screen:OrganizationQuotas.do_requests",
        keys=("t",),
        footer_label="requests",
        guard=has_tenant,
        command=_quota_line("requests"),
        help="Pending and decided requests, newest first",
    ),
    Action(
        "requests.show",
        "Show request",
        handler="tui.shell.remote_list_screen:RemoteListScreen.do_show",
        guard=all_of(has_tenant, selected),
        command=_quota_line("requests"),
        help="Reason, requester and decision; Enter does the same",
        accepts_record_argument=True,
    ),
    Action(
        "requests.again",
        "Request again",
        handler="tui.quotas.screen:QuotaRequests.do_again",
        keys=("n",),
        footer_label="request",
        guard=_can_request,
        command=_repeat_line,
        help="Start a request with the same limit and reason",
        opens_dialog=True,
        writes=True,
    ),
)
