"""Decisions about subjects of a tenant, made as the platform makes them about its own callers."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from client.policy.matching import STAR
from client.policy.model import RequestContext
from service.api.enforcement import decide_for_machine_principal
from service.authn import rate_limit
from service.authz.decisions import CompiledGrants, covers
from service.authzen import decision_requests, subjects
from service.authzen.decision_requests import CREATE, TENANCY_TYPES, DecisionRequest
from service.authzen.schemas import (
    Action,
    Evaluation,
    Resource,
    Semantic,
    Subject,
)
from service.catalogue.operations import enforced_scopes
from service.catalogue.resource_types import kinds
from service.context import Platform
from service.db.engine import Record, ignore_if_read_only
from service.principal import Principal
from service.principals.grants import PrincipalGrants, organization_id_of

MAX_ID_LENGTH = 2_048


class EvaluationContext:
    """The decisions of one request: what was read for one is there for the others, on one state of the database."""

    def __init__(self, platform: Platform, connection: Connection, tenant_id: str) -> None:
        self.platform = platform
        self.connection = connection
        self.tenant_id = tenant_id
        self.now = platform.clock.now()
        self.known = platform.decisions.known(connection)
        self._subjects: dict[tuple[str, str], CompiledGrants] = {}
        self._resources: dict[tuple[str, str], Record | None] = {}

    def subject(self, asked: Subject) -> CompiledGrants | None:
        """Who asks, ready to decide; None for a type that nobody has."""
        if not subjects.is_subject_type(asked.type):
            return None
        name = (asked.type, safe_lookup_value(asked.id))
        if name not in self._subjects:
            standing = subjects.load_grants(self.connection, self.tenant_id, *name, self.now)
            self._subjects[name] = self.compiled(standing)
        return self._subjects[name]

    def compiled(self, standing: PrincipalGrants) -> CompiledGrants:
        return self.platform.decisions.compiled(self.connection, standing)

    def look_up(self, asked: Iterable[Resource]) -> None:
        """Read resources in a statement for each kind, however many decisions are about them."""
        wanted: dict[str, set[str]] = {}
        for resource in asked:
            if kind := kinds().get(resource.type):
                name = safe_lookup_value(decision_requests.parse_resource_id(resource.id, kind, self.tenant_id))
                if (kind.name, name) not in self._resources:
                    wanted.setdefault(kind.name, set()).add(name)
        for kind_name, names in wanted.items():
            found = subjects.find_resources(self.connection, self.tenant_id, kind_name, sorted(names))
            self._resources |= {(kind_name, name): found.get(name) for name in names}

    def request(self, context: dict[str, Any] | None, action: Action | None = None) -> RequestContext:
        """What is known of a request from its caller."""
        return decision_requests.parse_request_context(
            context, action.properties if action else None, self.now.timestamp()
        )

    def question(self, name: str, resource: Resource, request: RequestContext) -> DecisionRequest | None:
        """What is asked; None where there is no such action or resource."""
        operation = decision_requests.find_operation(name, resource.type, self.known)
        if resource.type in TENANCY_TYPES:
            place = self.tenant_id if resource.type == "tenant" else organization_id_of(self.connection, self.tenant_id)
            if operation is None or resource.id != place:
                return None
            return decision_requests.request_on_tenancy(operation, self.tenant_id, request)
        self.look_up([resource])
        kind = kinds().get(resource.type)
        if operation is None or kind is None:
            return None
        if operation == kind.operation(CREATE):
            made = resource.id == STAR
            return (
                decision_requests.request_to_create(operation, resource.properties, self.tenant_id, request)
                if made
                else None
            )
        row = self._resources[
            kind.name, safe_lookup_value(decision_requests.parse_resource_id(resource.id, kind, self.tenant_id))
        ]
        return None if row is None else decision_requests.request_on_resource(operation, row, self.tenant_id, request)

    def decide(self, asked: Evaluation) -> bool:
        """Whether a subject may do what is asked."""
        ready = self.subject(asked.subject)
        question = self.question(asked.action.name, asked.resource, self.request(asked.context, asked.action))
        return ready is not None and question is not None and is_allowed(ready, question)


def is_allowed(ready: CompiledGrants, question: DecisionRequest) -> bool:
    """Whether a principal may do something, by the same parts as when it asks for it itself."""
    facts = replace(question.facts, principal_type=ready.standing.kind)
    if question.rule is None:
        return ready.decide(question.operation, question.target, facts).allowed
    if not passes_route_policy(ready.standing, question):
        return False
    said = (
        None
        if ready.standing.kind == "user"
        else decide_for_machine_principal(ready, question.rule, question.operation, facts)
    )
    return said is None or said.allowed


def passes_route_policy(standing: PrincipalGrants, question: DecisionRequest) -> bool:
    """Whether a principal passes what a route of the platform asks before anything is decided: entitlement to the
    tenant, the roles it names, its scope. access/authority.py"""
    assert question.rule is not None
    roles, scope = question.rule.roles, question.rule.scope
    if standing.kind == "workload_identity":
        if roles is not None or not (standing.scopes or standing.policies):
            return False
    elif standing.role is None or (roles is not None and standing.role not in roles):
        return False
    if standing.scopes is None:
        return True
    return covers(standing.scopes, scope) if scope else not enforced_scopes().keys().isdisjoint(standing.scopes)


def apply_semantic(decisions: Iterable[bool | str], semantic: Semantic) -> list[dict[str, Any]]:
    """Decisions as they travel, as far as the semantic goes; a text is the error of an evaluation."""
    stop = {"deny_on_first_deny": False, "permit_on_first_permit": True}.get(semantic)
    shown = []
    for said in decisions:
        allowed = said is True
        shown.append(decision_wire(said))
        if allowed is stop:
            break
    return shown


def decision_wire(said: bool | str) -> dict[str, Any]:
    """A decision. A refusal says the same whatever it comes from: nobody learns from it who and what there is."""
    if isinstance(said, str):
        return {"decision": False, "context": {"error": {"status": 400, "message": said}}}
    return {"decision": True} if said else {"decision": False, "context": {"reason": "not permitted"}}


def safe_lookup_value(name: str) -> str:
    """A name as the database can be asked for it; what cannot be one is looked for all the same, and not found."""
    return name if len(name) <= MAX_ID_LENGTH and "\0" not in name else ""


EVALUATIONS_PER_REQUEST = 10


REQUESTS_PER_SEARCH = 5


def requests_for_evaluations(count: int) -> int:
    """How many requests so many evaluations in one are."""
    return -(-count // EVALUATIONS_PER_REQUEST)


def charge_rate_limit(platform: Platform, caller: Principal, requests: int) -> None:
    """Count a request as so many; the first of them was counted when it came in.

    Raises:
        Refusal: 429 when the key has not so many left.
    """
    if requests <= 1:
        return
    wait, key_id = None, str(caller.key_id)
    with ignore_if_read_only("a request of an API key could not be counted"), platform.database.write() as connection:
        wait = rate_limit.consume(connection, key_id, subjects.rate_limit_of_key(connection, key_id), requests - 1)
    if wait is not None:
        raise rate_limit.rate_limited(wait)
