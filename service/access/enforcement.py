"""Policies enforced on the platform's own routes: what an API key asks for, put to the decision about it.

The question is made from the rule's operation, the ids the guard has checked and the connection; nothing from a body or
a query reaches it (hostile A20, D04).
"""

from sqlalchemy import Connection
from starlette.requests import Request

from service import errors
from service.access import standing as stored
from service.access.authority import Access, Rule
from service.access.standing import Standing
from service.peer import peer_uid
from service.platform import Platform
from service.policy.facts import Facts, read_address


def enforce(platform: Platform, connection: Connection, rule: Rule, access: Access, request: Request) -> None:
    """Refuse an API key whose creator or policies do not allow the operation of a route.

    Raises:
        Refusal: 403 INSUFFICIENT_PERMISSIONS naming the operation.
    """
    caller = access.caller
    if rule.action is None or caller.kind != "api_key":
        return
    tenant_id = str(caller.tenant_id)
    organization_id = stored.organization_of(connection, tenant_id)
    standing = Standing(
        kind="api_key",
        id=str(caller.key_id),
        tenant_id=tenant_id,
        organization_id=organization_id,
        role=stored.role_in(connection, tenant_id, caller.user_id),
        scopes=caller.scopes,
        policies=stored.policies_of(connection, tenant_id, "api_key", str(caller.key_id)),
    )
    compiled = platform.decisions.compiled(connection, standing)
    decision = compiled.decide(rule.action, target_of(rule.action, standing), facts_of(platform, request, tenant_id))
    if not decision.allowed:
        raise errors.insufficient_permissions(rule.action, decision.part, decision.reason)


def target_of(action: str, standing: Standing) -> str:
    """The name of what a route acts on: the key's own tenant, its organization, or one that does not exist yet."""
    service, kind, verb = action.split(":")
    names = {"tenants": standing.tenant_id, "organizations": standing.organization_id}
    return f"frn:{service}:*:{standing.tenant_id}:{kind}/{'*' if verb == 'create' else names[kind]}"


def facts_of(platform: Platform, request: Request, tenant_id: str) -> Facts:
    """What is known of a request. Tenants have no region and carry no tags; over the socket there is no address."""
    client = request.scope.get("client")
    local = peer_uid(request.scope) is not None
    return Facts(
        source_ip=read_address(client[0]) if client and not local else None,
        current_time=platform.clock.now().timestamp(),
        principal_type="api_key",
        tenant=tenant_id,
        request_tags={},
        resource_tags={},
    )
