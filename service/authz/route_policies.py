"""The policy of every route. The platform does not start if a route has none."""

from dataclasses import dataclass, replace
from typing import Literal

from service.catalogue.operations import roles

MANAGERS = frozenset({"owner", "admin"})
AUTHORS = frozenset(role.name for role in roles().values() if role.authors_policies)


@dataclass(frozen=True, slots=True)
class RoutePolicy:
    """Who may call one route.

    `who`: anyone; any valid credential; a person (an interactive session); person_or_key (a session or an API key,
    not a workload); key (an API key only); staff (the owner of the unix socket). `scope`: the scope an API key needs,
    None if any enforced scope is enough. `roles`: the principal needs one of these roles in the organization, None
    for any membership. `scope_of`: the route acts on a tenant or an organization that the principal must be entitled
    to. `home`: the path does not name the tenant; the route acts on the credential's own tenant. `operation`: the
    name of the change in the audit log, None for reads. `local`: the route exists only on the unix socket. `action`:
    the catalogue operation that the role of a key's creator and the policies of a key or workload must allow too;
    `resource_action`: its last part, if the path names a kind of resource that completes it, and with it the scope.
    `enforced_for_users`: the role of a person must allow the operation as well. `dry_run`: a POST that changes
    nothing. `cpu_intensive`: the route compares whole policy documents or reads many resources, so a credential may
    run only a few at a time. `forbidden`: the message of a refusal for a missing role, which then has the code
    FORBIDDEN and not PERMISSION_DENIED.
    """

    who: Literal["anyone", "caller", "person", "person_or_key", "key", "staff"]
    scope: str | None = None
    roles: frozenset[str] | None = None
    scope_of: Literal["tenant", "organization"] | None = None
    home: bool = False
    operation: str | None = None
    local: bool = False
    action: str | None = None
    resource_action: str | None = None
    enforced_for_users: bool = False
    dry_run: bool = False
    forbidden: str | None = None
    cpu_intensive: bool = False

    @property
    def needs_database(self) -> bool:
        """Return whether the decision reads the database beyond the credential and its scopes."""
        return self.scope_of is not None or self.action is not None


IAM = "/api/v1/tenants/{tenant_id}/iam"
BINDINGS = "/api/v1/tenants/{tenant_id}/workload-identity/bindings"
CLUSTERS = "/api/v1/tenants/{tenant_id}/workload-identity/clusters/{cluster_id}"
KEYS = "/api/v1/tenants/{tenant_id}/api-keys"
DEFAULT_TAGS = "/api/v1/tenants/{tenant_id}/default-tags"
RESOURCES = "/api/v1/tenants/{tenant_id}/resources/{kind}"
INTERACTIVE = "/api/v1/tenants/{tenant_id}/interactive"
# Policies, groups and keys are managed in an interactive session, never with an API key or a workload token.
TENANT_READ = RoutePolicy("person", scope_of="tenant")
TENANT_DRY_RUN = RoutePolicy("person", scope_of="tenant", dry_run=True, cpu_intensive=True)


def _changes(operation: str) -> RoutePolicy:
    return RoutePolicy("person", roles=AUTHORS, scope_of="tenant", operation=operation, cpu_intensive=True)


def _own_key(operation: str) -> RoutePolicy:
    return RoutePolicy("person", scope_of="tenant", operation=operation)


def _binding(verb: str, operation: str | None = None) -> RoutePolicy:
    """Persons and API keys manage bindings. A key needs one scope for all of it: a client reads what it wrote.

    A change compares the rights of a binding with those of its author, which is CPU-heavy.
    """
    return RoutePolicy(
        "person_or_key",
        scope="organizations:write",
        roles=None if operation is None else AUTHORS,
        scope_of="tenant",
        operation=operation,
        action=f"iam:workload-identities:{verb}",
        cpu_intensive=operation is not None,
    )


def _resource(verb: str, *, changes: bool = True) -> RoutePolicy:
    operation = f"resource.{verb}" if changes else None
    return RoutePolicy("caller", scope_of="tenant", operation=operation, resource_action=verb, enforced_for_users=True)


def _default_tags(
    verb: str, operation: str | None = None, *, dry_run: bool = False, forbidden: str | None = None
) -> RoutePolicy:
    """Members read default tags, owners and admins change them."""
    reads = verb == "read"
    return RoutePolicy(
        "caller",
        scope=f"organizations:{'read' if reads else 'write'}",
        roles=None if reads else MANAGERS,
        scope_of="tenant",
        operation=operation,
        action=f"organizations:default-tags:{verb}",
        dry_run=dry_run,
        forbidden=forbidden,
        cpu_intensive=dry_run,
    )


