"""`frost tenant quota request`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from client.api import quotas as calls
from client.commands.command import leaf
from client.commands.completers import resource_types
from client.commands.invocation import Invocation
from client.commands.parameters import Argument, Option
from client.commands.quotas.quota import (
    check_requestable,
    find_quota,
    owning_organization_id,
    parse_number,
    parse_reason,
)
from client.commands.tenants import WITHIN_ORGANIZATION, check_within
from client.errors import FrostError, usage
from client.tables import quotas
from client.tables.columns import UNKNOWN
from client.tables.quotas import amount_text, decision_text
from client.text import safe


@leaf(
    "request",
    Argument(
        ["resource_type"],
        metavar="RESOURCE_TYPE",
        help="Resource type as in `frost tenant quota -o json`.",
        shell_complete=resource_types,
    ),
    Argument(
        ["new_limit"],
        metavar="NEW_LIMIT",
        help="The new limit, not an increment: MB for ram, GB for storage, else a count.",
    ),
    Option(["--reason"], required=True, metavar="TEXT", help="Purpose of the change, up to 500 characters."),
    Option(["--org"], is_flag=True, help="Request for the organization; needs review and an interactive login."),
    Option(["--yes"], is_flag=True, help="Allow lowering the limit of a tenant."),
    WITHIN_ORGANIZATION,
    examples=(
        'frost tenant quota request vcpu 40 --reason "launch in May"',
        'frost tenant quota request ram 131072 --reason "128 GB for the index"',
        'frost tenant quota request vcpu 400 --reason "second region" --org',
    ),
)
def request(
    run: Invocation, resource_type: str, new_limit: str, reason: str, org: bool, yes: bool, organization: str | None
) -> None:
    """Request a new limit for a resource type.

    A tenant's limit is decided at once, up to the maximum without review; a request above it is not sent. With
    --org, request a limit for the organization, which the platform's operator reviews. Lowering a tenant's limit
    requires --yes.
    """
    limit = parse_number(new_limit, "NEW_LIMIT")
    reason = parse_reason(reason)
    check_requestable(resource_type)
    if org:
        organization_id = owning_organization_id(run, organization)
        quota = find_quota(calls.quotas_of(run.call(calls.organization_report(organization_id))), resource_type)
        if _already(run, quota, limit):
            return
        call = calls.request_organization(organization_id, resource_type, limit, reason)
        with _explain_errors(quota, limit):
            _print_outcome(run, run.call(call)["request"], quota)
        return
    check_within(run, organization)
    quota = find_quota(calls.quotas_of(run.call_for_tenant(calls.report)), resource_type)
    if _already(run, quota, limit):
        return
    if limit < quota["limit"]:
        _check_lowering(run, quota, limit, yes)
    elif quota.get("requestable") is not None and limit > quota["requestable"]:
        raise _bound_exceeded(quota, limit, quota["requestable"])
    with _explain_errors(quota, limit):
        answer = run.call_for_tenant(lambda tenant: calls.request(tenant, resource_type, limit, reason))
    _print_outcome(run, answer["request"], quota)


def _already(run: Invocation, quota: Mapping[str, Any], limit: int) -> bool:
    """Return whether the limit has this value already, and print that. The request is then not sent."""
    if limit != quota["limit"]:
        return False
    document = {"resourceType": quota["resourceType"], "limit": limit, "status": "unchanged"}
    run.output.done(f"{quota['resourceType']} is already {amount_text(limit, quota['unit'])}", document)
    return True


def _check_lowering(run: Invocation, quota: Mapping[str, Any], limit: int, yes: bool) -> None:
    """Refuse to lower a limit without `--yes`; the error has the command to repeat."""
    if yes:
        return
    raise usage(
        f"this lowers {quota['resourceType']} from {_amount(quota['limit'], quota)} to {_amount(limit, quota)};"
        " nothing was sent",
        f"to do so: {safe(run.command_line(added=['--yes']), 1000)}",
        code="LOWERING_UNCONFIRMED",
    )


def _bound_exceeded(quota: Mapping[str, Any], limit: int, bound: int) -> FrostError:
    """Return the error for a raise that needs review by the organization; the same before and after sending."""
    return FrostError(
        f"{quota['resourceType']} can be raised to {_amount(bound, quota)} without review, not to"
        f" {_amount(limit, quota)}",
        code=calls.BOUND_EXCEEDED,
        hint="request it for the organization with --org; it will be reviewed",
        details={
            "resourceType": quota["resourceType"],
            "limit": limit,
            "requestable": bound,
            "current": quota["limit"],
        },
    )


@contextmanager
def _explain_errors(quota: Mapping[str, Any], limit: int) -> Iterator[None]:
    """Replace errors of the platform with those of the command, and name the pending request in a conflict."""
    try:
        yield
    except FrostError as error:
        details = error.details or {}
        bound, pending = details.get("requestable"), details.get("requestId")
        if error.code == calls.BOUND_EXCEEDED and isinstance(bound, int):
            raise _bound_exceeded(quota, limit, bound) from error
        if error.code == calls.PENDING and isinstance(details.get("limit"), int):
            amount = _amount(details["limit"], quota)
            error.message = f"request {safe(pending, 60)} for {quota['resourceType']} {amount} is waiting for review"
            error.hint = "only one request per type can be in review; see: frost tenant quota requests"
        raise


def _print_outcome(run: Invocation, answer: Mapping[str, Any], quota: Mapping[str, Any]) -> None:
    """Print the outcome of a request. Raises FrostError if it was denied."""
    before, after = _amount(answer.get("from"), quota), _amount(answer.get("limit"), quota)
    name, status = quota["resourceType"], answer.get("status")
    if status == "denied":
        reason = decision_text({**answer, "unit": quota["unit"]})
        raise FrostError(
            f"{name} stays {before}; {after} was denied: {safe(reason or 'no reason given', 300)}",
            code="QUOTA_REQUEST_DENIED",
            details=answer,
        )
    run.output.record(quotas.QUOTA_REQUEST, answer)
    if status == "approved":
        run.output.note(f"{name} is {after} now, was {before}")
    elif status == "pending":
        run.output.note(f"{name} {after} waits for the platform's operator; frost tenant quota requests --org")


def _amount(value: object, quota: Mapping[str, Any]) -> str:
    return amount_text(value, quota["unit"]) if isinstance(value, int) else UNKNOWN
