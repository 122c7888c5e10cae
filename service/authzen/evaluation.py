"""AuthZEN evaluations, decided as for the platform's routes."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import Connection

from client.policy.matching import STAR
from client.policy.model import RequestContext
from service.api.enforcement import decide_for_machine_principal
from service.authz.decisions import CompiledGrants
from service.authz.entitlements import NotLoaded
from service.authz.grant_caches import SubjectGrants, TenantSnapshot, domains_of
from service.authzen import decision_requests, queries
from service.authzen.decision_requests import CREATE, TENANCY_TYPES, DecisionRequest
from service.authzen.queries import ResourceName, StoredResource, read_kept, read_state
from service.authzen.request_bodies import EvaluationRequest, EvaluationsRequest, Semantic
from service.catalogue.operations import covers, has_enforced_scope
from service.catalogue.resource_types import kinds
from service.context import Platform
from service.db.prepared import Reader
from service.principals.grants import PrincipalGrants, organization_id_of

MAX_ID_LENGTH = 2_048
EVALUATIONS_PER_REQUEST = 10
REQUESTS_PER_SEARCH = 5
MAX_SHORT_EVALUATIONS = 50
MAX_SHORT_COMPARISONS = 2_000
"""Rules that the evaluations of a request on the event loop may compare, in at most some milliseconds."""
PERMITTED = {"decision": True}
# All denials are equal, to conceal which objects exist.
DENIED = {"decision": False, "context": {"reason": "not permitted"}}


class EvaluationContext:
    """The subjects and resources of a request in the snapshot of a connection.

    Args:
        resources: types and ids of resources, read in one statement with the revisions of the cached subjects.
        load: read uncached data; if false, raise `NotLoaded` instead.
    """

    def __init__(
        self,
        platform: Platform,
        connection: Connection,
        tenant_id: str,
        resources: Iterable[tuple[str, str]] = (),
        *,
        load: bool = True,
    ) -> None:
        self.platform = platform
        self.connection = connection
        self.tenant_id = tenant_id
        self.now = platform.clock.now()
        self._timestamp = self.now.timestamp()
        self._load = load
        self._subjects: dict[tuple[str, str], CompiledGrants] = {}
        self._request_contexts: dict[tuple[str, int], RequestContext] = {}
        names = {(type_, id): resource_name(tenant_id, type_, id) for type_, id in resources}
        self._names = {key: name for key, name in names.items() if name is not None}
        self.tenant, self._resources = self._read(set(self._names.values()))
        self.catalogue = self.tenant.catalogue

    def _read(self, names: set[ResourceName]) -> tuple[TenantSnapshot, Mapping[ResourceName, StoredResource]]:
        """Return the tenant, from the cache under the stored revisions, and resources.

        Raises:
            NotLoaded: the cached tenant is outdated.
        """
        tenant = self.platform.subjects.tenants.get(self.tenant_id)
        if tenant is not None:
            domains = domains_of(self.tenant_id, tenant.organization_id)
            revisions, resources = read_state(self.connection, domains, self.tenant_id, names)
            if revisions == tenant.revisions:
                return tenant, resources
            self.platform.cache_guard.compare(
                dict(zip(domains, revisions, strict=True)), dict(zip(domains, tenant.revisions, strict=True))
            )
        if not self._load:
            raise NotLoaded
        organization_id = organization_id_of(self.connection, self.tenant_id)
        domains = domains_of(self.tenant_id, organization_id)
        revisions, resources = read_state(self.connection, domains, self.tenant_id, names)
        catalogue = self.platform.decisions.catalogue(self.connection)
        tenant = TenantSnapshot(self.tenant_id, organization_id, catalogue, revisions)
        self.platform.subjects.tenants[self.tenant_id] = tenant
        return tenant, resources

    def load_subject(self, type_: str, id: str) -> CompiledGrants | None:
        """Return a subject's compiled grants; None for an unknown type.

        Raises:
            NotLoaded: the subject is not cached.
        """
        grants = self._subjects.get((type_, id))
        if grants is None and queries.is_subject_type(type_):
            grants = self._subjects[type_, id] = self._find_subject(type_, safe_lookup_value(id))
        return grants

    def _find_subject(self, type_: str, name: str) -> CompiledGrants:
        cache, key = self.platform.subjects.subjects, (self.tenant_id, type_, name)
        cached = cache.get(key)
        if cached is not None and cached.is_current(self.tenant.revisions, self.now):
            return cached.grants
        if not self._load:
            raise NotLoaded
        stored, expires_at = queries.load_grants(
            self.connection, self.tenant_id, self.tenant.organization_id, type_, name, self.now
        )
        subject = cache[key] = SubjectGrants(self.compile(stored), expires_at, self.tenant.revisions)
        return subject.grants

    def compile(self, grants: PrincipalGrants) -> CompiledGrants:
        return self.platform.decisions.compiled(self.connection, grants, self.catalogue)

    def request_context(
        self, subject_type: str, context: Mapping[str, Any] | None, properties: Mapping[str, Any] | None = None
    ) -> RequestContext:
        """Return the context of a request of a subject, from members of an evaluation and properties of its action."""
        if properties:
            return decision_requests.parse_request_context(context, properties, self._timestamp, subject_type)
        # Most evaluations of a request have the same context. It exists as long as the request, so its id is unique.
        key = subject_type, id(context)
        parsed = self._request_contexts.get(key)
        if parsed is None:
            parsed = decision_requests.parse_request_context(context, None, self._timestamp, subject_type)
            self._request_contexts[key] = parsed
        return parsed

    def resolve_request(
        self,
        action: str,
        resource_type: str,
        resource_id: str,
        properties: Mapping[str, Any] | None,
        request_context: RequestContext,
    ) -> DecisionRequest | None:
        """Return the request to decide; None if the action or resource does not exist."""
        operation = decision_requests.find_operation(action, resource_type, self.catalogue)
        if operation is None:
            return None
        if resource_type in TENANCY_TYPES:
            tenancy_id = self.tenant_id if resource_type == "tenant" else self.tenant.organization_id
            if resource_id != tenancy_id:
                return None
            return decision_requests.request_on_tenancy(operation, self.tenant_id, request_context)
        if operation == kinds()[resource_type].operation(CREATE):
            is_new = resource_id == STAR
            return (
                decision_requests.request_to_create(operation, properties, self.tenant_id, request_context)
                if is_new
                else None
            )
        row = self._resources.get(self._names[resource_type, resource_id])
        return (
            None
            if row is None
            else decision_requests.request_on_resource(operation, row, self.tenant_id, request_context)
        )

    def decide(self, evaluation: EvaluationRequest) -> bool:
        type_ = evaluation.subject_type
        grants = self.load_subject(type_, evaluation.subject_id)
        request = self.resolve_request(
            evaluation.action,
            evaluation.resource_type,
            evaluation.resource_id,
            evaluation.properties,
            self.request_context(type_, evaluation.context, evaluation.action_properties),
        )
        return grants is not None and request is not None and is_allowed(grants, request)


def resource_name(tenant_id: str, type_: str, id: str) -> ResourceName | None:
    """Return the name of a resource to look up; None for an unknown type."""
    kind = kinds().get(type_)
    if kind is None:
        return None
    return type_, safe_lookup_value(decision_requests.parse_resource_id(id, kind, tenant_id))


def keep_stored_state(
    platform: Platform, connection: Connection, tenant_id: str, request: EvaluationsRequest, domains: Iterable[str]
) -> None:
    """Read the revisions of domains, and what a decision needs, in one statement, if the tenant is cached."""
    tenant, reader = platform.subjects.tenants.peek(tenant_id), cast(object, connection)
    if tenant is None or not isinstance(reader, Reader):
        return
    names = {
        name
        for each in request.evaluations
        if isinstance(each, EvaluationRequest)
        and (name := resource_name(tenant_id, each.resource_type, each.resource_id)) is not None
    }
    all_domains = sorted({*domains, *domains_of(tenant_id, tenant.organization_id)})
    reader.keep(lambda: read_kept(connection, all_domains, tenant_id, names))


def is_cached(platform: Platform, tenant_id: str, request: EvaluationsRequest) -> bool:
    """Return whether the subjects of a request are cached, with few rules. They may have changed since."""
    now = platform.clock.now()
    names = Counter((each[0], each[1]) for each in request.evaluations if isinstance(each, EvaluationRequest))
    comparisons = 0
    for (type_, id), evaluations in names.items():
        if queries.is_subject_type(type_):
            rules = platform.subjects.rules_of_current(tenant_id, type_, safe_lookup_value(id), now)
            if rules is None:
                return False
            comparisons += rules * evaluations
    return comparisons <= MAX_SHORT_COMPARISONS


def decide_evaluations(
    platform: Platform, connection: Connection, tenant_id: str, request: EvaluationsRequest, *, load: bool = True
) -> dict[str, Any]:
    """Decide evaluations in the snapshot of a connection; return the answer.

    Args:
        load: read subjects that are not cached. Without it, this executes a single statement.

    Raises:
        NotLoaded: a subject is not cached, or not current.
    """
    evaluations = request.evaluations
    resources = [(each.resource_type, each.resource_id) for each in evaluations if isinstance(each, EvaluationRequest)]
    context = EvaluationContext(platform, connection, tenant_id, resources, load=load)
    decisions = (context.decide(each) if isinstance(each, EvaluationRequest) else each for each in evaluations)
    results = apply_semantic(decisions, request.semantic)
    return {"evaluations": results} if request.is_list else results[0]


def is_allowed(grants: CompiledGrants, request: DecisionRequest) -> bool:
    """Return whether a principal may perform a request on the platform."""
    if request.policy is None:
        return grants.decide(request.operation, request.target, request.context).allowed
    if not passes_route_policy(grants.principal, request):
        return False
    decision = (
        None
        if grants.principal.kind == "user"
        else decide_for_machine_principal(grants, request.policy, request.operation, request.context)
    )
    return decision is None or decision.allowed


def passes_route_policy(grants: PrincipalGrants, request: DecisionRequest) -> bool:
    """Check membership, role and scope."""
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


def apply_semantic(decisions: Iterable[bool | str], semantic: Semantic) -> Sequence[dict[str, Any]]:
    """Return decisions or error texts in wire form, up to where the semantic stops."""
    stop = {"deny_on_first_deny": False, "permit_on_first_permit": True}.get(semantic)
    results = []
    for decision in decisions:
        allowed = decision is True
        results.append(decision_wire(decision))
        if allowed is stop:
            break
    return results


def decision_wire(decision: bool | str) -> dict[str, Any]:
    """Return a decision or an error text in wire form."""
    if isinstance(decision, str):
        return {"decision": False, "context": {"error": {"status": 400, "message": decision}}}
    return PERMITTED if decision else DENIED


def safe_lookup_value(name: str) -> str:
    """Return an id to look up; "" for impossible ids (too long, NUL byte)."""
    return name if len(name) <= MAX_ID_LENGTH and "\0" not in name else ""


def requests_for_evaluations(count: int) -> int:
    """Return the number of requests to charge for evaluations."""
    return -(-count // EVALUATIONS_PER_REQUEST)
