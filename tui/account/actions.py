"""Actions of the account screens."""

from typing import TYPE_CHECKING

from tui.shell.action import Action, ActionContext, Command, about_record, all_of, line, requires_user, selected

if TYPE_CHECKING:
    from client.models.account import ApiKey, Organization

KEYS_NEED_A_PERSON = "this context works with an API key; keys, sessions and the account need a signed-in user"


# --- guards ----------------------------------------------------------------------------------------------------------


def _has_tenant_for_key(context: ActionContext) -> str:
    if context.tenant:
        return ""
    return "an API key belongs to a tenant, and none is selected" if context.identity_known else "loading tenants"


def _is_identity_known(context: ActionContext) -> str:
    return "" if context.identity_known else "loading your account"


@about_record
def _is_active(_: ActionContext, key: "ApiKey") -> str:
    return "" if key.status == "active" else f"only an active key can be rotated; this one is {key.status}"


@about_record
def _is_in_tenant(context: ActionContext, key: "ApiKey") -> str:
    if key.tenant_id in ("", context.tenant):
        return ""
    return f"this key belongs to {key.tenant_name}: use that tenant first"


_is_user = requires_user(KEYS_NEED_A_PERSON)


# --- commands --------------------------------------------------------------------------------------------------------


def _key_line(*arguments: str) -> Command:
    def command(context: ActionContext) -> str:
        key: ApiKey | None = context.record
        return line("account", "api-key", *arguments, key.id) if key is not None else ""

    return command


def _access_line(context: ActionContext) -> str:
    key: ApiKey | None = context.record
    return line("iam", "access", "api_key", key.id) if key is not None else ""


def _tenants_line(context: ActionContext) -> str:
    organization: Organization | None = context.record
    return line("tenant", "list", "--organization", organization.id) if organization is not None else ""


def _update_line(context: ActionContext) -> str:
    key: ApiKey | None = context.record
    return line("account", "api-key", "update", key.id, "--name", key.name) if key is not None else ""


ACCOUNT_ACTIONS: tuple[Action, ...] = (
    Action(
        "api-keys.access",
        "Access",
        handler="tui.account.api_keys:ApiKeys.do_access",
        keys=("w",),
        footer_label="access",
        guard=all_of(_is_user, selected, _is_in_tenant),
        command=_access_line,
        help="Each operation with the scope, role and policy that allow it; Enter does the same",
        accepts_record_argument=True,
    ),
    Action(
        "api-keys.create",
        "New API key",
        handler="tui.account.api_keys:ApiKeys.do_create",
        keys=("n",),
        footer_label="new",
        guard=all_of(_is_user, _has_tenant_for_key),
        command=lambda _: line("account", "api-key", "create", "--name", "NAME", "--scopes", "SCOPE"),
        help="In the current tenant; the secret is shown once",
        opens_dialog=True,
        accepts_record_argument=True,
        writes=True,
    ),
    Action(
        "api-keys.edit",
        "Edit API key",
        handler="tui.account.api_keys:ApiKeys.do_edit",
        keys=("e",),
        footer_label="edit",
        guard=all_of(_is_user, selected),
        command=_update_line,
        help="Change name, description, scopes and rate limit, but not the secret or the expiry",
        opens_dialog=True,
        writes=True,
    ),
    Action(
        "api-keys.rotate",
        "Rotate API key",
        handler="tui.account.api_keys:ApiKeys.do_rotate",
        keys=("o",),
        footer_label="rotate",
        guard=all_of(_is_user, selected, _is_active),
        command=_key_line("rotate"),
        help="Create a key with the same permissions; both keys work until the overlap ends",
        opens_dialog=True,
        writes=True,
    ),
    Action(
        "api-keys.revoke",
        "Revoke API key",
        handler="tui.account.api_keys:ApiKeys.do_revoke",
        keys=("v",),
        footer_label="revoke",
        guard=all_of(_is_user, selected),
        command=_key_line("revoke"),
        help="Revoke the marked keys or the selected one; their next request is denied; asks first",
        opens_dialog=True,
        acts_on_marked=True,
        writes=True,
    ),
    Action(
        "api-keys.delete",
        "Delete API key",
        handler="tui.account.api_keys:ApiKeys.do_delete",
        keys=("delete",),
        footer_label="delete",
        guard=all_of(_is_user, selected),
        command=_key_line("delete"),
        help="Delete the marked keys or the selected one permanently, with memberships; asks first",
        opens_dialog=True,
        acts_on_marked=True,
        writes=True,
    ),
    Action(
        "sessions.show",
        "Show session",
        handler="tui.shell.remote_list_screen:RemoteListScreen.do_show",
        guard=all_of(_is_user, selected),
        command=lambda _: line("account", "session", "list"),
        help="All details of the session; Enter does the same",
        accepts_record_argument=True,
    ),
    Action(
        "sessions.end_all",
        "End all sessions",
        handler="tui.account.screen:Sessions.do_end_all",
        keys=("delete",),
        footer_label="end all",
        guard=_is_user,
        command=lambda _: line("account", "session", "revoke-all"),
        help="On every device, including this one; API keys stay valid; asks first",
        opens_dialog=True,
        writes=True,
    ),
    Action(
        "account.tenants",
        "Tenants of the organization",
        handler="tui.account.screen:Account.do_tenants",
        keys=("o",),
        footer_label="tenants",
        guard=selected,
        command=_tenants_line,
        help="List the tenants of the selected organization; Enter does the same",
        accepts_record_argument=True,
    ),
    Action(
        "account.delete",
        "Delete account",
        handler="tui.account.screen:Account.do_delete",
        keys=("delete",),
        footer_label="delete",
        guard=all_of(_is_user, _is_identity_known),
        command=lambda _: line("account", "delete"),
        help="With all sessions and API keys; type your e-mail address to confirm",
        opens_dialog=True,
        writes=True,
    ),
)
