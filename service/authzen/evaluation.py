"""Decides AuthZEN evaluations by the rules of the platform's own routes."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from client.policy.matching import STAR
from client.policy.model import RequestContext
from service.api.enforcement import decide_for_machine_principal
from service.authn import rate_limit
from service.authz.decisions import CompiledGrants, covers, has_enforced_scope
from service.authzen import decision_requests, subjects
from service.authzen.decision_requests import CREATE, TENANCY_TYPES, DecisionRequest
from service.authzen.schemas import (
    Action,
    Evaluation,
    Resource,
    Semantic,
    Subject,
)
from service.catalogue.resource_types import kinds
from service.context import Platform
from service.db.engine import Record
from service.db.errors import ignore_if_read_only
from service.principal import Principal
from service.principals.grants import PrincipalGrants, organization_id_of

MAX_ID_LENGTH = 2_048
EVALUATIONS_PER_REQUEST = 10
REQUESTS_PER_SEARCH = 5


class EvaluationContext:
    """Subjects and resources of one request, each read once, in one transaction."""

    def __init__(self, platform: Platform, connection: Connection, tenant_id: str) -> None:
        self.platform = platform
        self.connection = connection
        self.tenant_id = tenant_id
        self.now = platform.clock.now()
        self.catalogue = platform.decisions.catalogue(connection)
        self._subjects: dict[tuple[str, str], CompiledGrants] = {}
        self._resources: dict[tuple[str, str], Record | None] = {}

    def load_subject(self, subject: Subject) -> CompiledGrants | None:
        """Return the compiled grants of a subject; None for an unknown type."""
        if not subjects.is_subject_type(subject.type):
            return None
        name = (subject.type, safe_lookup_value(subject.id))
        if name not in self._subjects:
            subject_grants = subjects.load_grants(self.connection, self.tenant_id, *name, self.now)
            self._subjects[name] = self.compile(subject_grants)
        return self._subjects[name]

    def compile(self, grants: PrincipalGrants) -> CompiledGrants:
        return self.platform.decisions.compiled(self.connection, grants)

    def load_resources(self, resources: Iterable[Resource]) -> None:
        """Load resources with one statement for each kind."""
        missing: dict[str, set[str]] = {}
        for resource in resources:
            if kind := kinds().get(resource.type):
                name = safe_lookup_value(decision_requests.parse_resource_id(resource.id, kind, self.tenant_id))
                if (kind.name, name) not in self._resources:
                    missing.setdefault(kind.name, set()).add(name)
        for kind_name, names in missing.items():
            rows = subjects.find_resources(self.connection, self.tenant_id, kind_name, sorted(names))
            self._resources |= {(kind_name, name): rows.get(name) for name in names}

    def request_context(self, context: dict[str, Any] | None, action: Action | None = None) -> RequestContext:
        """Return what the client says about a request."""
        return decision_requests.parse_request_context(
            context, action.properties if action else None, self.now.timestamp()
        )

    def resolve_request(self, name: str, resource: Resource, request_context: RequestContext) -> DecisionRequest | None:
        """Return the request to decide; None if there is no such action or resource."""
        operation = decision_requests.find_operation(name, resource.type, self.catalogue)
        if resource.type in TENANCY_TYPES:
            tenancy_id = (
                self.tenant_id if resource.type == "tenant" else organization_id_of(self.connection, self.tenant_id)
            )
            if operation is None or resource.id != tenancy_id:
                return None
            return decision_requests.request_on_tenancy(operation, self.tenant_id, request_context)
        self.load_resources([resource])
        kind = kinds().get(resource.type)
        if operation is None or kind is None:
            return None
        if operation == kind.operation(CREATE):
            is_new = resource.id == STAR
            return (
                decision_requests.request_to_create(operation, resource.properties, self.tenant_id, request_context)
                if is_new
                else None
            )
        row = self._resources[
            kind.name, safe_lookup_value(decision_requests.parse_resource_id(resource.id, kind, self.tenant_id))
        ]
        return (
            None
            if row is None
            else decision_requests.request_on_resource(operation, row, self.tenant_id, request_context)
        )

    def decide(self, evaluation: Evaluation) -> bool:
        """Return whether the subject may perform the action on the resource."""
        grants = self.load_subject(evaluation.subject)
        request = self.resolve_request(
            evaluation.action.name, evaluation.resource, self.request_context(evaluation.context, evaluation.action)
        )
        return grants is not None and request is not None and is_allowed(grants, request)


def is_allowed(grants: CompiledGrants, request: DecisionRequest) -> bool:
    """Return whether a principal may perform a request, as if it called the platform itself."""
    context = replace(request.context, principal_type=grants.principal.kind)
    if request.policy is None:
        return grants.decide(request.operation, request.target, context).allowed
    if not passes_route_policy(grants.principal, request):
        return False
    decision = (
        None
        if grants.principal.kind == "user"
        else decide_for_machine_principal(grants, request.policy, request.operation, context)
    )
    return decision is None or decision.allowed


def passes_route_policy(grants: PrincipalGrants, request: DecisionRequest) -> bool:
    """Return whether a principal satisfies a route policy: membership in the tenant, role, and scope."""
    assert request.policy is not None
    roles, scope = request.policy.roles, request.policy.scope
    if grants.kind == "workload_identity":
        if roles is not None or not (grants.scopes or grants.policies):
            return False
    elif grants.role is None or (roles is not None and grants.role not in roles):
        return False
    if grants.scopes is None:
        return True
    return covers(grants.scopes, scope) if scope else has_enforced_scope(grants.scopes)


def apply_semantic(decisions: Iterable[bool | str], semantic: Semantic) -> list[dict[str, Any]]:
    """Return decisions in wire form, up to where the semantic stops; a text is the error of an evaluation."""
    stop = {"deny_on_first_deny": False, "permit_on_first_permit": True}.get(semantic)
    results = []
    for decision in decisions:
        allowed = decision is True
        results.append(decision_wire(decision))
        if allowed is stop:
            break
    return results


def decision_wire(decision: bool | str) -> dict[str, Any]:
    """Return a decision in wire form. All denials are equal, so that they do not reveal what exists."""
    if isinstance(decision, str):
        return {"decision": False, "context": {"error": {"status": 400, "message": decision}}}
    return {"decision": True} if decision else {"decision": False, "context": {"reason": "not permitted"}}


def safe_lookup_value(name: str) -> str:
    """Return an id to look up; "" for values that no id can have (too long, NUL byte)."""
    return name if len(name) <= MAX_ID_LENGTH and "\0" not in name else ""


def requests_for_evaluations(count: int) -> int:
    """Return how many requests of the rate limit a number of evaluations counts as."""
    return -(-count // EVALUATIONS_PER_REQUEST)


def charge_rate_limit(platform: Platform, caller: Principal, requests: int) -> None:
    """Count a request as several; the first was counted when it arrived.

    Raises:
        ApiError: 429 if the key has not enough requests left.
    """
    if requests <= 1:
        return
    wait, key_id = None, str(caller.key_id)
    with ignore_if_read_only("a request of an API key could not be counted"), platform.database.write() as connection:
        wait = rate_limit.consume(connection, key_id, subjects.rate_limit_of_key(connection, key_id), requests - 1)
    if wait is not None:
        raise rate_limit.rate_limited(wait)
