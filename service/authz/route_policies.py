"""The policy of every route, which `ProtectedRoute` applies. A route without a policy is not served.

who          the credential: `anyone` (none), `principal` (any), `person` (a session), `person_or_key`, `key`
             (an API key), `operator` (the owner of the unix socket)
tenancy      the route acts on a tenant or an organization and requires entitlement to it
roles        the required role; None for any
scope        the scope that keys and workloads with scopes need; None for any enforced scope
permission   the operation that policies of keys and workloads, and the role of a key's creator, must allow
audit_event  the event in the audit log; None for reads
work         the class of work; its queue bounds the requests
"""

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from typing import Literal

from service.audit.entries import AuditEvent
from service.authz.endpoints import (
    API_KEY,
    API_KEYS,
    ATTACHMENTS,
    BINDING,
    BINDINGS,
    CLUSTER_ISSUER,
    DEFAULT_TAGS,
    GROUP,
    GROUPS,
    IAM,
    INTERACTIVE,
    OPERATIONS,
    ORGANIZATION,
    ORGANIZATION_QUOTA_REQUESTS,
    ORGANIZATION_TENANTS,
    PLATFORM_QUOTA_REQUESTS,
    POLICIES,
    POLICY,
    QUOTAS,
    RESOURCE,
    RESOURCES,
    TENANT,
    TENANT_QUOTA_REQUESTS,
    TENANTS,
    Permission,
)
from service.catalogue.operations import roles
from service.http_server.work_queues import Work


class AuthorRoles(Set[str]):
    """The roles that may write policies. Their file is read on first use, because no first answer needs it."""

    def __contains__(self, name: object) -> bool:
        return any(name == author for author in self)

    def __iter__(self) -> Iterator[str]:
        return (role.name for role in roles().values() if role.authors_policies)

    def __len__(self) -> int:
        return sum(1 for _ in self)


MANAGERS = frozenset({"owner", "admin"})
AUTHORS = AuthorRoles()


@dataclass(frozen=True, slots=True)
class RoutePolicy:
    """An entry of the table; see the module docstring."""

    who: Literal["anyone", "principal", "person", "person_or_key", "key", "operator"]
    tenancy: Literal["tenant", "organization"] | None = None
    roles: Set[str] | None = None
    scope: str | None = None
    permission: Permission | None = None
    audit_event: AuditEvent | None = None
    resource_action: str | None = None
    """The verb of an operation; the resource type in the path completes it and determines the scope."""
    enforced_for_users: bool = False
    """A person's role must also allow the operation."""
    dry_run: bool = False
    """A POST route without changes."""
    home: bool = False
    """The route acts on the tenant of the credential; its path has none."""
    local: bool = False
    """Served only on the unix socket."""
    work: Work = Work.READ
    """The queue of the requests. A route with changes has `Work.WRITE`, or
    `Work.SIGN_IN` without a credential, unless its entry names another class."""
    quick: bool = False
    """A read by id, of prepared statements only: it runs on the event loop (`service/db/loop_reads.py`). Or a short
    change: on SQLite, it runs in the thread of changes (`service/db/change_thread.py`)."""
    forbidden_message: str | None = None
    """Replaces the message and the code PERMISSION_DENIED (by FORBIDDEN) for a missing role."""

    @property
    def needs_database(self) -> bool:
        """Return whether authorization reads the database."""
        return self.tenancy is not None or self.permission is not None


APPLY_FORBIDDEN_MESSAGE = (
    "you must be an owner or admin of the organization that owns this tenant to apply its default tags"
)
# Policies, groups and keys are managed only in sessions, not with a key or workload token.
TENANT_READ = RoutePolicy("person", tenancy="tenant")
TENANT_DRY_RUN = RoutePolicy("person", tenancy="tenant", dry_run=True, work=Work.CPU_INTENSIVE)


def _iam_change(event: AuditEvent) -> RoutePolicy:
    return RoutePolicy("person", tenancy="tenant", roles=AUTHORS, audit_event=event, work=Work.CPU_INTENSIVE)


def _key_change(event: AuditEvent) -> RoutePolicy:
    return RoutePolicy("person", tenancy="tenant", audit_event=event, quick=True)