def _quotas(what: str) -> RoutePolicy:
    """Read quotas: without a scope, but policies of a key or workload can deny it."""
    return RoutePolicy("caller", scope_of="tenant", action=f"quotas:{what}:list")


def _interactive(name: str, scope: str) -> RoutePolicy:
    action = f"sessions:{name}:open"
    return RoutePolicy(
        "caller", scope, scope_of="tenant", operation="interactive.open", action=action, enforced_for_users=True
    )


# Policy enforcement points evaluate with a key of the tenant; an evaluation changes nothing.
AUTHZEN = RoutePolicy("key", scope="decisions:evaluate", action="iam:policies:simulate", dry_run=True)
SEARCHES = replace(AUTHZEN, cpu_intensive=True)

ROUTE_POLICIES: dict[tuple[str, str], RoutePolicy] = {
    ("GET", "/healthz"): RoutePolicy("anyone"),
    ("GET", "/readyz"): RoutePolicy("anyone"),
    ("GET", "/metrics"): RoutePolicy("staff", local=True),
    ("GET", "/api/openapi.json"): RoutePolicy("anyone"),
    ("GET", "/api/v1/auth/cli-config"): RoutePolicy("anyone"),
    ("GET", "/api/v1/me"): RoutePolicy("caller"),
    ("GET", "/api/v1/organizations"): RoutePolicy(
        "caller", scope="organizations:read", action="organizations:organizations:list"
    ),
    ("GET", "/api/v1/organizations/{organization_id}/tenants"): RoutePolicy(
        "caller", scope="organizations:read", scope_of="organization", action="organizations:tenants:list"
    ),
    ("POST", "/api/v1/organizations/{organization_id}/tenants"): RoutePolicy(
        "caller",
        scope="organizations:write",
        roles=MANAGERS,
        scope_of="organization",
        operation="tenant.create",
        action="organizations:tenants:create",
    ),
    ("GET", "/api/v1/tenants"): RoutePolicy("caller", scope="organizations:read", action="organizations:tenants:list"),
    ("GET", "/api/v1/tenants/{tenant_id}"): RoutePolicy(
        "caller", scope="organizations:read", scope_of="tenant", action="organizations:tenants:read"
    ),
    ("PATCH", "/api/v1/tenants/{tenant_id}"): RoutePolicy(
        "caller",
        scope="organizations:write",
        roles=MANAGERS,
        scope_of="tenant",
        operation="tenant.rename",
        action="organizations:tenants:update",
    ),
    ("GET", DEFAULT_TAGS): _default_tags("read"),
    ("PUT", DEFAULT_TAGS): _default_tags("update", "default_tags.update"),
    ("GET", f"{DEFAULT_TAGS}/history"): _default_tags("read"),
    ("POST", f"{DEFAULT_TAGS}/apply"): _default_tags(
        "apply",
        "default_tags.apply",
        forbidden="you must be an owner or admin of the organization that owns this tenant to apply its default tags",
    ),
    ("POST", f"{DEFAULT_TAGS}/preview"): _default_tags("apply", dry_run=True),
    ("GET", f"{DEFAULT_TAGS}/runs"): _default_tags("read"),
    ("POST", f"{DEFAULT_TAGS}/runs/{{run_id}}/undo"): _default_tags("apply", "default_tags.undo"),
    ("GET", "/api/v1/tenants/{tenant_id}/operations"): RoutePolicy("caller", scope_of="tenant"),
    ("GET", "/api/v1/tenants/{tenant_id}/operations/{operation_id}"): RoutePolicy("caller", scope_of="tenant"),
    ("GET", "/api/v1/tenants/{tenant_id}/events"): RoutePolicy("caller", scope_of="tenant"),
    # Owners and admins read the activity of a tenant; keys and workloads never do.
    ("GET", "/api/v1/tenants/{tenant_id}/activity"): RoutePolicy("person", roles=MANAGERS, scope_of="tenant"),
    ("GET", "/api/v1/organizations/{organization_id}/activity"): RoutePolicy(
        "person", roles=MANAGERS, scope_of="organization"
    ),
    ("GET", "/api/v1/scopes"): RoutePolicy("caller"),
    ("GET", "/api/v1/iam/catalogue"): RoutePolicy("caller"),
    ("GET", "/api/v1/me/api-keys"): RoutePolicy("person"),
    ("GET", "/api/v1/tenants/{tenant_id}/scopes"): TENANT_READ,
    ("GET", KEYS): TENANT_READ,
    ("POST", KEYS): _own_key("api_key.create"),
    # A key may read itself, which its route checks. Only people create and end keys.
    ("GET", f"{KEYS}/{{key_id}}"): RoutePolicy("caller", scope_of="tenant"),
    ("PATCH", f"{KEYS}/{{key_id}}"): _own_key("api_key.update"),
    ("POST", f"{KEYS}/{{key_id}}/revoke"): _own_key("api_key.revoke"),
    ("POST", f"{KEYS}/{{key_id}}/rotate"): _own_key("api_key.rotate"),
    ("DELETE", f"{KEYS}/{{key_id}}"): _own_key("api_key.delete"),
    ("POST", f"{IAM}/groups"): _changes("group.create"),
    ("GET", f"{IAM}/groups"): TENANT_READ,
    ("GET", f"{IAM}/groups/{{group_id}}"): TENANT_READ,
    ("PATCH", f"{IAM}/groups/{{group_id}}"): _changes("group.update"),
    ("DELETE", f"{IAM}/groups/{{group_id}}"): _changes("group.delete"),
    ("POST", f"{IAM}/groups/{{group_id}}/members"): _changes("group.member.add"),
    ("GET", f"{IAM}/groups/{{group_id}}/members"): TENANT_READ,
    ("DELETE", f"{IAM}/groups/{{group_id}}/members"): _changes("group.member.remove"),
    ("POST", f"{IAM}/policies"): _changes("policy.create"),
    ("GET", f"{IAM}/policies"): TENANT_READ,
    ("GET", f"{IAM}/policies/{{policy_id}}"): TENANT_READ,
    ("PATCH", f"{IAM}/policies/{{policy_id}}"): _changes("policy.update"),
    ("DELETE", f"{IAM}/policies/{{policy_id}}"): _changes("policy.delete"),
    ("GET", f"{IAM}/policies/{{policy_id}}/versions"): TENANT_READ,
    ("GET", f"{IAM}/policies/{{policy_id}}/versions/{{version}}"): TENANT_READ,
    ("POST", f"{IAM}/policies/{{policy_id}}/rollback"): _changes("policy.rollback"),
    ("POST", f"{IAM}/policies/{{policy_id}}/attachments"): _changes("policy.attach"),
    ("GET", f"{IAM}/policies/{{policy_id}}/attachments"): TENANT_READ,
    ("DELETE", f"{IAM}/policies/{{policy_id}}/attachments"): _changes("policy.detach"),
    ("POST", f"{IAM}/simulate"): TENANT_DRY_RUN,
    ("POST", f"{IAM}/coverage"): TENANT_DRY_RUN,
    ("POST", f"{IAM}/check"): TENANT_DRY_RUN,
    ("GET", f"{IAM}/access"): TENANT_READ,
    ("POST", f"{IAM}/who"): TENANT_DRY_RUN,
    ("POST", f"{IAM}/preview"): TENANT_DRY_RUN,
    ("POST", BINDINGS): _binding("create", "workload_identity.create"),
    ("GET", BINDINGS): _binding("list"),
    ("GET", f"{BINDINGS}/{{binding_id}}"): _binding("read"),
    ("PUT", f"{BINDINGS}/{{binding_id}}"): _binding("update", "workload_identity.update"),
    ("DELETE", f"{BINDINGS}/{{binding_id}}"): _binding("delete", "workload_identity.delete"),
    ("PUT", f"{CLUSTERS}/issuer"): RoutePolicy(
        "person", roles=MANAGERS, scope_of="tenant", operation="workload_identity.issuer.set"
    ),
    ("GET", f"{CLUSTERS}/issuer"): TENANT_READ,
    ("DELETE", f"{CLUSTERS}/issuer"): RoutePolicy(
        "person", roles=MANAGERS, scope_of="tenant", operation="workload_identity.issuer.remove"
    ),
    ("POST", "/api/v1/auth/workload-token"): RoutePolicy("anyone", operation="workload_identity.exchange"),
    ("GET", RESOURCES): _resource("list", changes=False),
    ("POST", RESOURCES): _resource("create"),
    ("GET", f"{RESOURCES}/{{resource_id}}"): _resource("read", changes=False),
    ("PATCH", f"{RESOURCES}/{{resource_id}}"): _resource("update"),
    ("DELETE", f"{RESOURCES}/{{resource_id}}"): _resource("delete"),
    ("POST", f"{RESOURCES}/{{resource_id}}/start"): _resource("start"),
    ("POST", f"{RESOURCES}/{{resource_id}}/stop"): _resource("stop"),
    ("POST", f"{RESOURCES}/{{resource_id}}/restart"): _resource("restart"),
    ("GET", "/.well-known/authzen-configuration"): RoutePolicy("anyone"),
    ("POST", "/access/v1/evaluation"): AUTHZEN,
    ("POST", "/access/v1/evaluations"): AUTHZEN,
    ("POST", "/access/v1/search/subject"): SEARCHES,
    ("POST", "/access/v1/search/resource"): SEARCHES,
    ("POST", "/access/v1/search/action"): SEARCHES,
    # Interactive scopes cover nothing else, and no other scope covers them.
    ("POST", f"{INTERACTIVE}/port-forwards"): _interactive("port-forwards", "sessions:forward"),
    ("POST", f"{INTERACTIVE}/database-consoles"): _interactive("database-consoles", "sessions:forward"),
    ("POST", f"{INTERACTIVE}/shells"): _interactive("shells", "sessions:pty"),
    ("POST", f"{INTERACTIVE}/cluster-proxies"): _interactive("cluster-proxies", "sessions:write"),
    # Only people read and request the quotas of an organization.
    ("GET", "/api/v1/tenants/{tenant_id}/quotas-report"): _quotas("limits"),
    ("GET", "/api/v1/tenants/{tenant_id}/quotas"): _quotas("limits"),
    ("GET", "/api/v1/tenants/{tenant_id}/quotas/usage"): _quotas("limits"),
    ("GET", "/api/v1/organizations/{organization_id}/quotas-report"): RoutePolicy("person", scope_of="organization"),
    ("GET", "/api/v1/tenants/{tenant_id}/quota-requests"): _quotas("requests"),
    ("POST", "/api/v1/tenants/{tenant_id}/quota-requests"): RoutePolicy(
        "caller",
        scope="quotas:write",
        roles=MANAGERS,
        scope_of="tenant",
        operation="quota_request.create",
        action="quotas:requests:create",
    ),
    ("GET", "/api/v1/organizations/{organization_id}/quota-requests"): RoutePolicy("person", scope_of="organization"),
    ("POST", "/api/v1/organizations/{organization_id}/quota-requests"): RoutePolicy(
        "person", roles=MANAGERS, scope_of="organization", operation="quota_request.create_organization"
    ),
    ("GET", "/api/v1/platform/quota-requests"): RoutePolicy("staff", local=True),
    ("POST", "/api/v1/platform/quota-requests/{request_id}/review"): RoutePolicy(
        "staff", operation="quota_request.review", local=True
    ),
    ("DELETE", "/api/v1/me"): RoutePolicy("person", operation="account.delete"),
    ("GET", "/api/v1/sessions"): RoutePolicy("person"),
    ("POST", "/api/v1/sessions/revoke-all"): RoutePolicy("person", operation="session.revoke_all"),
    ("POST", "/api/v1/platform/accounts/restore"): RoutePolicy("staff", operation="account.restore", local=True),
    ("GET", "/api/v1/platform/status"): RoutePolicy("staff", local=True),
    ("GET", "/api/v1/platform/operations"): RoutePolicy("staff", local=True),
    ("POST", "/api/v1/platform/operations/{operation_id}/cancel"): RoutePolicy(
        "staff", operation="operation.cancel", local=True
    ),
    ("GET", "/api/v1/platform/audit/verify"): RoutePolicy("staff", local=True),
    ("POST", "/api/v1/platform/stop"): RoutePolicy("staff", operation="platform.stop", local=True),
    ("POST", "/api/v1/sessions/current/end"): RoutePolicy("person", operation="session.end"),
    ("GET", "/issuer/.well-known/openid-configuration"): RoutePolicy("anyone", local=True),
    ("GET", "/issuer/jwks"): RoutePolicy("anyone", local=True),
    ("POST", "/issuer/device_authorization"): RoutePolicy("anyone", local=True),
    ("POST", "/issuer/device/approve"): RoutePolicy("staff", local=True, operation="device.approve"),
    ("GET", "/issuer/authorize"): RoutePolicy("staff", local=True),
    ("POST", "/issuer/token"): RoutePolicy("anyone", local=True),
    ("POST", "/issuer/revoke"): RoutePolicy("anyone", local=True),
}

# Paths without a tenant, for older clients: the same routes on the credential's own tenant.
HOME_PATHS: dict[str, str] = {
    path.replace("/tenants/{tenant_id}", ""): path
    for path in (
        KEYS,
        f"{KEYS}/{{key_id}}",
        f"{IAM}/policies",
        f"{IAM}/policies/{{policy_id}}",
        f"{IAM}/policies/{{policy_id}}/attachments",
        BINDINGS,
        f"{BINDINGS}/{{binding_id}}",
    )
}
ROUTE_POLICIES |= {
    (method, home): replace(rule, home=True)
    for home, path in HOME_PATHS.items()
    for (method, of), rule in ROUTE_POLICIES.items()
    if of == path
}
