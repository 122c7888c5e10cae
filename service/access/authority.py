"""May they: the one place that turns stored facts into a permission. design: Service; checklist N05, N06, N10, N11

`RULES` has a line for every route; a route without one stops the platform at start. What a decision looks at is the
credential, the ids in the path and the database. Nothing from a body or a query reaches it (hostile A20).
"""

import re
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, and_, or_, select
from starlette.requests import Request

from service import errors
from service.access.caller import Caller
from service.db.tables import membership_tenants, memberships, tenants
from service.world.catalogue import enforced_scopes
from service.world.roles import roles

MANAGERS = frozenset({"owner", "admin"})
AUTHORS = frozenset(role.name for role in roles().values() if role.authors_policies)


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may call one route.

    `who`: anyone; a caller with any good credential; a person (an interactive session, never a machine); staff (the
    owner of the unix socket). `scope`: the key scope an API key needs, None when any enforced scope will do.
    `roles`: the roles one of which is needed in the organization, None for any membership. `scope_of`: whether the
    path names a tenant or an organization that the caller must be entitled to. `operation`: the name of the change in
    the audit log, None for reads. `local`: the route exists only on the unix socket. `action`: the operation of the
    catalogue that an API key's creator and policies must allow too. `tries`: a POST that changes nothing.
    """

    who: Literal["anyone", "caller", "person", "staff"]
    scope: str | None = None
    roles: frozenset[str] | None = None
    scope_of: Literal["tenant", "organization"] | None = None
    operation: str | None = None
    local: bool = False
    action: str | None = None
    tries: bool = False


IAM = "/api/v1/tenants/{tenant_id}/iam"
BINDINGS = "/api/v1/tenants/{tenant_id}/workload-identity/bindings"
KEYS = "/api/v1/tenants/{tenant_id}/api-keys"
# Access is managed by people only, never with a key or a token of a machine. contract: Authentication
LOOK = Rule("person", scope_of="tenant")
TRY = Rule("person", scope_of="tenant", tries=True)


def _changes(operation: str) -> Rule:
    return Rule("person", roles=AUTHORS, scope_of="tenant", operation=operation)


def _owns(operation: str) -> Rule:
    return Rule("person", scope_of="tenant", operation=operation)


RULES: dict[tuple[str, str], Rule] = {
    ("GET", "/healthz"): Rule("anyone"),
    ("GET", "/readyz"): Rule("anyone"),
    ("GET", "/api/openapi.json"): Rule("anyone"),
    ("GET", "/api/v1/auth/cli-config"): Rule("anyone"),
    ("GET", "/api/v1/me"): Rule("caller"),
    ("GET", "/api/v1/organizations"): Rule(
        "caller", scope="organizations:read", action="organizations:organizations:list"
    ),
    ("GET", "/api/v1/organizations/{organization_id}/tenants"): Rule(
        "caller", scope="organizations:read", scope_of="organization", action="organizations:tenants:list"
    ),
    ("POST", "/api/v1/organizations/{organization_id}/tenants"): Rule(
        "caller",
        scope="organizations:write",
        roles=MANAGERS,
        scope_of="organization",
        operation="tenant.create",
        action="organizations:tenants:create",
    ),
    ("GET", "/api/v1/tenants"): Rule("caller", scope="organizations:read", action="organizations:tenants:list"),
    ("GET", "/api/v1/tenants/{tenant_id}"): Rule(
        "caller", scope="organizations:read", scope_of="tenant", action="organizations:tenants:read"
    ),
    ("PATCH", "/api/v1/tenants/{tenant_id}"): Rule(
        "caller",
        scope="organizations:write",
        roles=MANAGERS,
        scope_of="tenant",
        operation="tenant.rename",
        action="organizations:tenants:update",
    ),
    ("GET", "/api/v1/tenants/{tenant_id}/operations"): Rule("caller", scope_of="tenant"),
    ("GET", "/api/v1/tenants/{tenant_id}/operations/{operation_id}"): Rule("caller", scope_of="tenant"),
    ("GET", "/api/v1/tenants/{tenant_id}/events"): Rule("caller", scope_of="tenant"),
    ("GET", "/api/v1/scopes"): Rule("caller"),
    ("GET", "/api/v1/iam/catalogue"): Rule("caller"),
    ("GET", "/api/v1/me/api-keys"): Rule("person"),
    ("GET", "/api/v1/tenants/{tenant_id}/scopes"): LOOK,
    ("GET", KEYS): LOOK,
    ("POST", KEYS): _owns("api_key.create"),
    # A key may read itself, which its route sees to; keys are made and ended by people only (hostile A10).
    ("GET", f"{KEYS}/{{key_id}}"): Rule("caller", scope_of="tenant"),
    ("PATCH", f"{KEYS}/{{key_id}}"): _owns("api_key.update"),
    ("POST", f"{KEYS}/{{key_id}}/revoke"): _owns("api_key.revoke"),
    ("POST", f"{KEYS}/{{key_id}}/rotate"): _owns("api_key.rotate"),
    ("DELETE", f"{KEYS}/{{key_id}}"): _owns("api_key.delete"),
    ("POST", f"{IAM}/groups"): _changes("group.create"),
    ("GET", f"{IAM}/groups"): LOOK,
    ("GET", f"{IAM}/groups/{{group_id}}"): LOOK,
    ("PATCH", f"{IAM}/groups/{{group_id}}"): _changes("group.update"),
    ("DELETE", f"{IAM}/groups/{{group_id}}"): _changes("group.delete"),
    ("POST", f"{IAM}/groups/{{group_id}}/members"): _changes("group.member.add"),
    ("GET", f"{IAM}/groups/{{group_id}}/members"): LOOK,
    ("DELETE", f"{IAM}/groups/{{group_id}}/members"): _changes("group.member.remove"),
    ("POST", f"{IAM}/policies"): _changes("policy.create"),
    ("GET", f"{IAM}/policies"): LOOK,
    ("GET", f"{IAM}/policies/{{policy_id}}"): LOOK,
    ("PATCH", f"{IAM}/policies/{{policy_id}}"): _changes("policy.update"),
    ("DELETE", f"{IAM}/policies/{{policy_id}}"): _changes("policy.delete"),
    ("GET", f"{IAM}/policies/{{policy_id}}/versions"): LOOK,
    ("GET", f"{IAM}/policies/{{policy_id}}/versions/{{version}}"): LOOK,
    ("POST", f"{IAM}/policies/{{policy_id}}/rollback"): _changes("policy.rollback"),
    ("POST", f"{IAM}/policies/{{policy_id}}/attachments"): _changes("policy.attach"),
    ("GET", f"{IAM}/policies/{{policy_id}}/attachments"): LOOK,
    ("DELETE", f"{IAM}/policies/{{policy_id}}/attachments"): _changes("policy.detach"),
    ("POST", f"{IAM}/simulate"): TRY,
    ("POST", f"{IAM}/coverage"): TRY,
    ("POST", f"{IAM}/check"): TRY,
    ("GET", f"{IAM}/access"): LOOK,
    ("POST", f"{IAM}/who"): TRY,
    ("POST", f"{IAM}/preview"): TRY,
    ("POST", BINDINGS): _changes("workload_identity.create"),
    ("GET", BINDINGS): LOOK,
    ("GET", f"{BINDINGS}/{{binding_id}}"): LOOK,
    ("PUT", f"{BINDINGS}/{{binding_id}}"): _changes("workload_identity.update"),
    ("DELETE", f"{BINDINGS}/{{binding_id}}"): _changes("workload_identity.delete"),
    ("GET", "/api/v1/platform/status"): Rule("staff", local=True),
    ("GET", "/api/v1/platform/operations"): Rule("staff", local=True),
    ("POST", "/api/v1/platform/stop"): Rule("staff", operation="platform.stop", local=True),
    ("POST", "/api/v1/sessions/current/end"): Rule("person", operation="session.end"),
    ("GET", "/issuer/.well-known/openid-configuration"): Rule("anyone", local=True),
    ("GET", "/issuer/jwks"): Rule("anyone", local=True),
    ("POST", "/issuer/device_authorization"): Rule("anyone", local=True),
    ("POST", "/issuer/device/approve"): Rule("staff", local=True, operation="device.approve"),
    ("GET", "/issuer/authorize"): Rule("staff", local=True),
    ("POST", "/issuer/token"): Rule("anyone", local=True),
    ("POST", "/issuer/revoke"): Rule("anyone", local=True),
}


@dataclass(frozen=True, slots=True)
class Access:
    """What `authorize` found out for a route: the caller, and the seat in the tenant or organization of the path.

    Ids are canonical (lower-case, hyphenated), whatever the path said. `role` is the caller's in that organization.
    """

    caller: Caller
    organization_id: str | None = None
    tenant_id: str | None = None
    role: str | None = None


async def authorize(request: Request) -> Access:
    """The dependency that hands a route what its guard has decided before the body was read."""
    access: Access = request.scope["frost.access"]
    return access


def decide(rule: Rule, caller: Caller, connection: Connection, path: dict[str, Any]) -> Access:
    """Apply a rule to a caller whose credential is good.

    Raises:
        Refusal: 400 for an id that is none, 403 for everything that is not theirs.
    """
    if rule.who == "person" and caller.kind != "session":
        raise errors.session_required()
    if caller.kind == "api_key":
        require_scope(caller, rule.scope)
    if rule.scope_of == "tenant":
        return _in_tenant(rule, caller, connection, canonical_id(path["tenant_id"], "tenant"))
    if rule.scope_of == "organization":
        return _in_organization(rule, caller, connection, canonical_id(path["organization_id"], "organization"))
    return Access(caller)


def entitled(caller: Caller) -> ColumnElement[bool]:
    """The tenants a caller may enter, over `tenants` joined with `memberships` of the caller's person.

    A limited membership counts only for its named tenants; a key enters its one tenant, and only while
    its creator may.
    """
    named = (
        select(membership_tenants.c.tenant_id)
        .where(membership_tenants.c.user_id == memberships.c.user_id, membership_tenants.c.tenant_id == tenants.c.id)
        .exists()
    )
    condition = and_(memberships.c.user_id == caller.user_id, or_(memberships.c.limited.is_(False), named))
    return and_(condition, tenants.c.id == caller.tenant_id) if caller.tenant_id else condition


def _in_tenant(rule: Rule, caller: Caller, connection: Connection, tenant_id: str) -> Access:
    seat = connection.execute(
        select(tenants.c.organization_id, memberships.c.role)
        .join(memberships, memberships.c.organization_id == tenants.c.organization_id)
        .where(tenants.c.id == tenant_id, entitled(caller))
    ).one_or_none()
    if seat is None:
        raise errors.tenant_access_denied()
    if rule.roles is not None and seat.role not in rule.roles:
        raise errors.permission_denied("tenant")
    return Access(caller, seat.organization_id, tenant_id, seat.role)


def _in_organization(rule: Rule, caller: Caller, connection: Connection, organization_id: str) -> Access:
    membership = select(memberships.c.role).where(
        memberships.c.organization_id == organization_id, memberships.c.user_id == caller.user_id
    )
    if caller.tenant_id:
        # A key reaches the organization only through its one tenant, and only while its creator may enter that.
        membership = membership.join(tenants, tenants.c.organization_id == memberships.c.organization_id).where(
            entitled(caller)
        )
    role = connection.scalar(membership)
    if role is None or (rule.roles is not None and role not in rule.roles):
        raise errors.permission_denied("organization")
    return Access(caller, organization_id, None, role)


def require_scope(caller: Caller, needed: str | None) -> None:
    """Refuse a key that lacks the scope; `svc:*` covers every verb of `svc`, `write` does not cover `read`.

    Scopes that no service asks for give nothing: a key with only such is denied everywhere (checklist K12).
    """
    enforced = enforced_scopes().keys() & set(caller.scopes)
    if not enforced:
        raise errors.insufficient_scope(None)
    if needed is not None and needed not in enforced and f"{needed.partition(':')[0]}:*" not in enforced:
        raise errors.insufficient_scope(needed)


_UUID = re.compile(
    r"(?:urn:uuid:)?(\{)?([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})(?(1)\})",
    re.IGNORECASE | re.ASCII,
)


def canonical_id(text: str, what: str) -> str:
    """Lower-case and hyphenated; upper case, braces, `urn:uuid:` and missing hyphens are read (contract: ids).

    Raises:
        Refusal: 400 INVALID_INPUT, "invalid tenant ID".
    """
    match = _UUID.fullmatch(text)
    if match is None:
        raise errors.invalid_input(f"invalid {what} ID")
    return "-".join(match.groups()[1:]).lower()