def _binding(permission: Permission, event: AuditEvent | None = None) -> RoutePolicy:
    """Return the policy of a binding route, for people and API keys.

    Reads need the scope for writing, because clients read back their changes. A change is CPU-intensive, because it
    compares the rights of binding and author.
    """
    return RoutePolicy(
        "person_or_key",
        tenancy="tenant",
        roles=None if event is None else AUTHORS,
        scope="organizations:write",
        permission=permission,
        audit_event=event,
        work=Work.READ if event is None else Work.CPU_INTENSIVE,
    )


def _resource(action: str, event: AuditEvent | None = None) -> RoutePolicy:
    return RoutePolicy(
        "principal",
        tenancy="tenant",
        audit_event=event,
        resource_action=action,
        enforced_for_users=True,
        quick=event is not None,
    )


def _default_tags(
    permission: Permission,
    event: AuditEvent | None = None,
    *,
    dry_run: bool = False,
    forbidden_message: str | None = None,
) -> RoutePolicy:
    """Return a policy for default tags: members read, owners and admins change."""
    reads = permission is Permission.ORGANIZATIONS_DEFAULT_TAGS_READ
    return RoutePolicy(
        "principal",
        tenancy="tenant",
        roles=None if reads else MANAGERS,
        scope=f"organizations:{'read' if reads else 'write'}",
        permission=permission,
        audit_event=event,
        dry_run=dry_run,
        work=Work.CPU_INTENSIVE if dry_run else Work.READ,
        forbidden_message=forbidden_message,
    )


def _quota_list(permission: Permission) -> RoutePolicy:
    """Return the policy of a list of quotas: no scope, but policies may deny it."""
    return RoutePolicy("principal", tenancy="tenant", permission=permission)


def _interactive(permission: Permission, scope: str) -> RoutePolicy:
    return RoutePolicy(
        "principal",
        tenancy="tenant",
        scope=scope,
        permission=permission,
        audit_event=AuditEvent.INTERACTIVE_OPEN,
        enforced_for_users=True,
    )


# Services that enforce the platform's decisions use an API key.
AUTHZEN = RoutePolicy("key", scope="decisions:evaluate", permission=Permission.IAM_POLICIES_SIMULATE, dry_run=True)
AUTHZEN_SEARCH = replace(AUTHZEN, work=Work.CPU_INTENSIVE)

