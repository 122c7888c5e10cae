"""Actions of the tenants screen."""

from typing import TYPE_CHECKING

from tui.shell.action import MANAGERS, Action, ActionContext, about_record, all_of, line, selected

if TYPE_CHECKING:
    from tui.state.preferences import TenantRecord

# --- guards ----------------------------------------------------------------------------------------------------------


def _can_create(context: ActionContext) -> str:
    if context.identity_known and not context.creatable:
        return "only an owner or admin of an organization can create tenants"
    return ""


@about_record
def _manages_tenant(_: ActionContext, tenant: "TenantRecord") -> str:
    if tenant.role in ("", *MANAGERS):
        return ""
    return f"only an owner or admin of {tenant.organization_name or 'the organization'} can rename the tenant"


@about_record
def _is_other_tenant(context: ActionContext, tenant: "TenantRecord") -> str:
    return "this tenant is already in use" if tenant.id == context.tenant else ""


# --- commands --------------------------------------------------------------------------------------------------------


def _use(context: ActionContext) -> str:
    tenant: TenantRecord | None = context.record
    return line("tenant", "use", tenant.id) if tenant is not None else ""


def _rename(context: ActionContext) -> str:
    tenant: TenantRecord | None = context.record
    return line("tenant", "rename", tenant.id, "--name", tenant.display_name) if tenant is not None else ""


def _create(context: ActionContext) -> str:
    tenant: TenantRecord | None = context.record
    if not context.creatable:
        return ""
    organization = tenant.organization_id if tenant is not None else ""
    if organization not in context.creatable:
        organization = context.creatable[0]
    return line("tenant", "create", "--name", "NAME", "--organization", organization)


def _default_tags(context: ActionContext) -> str:
    tenant: TenantRecord | None = context.record
    return line("tenant", "default-tags", "get", "--tenant", tenant.id if tenant is not None else "")


TENANT_ACTIONS: tuple[Action, ...] = (
    Action(
        "tenants.use",
        "Use tenant",
        handler="tui.tenants.screen:Tenants.do_use",
        keys=("u",),
        footer_label="use",
        guard=all_of(selected, _is_other_tenant),
        command=_use,
        help="Switch to the tenant, here and in commands; Enter does the same",
        accepts_record_argument=True,
    ),
    Action(
        "tenants.create",
        "Create tenant",
        handler="tui.tenants.screen:Tenants.do_create",
        keys=("n",),
        footer_label="new",
        guard=_can_create,
        command=_create,
        help="Shows the provisioning steps",
        opens_dialog=True,
        writes=True,
    ),
    Action(
        "tenants.rename",
        "Rename tenant",
        handler="tui.tenants.screen:Tenants.do_rename",
        keys=("e",),
        footer_label="rename",
        guard=all_of(selected, _manages_tenant),
        command=_rename,
        help="ID and slug do not change; can be undone",
        opens_dialog=True,
        writes=True,
    ),
    Action(
        "tenants.default_tags",
        "Default tags of the tenant",
        handler="tui.tenants.screen:Tenants.do_default_tags",
        keys=("t",),
        footer_label="tags",
        guard=selected,
        command=_default_tags,
        help="Tags of its new resources; switches to the tenant",
        accepts_record_argument=True,
    ),
)
