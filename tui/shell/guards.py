"""Guards: small functions from the action context to the reason why an action is disabled.

Rows of the action tables compose them: `guard=all_of(has_tenant, selected, is_manager("renames it"))`.
"""

from collections.abc import Callable

from client.tables.columns import Record
from tui.shell.action import ActionContext, Guard

MANAGERS = ("owner", "admin")
"""The roles that manage an organization."""


def all_of(*guards: Guard) -> Guard:
    """Return a guard that requires all of `guards`. Its reason is that of the first one that disables the action."""

    def guard(context: ActionContext) -> str:
        return next((reason for one in guards if (reason := one(context))), "")

    return guard


def writable(context: ActionContext) -> str:
    """Require a context that is not read-only. Actions with `writes` do not need it."""
    return context.read_only


def selected(context: ActionContext) -> str:
    """Require a record: under the cursor or by name."""
    return "" if context.record is not None or context.record_by_name else "nothing is selected"


def about_record(check: Callable[[ActionContext, Record], str]) -> Guard:
    """Return a guard that checks the record under the cursor. Without a record it has no reason; see `selected`."""

    def guard(context: ActionContext) -> str:
        return check(context, context.record) if context.record is not None else ""

    return guard


def has_tenant(context: ActionContext) -> str:
    """Require a tenant in use."""
    return "" if context.tenant else "no tenant is in use"


def requires_user(reason: str) -> Guard:
    """Return a guard that requires a signed-in user, not an API key."""
    return lambda context: reason if context.keyed else ""


def is_manager(reason: str) -> Guard:
    """Return a guard that requires an owner or admin. While the role is unknown, the platform decides."""
    return lambda context: reason if context.role and context.role not in MANAGERS else ""