ROUTE_POLICIES: dict[tuple[str, str], RoutePolicy] = {
    ("GET", "/healthz"): RoutePolicy("anyone", work=Work.HEALTH),
    ("GET", "/readyz"): RoutePolicy("anyone", work=Work.HEALTH),
    ("GET", "/metrics"): RoutePolicy("operator", local=True),
    ("GET", "/api/openapi.json"): RoutePolicy("anyone"),
    ("GET", "/api/v1/auth/cli-config"): RoutePolicy("anyone"),
    ("GET", "/api/v1/me"): RoutePolicy("principal"),
    ("GET", "/api/v1/organizations"): RoutePolicy(
        "principal", scope="organizations:read", permission=Permission.ORGANIZATIONS_ORGANIZATIONS_LIST
    ),
    ("GET", ORGANIZATION_TENANTS): RoutePolicy(
        "principal",
        tenancy="organization",
        scope="organizations:read",
        permission=Permission.ORGANIZATIONS_TENANTS_LIST,
    ),
    ("POST", ORGANIZATION_TENANTS): RoutePolicy(
        "principal",
        tenancy="organization",
        roles=MANAGERS,
        scope="organizations:write",
        permission=Permission.ORGANIZATIONS_TENANTS_CREATE,
        audit_event=AuditEvent.TENANT_CREATE,
    ),
    ("GET", TENANTS): RoutePolicy(
        "principal", scope="organizations:read", permission=Permission.ORGANIZATIONS_TENANTS_LIST
    ),
    ("GET", TENANT): RoutePolicy(
        "principal", tenancy="tenant", scope="organizations:read", permission=Permission.ORGANIZATIONS_TENANTS_READ
    ),
    ("PATCH", TENANT): RoutePolicy(
        "principal",
        tenancy="tenant",
        roles=MANAGERS,
        scope="organizations:write",
        permission=Permission.ORGANIZATIONS_TENANTS_UPDATE,
        audit_event=AuditEvent.TENANT_RENAME,
        quick=True,
    ),
    ("GET", DEFAULT_TAGS): replace(_default_tags(Permission.ORGANIZATIONS_DEFAULT_TAGS_READ), quick=True),
    ("PUT", DEFAULT_TAGS): replace(
        _default_tags(Permission.ORGANIZATIONS_DEFAULT_TAGS_UPDATE, AuditEvent.DEFAULT_TAGS_UPDATE), quick=True
    ),
    ("GET", f"{DEFAULT_TAGS}/history"): _default_tags(Permission.ORGANIZATIONS_DEFAULT_TAGS_READ),
    ("POST", f"{DEFAULT_TAGS}/apply"): _default_tags(
        Permission.ORGANIZATIONS_DEFAULT_TAGS_APPLY,
        AuditEvent.DEFAULT_TAGS_APPLY,
        forbidden_message=APPLY_FORBIDDEN_MESSAGE,
    ),
    ("POST", f"{DEFAULT_TAGS}/preview"): _default_tags(Permission.ORGANIZATIONS_DEFAULT_TAGS_APPLY, dry_run=True),
    ("GET", f"{DEFAULT_TAGS}/runs"): _default_tags(Permission.ORGANIZATIONS_DEFAULT_TAGS_READ),
    ("POST", DEFAULT_TAGS + "/runs/{run_id}/undo"): _default_tags(
        Permission.ORGANIZATIONS_DEFAULT_TAGS_APPLY, AuditEvent.DEFAULT_TAGS_UNDO
    ),
    ("GET", OPERATIONS): RoutePolicy("principal", tenancy="tenant"),
    ("GET", OPERATIONS + "/{operation_id}"): RoutePolicy("principal", tenancy="tenant"),
    ("GET", f"{TENANT}/events"): RoutePolicy("principal", tenancy="tenant", work=Work.EVENT_STREAM),
    # Keys and workloads do not see activities.
    ("GET", f"{TENANT}/activity"): RoutePolicy("person", tenancy="tenant", roles=MANAGERS),
    ("GET", f"{ORGANIZATION}/activity"): RoutePolicy("person", tenancy="organization", roles=MANAGERS),
    ("GET", "/api/v1/scopes"): RoutePolicy("principal"),
    ("GET", "/api/v1/iam/catalogue"): RoutePolicy("principal"),
    ("GET", "/api/v1/me/api-keys"): RoutePolicy("person"),
    ("GET", f"{TENANT}/scopes"): TENANT_READ,
    ("GET", API_KEYS): TENANT_READ,
    ("POST", API_KEYS): _key_change(AuditEvent.API_KEY_CREATE),
    # A key may read only its own entry (the route checks the id).
    ("GET", API_KEY): RoutePolicy("principal", tenancy="tenant", quick=True),
    ("PATCH", API_KEY): _key_change(AuditEvent.API_KEY_UPDATE),
    ("POST", f"{API_KEY}/revoke"): _key_change(AuditEvent.API_KEY_REVOKE),
    ("POST", f"{API_KEY}/rotate"): _key_change(AuditEvent.API_KEY_ROTATE),
    ("DELETE", API_KEY): _key_change(AuditEvent.API_KEY_DELETE),
    ("POST", GROUPS): _iam_change(AuditEvent.GROUP_CREATE),
    ("GET", GROUPS): TENANT_READ,
    ("GET", GROUP): TENANT_READ,
    ("PATCH", GROUP): _iam_change(AuditEvent.GROUP_UPDATE),
    ("DELETE", GROUP): _iam_change(AuditEvent.GROUP_DELETE),
    ("POST", f"{GROUP}/members"): _iam_change(AuditEvent.GROUP_MEMBER_ADD),
    ("GET", f"{GROUP}/members"): TENANT_READ,
    ("DELETE", f"{GROUP}/members"): _iam_change(AuditEvent.GROUP_MEMBER_REMOVE),
    ("POST", POLICIES): _iam_change(AuditEvent.POLICY_CREATE),
    ("GET", POLICIES): TENANT_READ,
    ("GET", POLICY): replace(TENANT_READ, quick=True),
    ("PATCH", POLICY): _iam_change(AuditEvent.POLICY_UPDATE),
    ("DELETE", POLICY): _iam_change(AuditEvent.POLICY_DELETE),
    ("GET", f"{POLICY}/versions"): TENANT_READ,
    ("GET", POLICY + "/versions/{version}"): TENANT_READ,
    ("POST", f"{POLICY}/rollback"): _iam_change(AuditEvent.POLICY_ROLLBACK),
    ("POST", ATTACHMENTS): _iam_change(AuditEvent.POLICY_ATTACH),
    ("GET", ATTACHMENTS): TENANT_READ,
    ("DELETE", ATTACHMENTS): _iam_change(AuditEvent.POLICY_DETACH),
    ("POST", f"{IAM}/simulate"): TENANT_DRY_RUN,
    ("POST", f"{IAM}/coverage"): TENANT_DRY_RUN,
    ("POST", f"{IAM}/check"): TENANT_DRY_RUN,
    ("GET", f"{IAM}/access"): TENANT_READ,
    ("POST", f"{IAM}/who"): TENANT_DRY_RUN,
    ("POST", f"{IAM}/preview"): TENANT_DRY_RUN,
    ("POST", BINDINGS): _binding(Permission.IAM_WORKLOAD_IDENTITIES_CREATE, AuditEvent.WORKLOAD_IDENTITY_CREATE),
    ("GET", BINDINGS): _binding(Permission.IAM_WORKLOAD_IDENTITIES_LIST),
    ("GET", BINDING): _binding(Permission.IAM_WORKLOAD_IDENTITIES_READ),
    ("PUT", BINDING): _binding(Permission.IAM_WORKLOAD_IDENTITIES_UPDATE, AuditEvent.WORKLOAD_IDENTITY_UPDATE),
    ("DELETE", BINDING): _binding(Permission.IAM_WORKLOAD_IDENTITIES_DELETE, AuditEvent.WORKLOAD_IDENTITY_DELETE),
    ("PUT", CLUSTER_ISSUER): RoutePolicy(
        "person", tenancy="tenant", roles=MANAGERS, audit_event=AuditEvent.WORKLOAD_IDENTITY_ISSUER_SET
    ),
    ("GET", CLUSTER_ISSUER): TENANT_READ,
    ("DELETE", CLUSTER_ISSUER): RoutePolicy(
        "person", tenancy="tenant", roles=MANAGERS, audit_event=AuditEvent.WORKLOAD_IDENTITY_ISSUER_REMOVE
    ),
    ("POST", "/api/v1/auth/workload-token"): RoutePolicy("anyone", audit_event=AuditEvent.WORKLOAD_IDENTITY_EXCHANGE),
    ("GET", RESOURCES): _resource("list"),
    ("POST", RESOURCES): _resource("create", AuditEvent.RESOURCE_CREATE),
    ("GET", RESOURCE): replace(_resource("read"), quick=True),
    ("PATCH", RESOURCE): _resource("update", AuditEvent.RESOURCE_UPDATE),
    ("DELETE", RESOURCE): _resource("delete", AuditEvent.RESOURCE_DELETE),
    ("POST", f"{RESOURCE}/start"): _resource("start", AuditEvent.RESOURCE_START),
    ("POST", f"{RESOURCE}/stop"): _resource("stop", AuditEvent.RESOURCE_STOP),
    ("POST", f"{RESOURCE}/restart"): _resource("restart", AuditEvent.RESOURCE_RESTART),
    ("GET", "/.well-known/authzen-configuration"): RoutePolicy("anyone"),
    ("POST", "/access/v1/evaluation"): AUTHZEN,
    ("POST", "/access/v1/evaluations"): AUTHZEN,
    ("POST", "/access/v1/search/subject"): AUTHZEN_SEARCH,
    ("POST", "/access/v1/search/resource"): AUTHZEN_SEARCH,
    ("POST", "/access/v1/search/action"): AUTHZEN_SEARCH,
    # Interactive scopes do not include other scopes.
    ("POST", f"{INTERACTIVE}/port-forwards"): _interactive(Permission.SESSIONS_PORT_FORWARDS_OPEN, "sessions:forward"),
    ("POST", f"{INTERACTIVE}/database-consoles"): _interactive(
        Permission.SESSIONS_DATABASE_CONSOLES_OPEN, "sessions:forward"
    ),
    ("POST", f"{INTERACTIVE}/shells"): _interactive(Permission.SESSIONS_SHELLS_OPEN, "sessions:pty"),
    ("POST", f"{INTERACTIVE}/cluster-proxies"): _interactive(
        Permission.SESSIONS_CLUSTER_PROXIES_OPEN, "sessions:write"
    ),
    # Only people see the quotas of the organization.
    ("GET", f"{TENANT}/quotas-report"): _quota_list(Permission.QUOTAS_LIMITS_LIST),
    ("GET", QUOTAS): _quota_list(Permission.QUOTAS_LIMITS_LIST),
    ("GET", f"{QUOTAS}/usage"): _quota_list(Permission.QUOTAS_LIMITS_LIST),
    ("GET", f"{ORGANIZATION}/quotas-report"): RoutePolicy("person", tenancy="organization"),
    ("GET", TENANT_QUOTA_REQUESTS): _quota_list(Permission.QUOTAS_REQUESTS_LIST),
    ("POST", TENANT_QUOTA_REQUESTS): RoutePolicy(
        "principal",
        tenancy="tenant",
        roles=MANAGERS,
        scope="quotas:write",
        permission=Permission.QUOTAS_REQUESTS_CREATE,
        audit_event=AuditEvent.QUOTA_REQUEST_CREATE,
    ),
    ("GET", ORGANIZATION_QUOTA_REQUESTS): RoutePolicy("person", tenancy="organization"),
    ("POST", ORGANIZATION_QUOTA_REQUESTS): RoutePolicy(
        "person", tenancy="organization", roles=MANAGERS, audit_event=AuditEvent.QUOTA_REQUEST_CREATE_ORGANIZATION
    ),
    ("GET", PLATFORM_QUOTA_REQUESTS): RoutePolicy("operator", local=True),
    ("POST", PLATFORM_QUOTA_REQUESTS + "/{request_id}/review"): RoutePolicy(
        "operator", audit_event=AuditEvent.QUOTA_REQUEST_REVIEW, local=True
    ),
    ("DELETE", "/api/v1/me"): RoutePolicy("person", audit_event=AuditEvent.ACCOUNT_DELETE),
    ("GET", "/api/v1/sessions"): RoutePolicy("person"),
    ("POST", "/api/v1/sessions/revoke-all"): RoutePolicy("person", audit_event=AuditEvent.SESSION_REVOKE_ALL),
    ("POST", "/api/v1/platform/accounts/restore"): RoutePolicy(
        "operator", audit_event=AuditEvent.ACCOUNT_RESTORE, local=True
    ),
    ("GET", "/api/v1/platform/status"): RoutePolicy("operator", local=True),
    ("GET", "/api/v1/platform/operations"): RoutePolicy("operator", local=True),
    ("POST", "/api/v1/platform/operations/{operation_id}/cancel"): RoutePolicy(
        "operator", audit_event=AuditEvent.OPERATION_CANCEL, local=True
    ),
    ("GET", "/api/v1/platform/audit/verify"): RoutePolicy("operator", local=True),
    ("GET", "/api/v1/platform/audit/export"): RoutePolicy("operator", local=True),
    ("POST", "/api/v1/platform/audit/drop"): RoutePolicy("operator", audit_event=AuditEvent.AUDIT_DROP, local=True),
    ("POST", "/api/v1/platform/audit/verify-segment"): RoutePolicy("operator", dry_run=True, local=True),
    ("POST", "/api/v1/platform/stop"): RoutePolicy("operator", audit_event=AuditEvent.PLATFORM_STOP, local=True),
    ("POST", "/api/v1/sessions/current/end"): RoutePolicy("person", audit_event=AuditEvent.SESSION_END),
    ("GET", "/issuer/.well-known/openid-configuration"): RoutePolicy("anyone", local=True),
    ("GET", "/issuer/jwks"): RoutePolicy("anyone", local=True),
    ("POST", "/issuer/device_authorization"): RoutePolicy("anyone", local=True),
    ("POST", "/issuer/device/approve"): RoutePolicy("operator", audit_event=AuditEvent.DEVICE_APPROVE, local=True),
    ("GET", "/issuer/authorize"): RoutePolicy("operator", local=True),
    ("POST", "/issuer/token"): RoutePolicy("anyone", local=True),
    ("POST", "/issuer/revoke"): RoutePolicy("anyone", local=True),
}

READS = frozenset({"GET"})
ROUTE_POLICIES |= {
    (method, path): replace(policy, work=Work.SIGN_IN if policy.who == "anyone" else Work.WRITE)
    for (method, path), policy in ROUTE_POLICIES.items()
    if method not in READS and not policy.dry_run and policy.work is Work.READ
}

# Paths for older clients, which act on the tenant of the credential.
HOME_PATHS: dict[str, str] = {
    path.replace("/tenants/{tenant_id}", ""): path
    for path in (API_KEYS, API_KEY, POLICIES, POLICY, ATTACHMENTS, BINDINGS, BINDING)
}
ROUTE_POLICIES |= {
    (method, home_path): replace(policy, home=True)
    for home_path, tenant_path in HOME_PATHS.items()
    for (method, path), policy in ROUTE_POLICIES.items()
    if path == tenant_path
}
