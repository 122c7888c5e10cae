"""Actions of the account screens."""

from tui.shell.action import Action, ActionContext, Command, line

KEYS_NEED_A_PERSON = "this context works with an API key; keys, sessions and the account need a person who is signed in"


# --- reasons ---------------------------------------------------------------------------------------------------------


def _person(context: ActionContext) -> str:
    return KEYS_NEED_A_PERSON if context.keyed else ""


def _change(context: ActionContext) -> str:
    return context.read_only or _person(context)


def _make(context: ActionContext) -> str:
    if (reason := _change(context)) or context.tenant:
        return reason
    known = context.identity_known
    return "a key belongs to a tenant, and none is in use" if known else "the tenants are still on their way"


def _on_one(context: ActionContext) -> str:
    return _person(context) or ("" if context.record is not None else "nothing is selected")


def _change_one(context: ActionContext) -> str:
    return context.read_only or _on_one(context)


def _unknown_or_change(context: ActionContext) -> str:
    return _change(context) or ("" if context.identity_known else "the platform has not said yet who you are")


def _rotate(context: ActionContext) -> str:
    status = (context.record or {}).get("status")
    over = context.record is not None and status != "active"
    return _change_one(context) or (f"only an active key is rotated, and this one is {status}" if over else "")


def _in_its_tenant(context: ActionContext) -> str:
    record = context.record or {}
    elsewhere = record.get("tenantId") not in (None, context.tenant)
    return _on_one(context) or (
        f"this key belongs to {record.get('tenantName')}: use that tenant first" if elsewhere else ""
    )


# --- commands --------------------------------------------------------------------------------------------------------


def _of_key(*words: str) -> Command:
    return lambda s: line("account", "api-key", *words, str(s.record["id"])) if s.record is not None else ""


def _access(context: ActionContext) -> str:
    return line("iam", "access", "api_key", str(context.record["id"])) if context.record is not None else ""


def _update(context: ActionContext) -> str:
    one = context.record
    return line("account", "api-key", "update", str(one["id"]), "--name", str(one["name"])) if one is not None else ""


ACCOUNT_ACTIONS: tuple[Action, ...] = (
    Action(
        "api-keys.access",
        "What may it do",
        ("w",),
        "may do",
        reason=_in_its_tenant,
        command=_access,
        help="Every operation with the path scope, role, policy; Enter does the same",
        of_named=True,
    ),
    Action(
        "api-keys.create",
        "New API key",
        ("n",),
        "new",
        reason=_make,
        command=lambda _: line("account", "api-key", "create", "--name", "NAME", "--scopes", "SCOPE"),
        help="In the tenant in use; its secret is shown once",
        dialog=True,
        of_named=True,
        writes=True,
    ),
    Action(
        "api-keys.edit",
        "Change API key",
        ("e",),
        "edit",
        reason=_change_one,
        command=_update,
        help="Name, description, scopes and rate limit; the secret and the expiry stay",
        dialog=True,
        writes=True,
    ),
    Action(
        "api-keys.rotate",
        "Rotate API key",
        ("o",),
        "rotate",
        reason=_rotate,
        command=_of_key("rotate"),
        help="A new key that may do the same; both work until the overlap is over",
        dialog=True,
        writes=True,
    ),
    Action(
        "api-keys.revoke",
        "Revoke API key",
        ("v",),
        "revoke",
        reason=_change_one,
        command=_of_key("revoke"),
        help="Those marked, or the one under the cursor: refused from the next request on; asks first",
        dialog=True,
        writes=True,
        of_marked=True,
    ),
    Action(
        "api-keys.delete",
        "Delete API key",
        ("delete",),
        "delete",
        reason=_change_one,
        command=_of_key("delete"),
        help="Those marked, or the one under the cursor: with their memberships, for good; asks first",
        dialog=True,
        writes=True,
        of_marked=True,
    ),
    Action(
        "sessions.show",
        "Show session",
        (),
        reason=_on_one,
        command=lambda _: line("account", "session", "list"),
        help="Everything known about it; Enter does the same",
        of_named=True,
    ),
    Action(
        "sessions.end_all",
        "End every session",
        ("delete",),
        "end all",
        reason=_change,
        command=lambda _: line("account", "session", "revoke-all"),
        help="On every device, this one too; API keys go on; asks first",
        dialog=True,
        writes=True,
    ),
    Action(
        "account.tenants",
        "Its tenants",
        ("o",),
        "tenants",
        reason=lambda s: "" if s.record is not None else "nothing is selected",
        command=lambda _: line("tenant", "list"),
        help="The tenants of the organization; Enter does the same",
        of_named=True,
    ),
    Action(
        "account.delete",
        "Delete account",
        ("delete",),
        "delete",
        reason=_unknown_or_change,
        command=lambda _: line("account", "delete"),
        help="With every session and API key; your e-mail has to be typed",
        dialog=True,
        writes=True,
    ),
)
