"""Simulates, maps and checks policy documents without storing them."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection

from client.policy.coverage import Coverage, compute_coverage
from client.policy.document import ParsedDocument
from client.policy.engine import Engine, compile_document, granted_rules
from client.policy.explain import (
    RuleTrace,
    classify_changes,
    conditions_by_target,
    differing_operations,
    explain,
    explain_unmatched,
    flag_for,
)
from client.policy.matching import STAR, OperationPattern, Target
from client.policy.model import AccessRequest, RequestContext
from service import errors, validation
from service.api.dependencies import PlatformDep, TenantContextDep
from service.api.protected_route import protected_router
from service.api.responses import or_404
from service.authz.context import TenantContext
from service.authz.decisions import CatalogueSnapshot, role_engine
from service.authz.endpoints import IAM
from service.context import Platform
from service.iam import author_check, policy_queries, representations
from service.iam.policy_documents import Draft, problem, read_document
from service.iam.simulation_requests import (
    NO_FACTS,
    FactsBody,
    facts_of,
    operation_of,
    other_service,
    region_of,
    require_region,
    target_of,
)
from service.json_bodies import JSONResponse

router = protected_router("trials")
MAX_TARGETS = 50


class SimulateRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    document_text: str = Field(alias="documentText", description="The document as text")
    operation: str
    target: str
    facts: FactsBody = NO_FACTS
    as_author: bool = Field(False, alias="asAuthor", description="Limited to the permissions of the principal")


class CompareTo(BaseModel):
    """The other document of a comparison: a text, or a version of a stored policy."""

    model_config = ConfigDict(extra="forbid", strict=True)

    document_text: str | None = Field(None, alias="documentText")
    policy_id: str | None = Field(None, alias="policyId")
    version: int | None = Field(None, ge=1, le=2**31 - 1)


class CoverageRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    document_text: str = Field(alias="documentText")
    targets: list[str] = Field([STAR], min_length=1, max_length=MAX_TARGETS)
    facts: FactsBody = NO_FACTS
    compare: CompareTo | None = None
    operations: bool = Field(False, description="List the effective and conditional operations, not only their numbers")


class CheckRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    document_text: str = Field(alias="documentText")


@router.post(f"{IAM}/simulate", operation_id="simulate")
def simulate(context: TenantContextDep, platform: PlatformDep, body: SimulateRequest) -> JSONResponse:
    """Evaluate a document for one request, and explain the result for each rule.

    An operation applies only to targets of its own service. On other targets the decision is denied, and `because`
    has the reason.
    """
    target = target_of(body.target)
    catalogue, reading = _read(context, platform, body.document_text, body.facts, target)
    operation = operation_of(body.operation, catalogue)
    facts = facts_of(body.facts, platform.clock, tenant=context.tenant_id, region=region_of(target))
    cap = role_engine(context.role) if body.as_author else None
    engine = compile_document(reading.document, cap=cap)
    explained = explain(engine, AccessRequest(operation, str(target), facts))
    because = other_service(operation, target)
    if because is not None:
        explained = explain_unmatched(explained)
    nearest = explained.nearest_rule
    return JSONResponse(
        {
            "decision": "allowed" if explained.allowed else "denied",
            "reason": explained.reason.value,
            "because": because,
            "decidingRule": explained.deciding_rule and _rule_name(explained.deciding_rule),
            "nearestRule": nearest and {**_rule_name(nearest), "failed": explained.failed_part},
            "rules": [_trace(engine, trace) for trace in explained.rules],
            "someTarget": explained.some_target_allowed,
            "missing": [{"key": key, "flag": flag_for(key)} for key in explained.missing_keys],
            "asAuthor": body.as_author,
            "warnings": [problem(warning) for warning in reading.warnings],
        }
    )


@router.post(f"{IAM}/coverage", operation_id="mapCoverage")
def map_coverage(context: TenantContextDep, platform: PlatformDep, body: CoverageRequest) -> JSONResponse:
    """List the operations that a document allows on some targets, optionally compared with another document."""
    catalogue, reading = _read(context, platform, body.document_text, body.facts)
    targets = [target_of(text, "targets") for text in body.targets]
    facts = facts_of(body.facts, platform.clock, tenant=context.tenant_id)
    masks = catalogue.operations.masks
    covered = _coverage_of(catalogue, reading, targets, facts)
    other: ParsedDocument | None = None
    if body.compare is not None:
        other = _read(context, platform, _text_to_compare(context, platform, body.compare))[1]
    moved = _changes(catalogue, other, reading, covered, facts) if other is not None else []
    maps = []
    for index, (text, coverage) in enumerate(zip(body.targets, covered, strict=True)):
        entry = {"target": text, **_counts(coverage, masks.all), "services": _services(catalogue, coverage)}
        if moved:
            entry |= {name: masks.names(mask) for name, mask in moved[index].items()}
        if body.operations:
            entry["operations"] = masks.names(coverage.effective)
            entry["conditionalOperations"] = masks.names(coverage.conditional)
        maps.append(entry)
    return JSONResponse(
        {
            "total": len(masks.operations),
            "targets": maps,
            "warnings": [problem(warning) for warning in reading.warnings],
        }
    )


@router.post(f"{IAM}/check", operation_id="checkDocument")
def check_document(context: TenantContextDep, platform: PlatformDep, body: CheckRequest) -> JSONResponse:
    """Check a document against the rights of the principal, with counterexamples if it exceeds them."""
    _, reading = _read(context, platform, body.document_text)
    with platform.database.read() as connection:
        author = author_check.author_of(connection, platform, context)
    check = author_check.check_document(author, Draft.of(reading.document))
    return JSONResponse(
        {
            "answer": check.answer.value,
            "counterexamples": [
                representations.counterexample(example, reading.document) for example in check.examples
            ],
            "warnings": [problem(warning) for warning in reading.warnings],
        }
    )


def _read(
    context: TenantContext,
    platform: Platform,
    text: str,
    facts: FactsBody = NO_FACTS,
    target: Target | None = None,
) -> tuple[CatalogueSnapshot, ParsedDocument]:
    with platform.database.read() as connection:
        catalogue = platform.decisions.catalogue(connection)
        require_region(connection, context.tenant_id, facts, target)
    return catalogue, read_document(platform, catalogue, text)


def _coverage_of(
    catalogue: CatalogueSnapshot, reading: ParsedDocument, targets: Sequence[Target], facts: RequestContext
) -> list[Coverage]:
    """Return the coverage of a document, limited to operations of the targets' services."""
    masks = catalogue.operations.masks
    return [
        one.within(masks.for_pattern(OperationPattern(one.target.service, STAR, STAR)))
        for one in compute_coverage(masks, granted_rules(reading.document), targets, facts)
    ]


def _changes(
    catalogue: CatalogueSnapshot,
    before: ParsedDocument,
    after: ParsedDocument,
    covered: Sequence[Coverage],
    facts: RequestContext,
) -> list[dict[str, int]]:
    """Return the changes on each target, by kind of change."""
    old = _coverage_of(catalogue, before, [one.target for one in covered], facts)
    both = [(now.target, then.conditional & now.conditional) for then, now in zip(old, covered, strict=True)]
    open_then, open_now = (
        conditions_by_target(catalogue.operations.masks, granted_rules(one.document), both, facts)
        for one in (before, after)
    )
    return [
        classify_changes(then, now, differing_operations(was, becomes))
        for then, now, was, becomes in zip(old, covered, open_then, open_now, strict=True)
    ]


def _text_to_compare(context: TenantContext, platform: Platform, body: CompareTo) -> str:
    if (body.document_text is None) is (body.policy_id is None):
        raise errors.invalid_input("compare takes either documentText or policyId", member="compare")
    if body.document_text is not None:
        return body.document_text
    with platform.database.read() as connection:
        return _stored_text(connection, context.tenant_id, str(body.policy_id), body.version)


def _stored_text(connection: Connection, tenant_id: str, policy_id: str, version: int | None) -> str:
    policy = or_404(policy_queries.get(connection, tenant_id, policy_id) if validation.is_id(policy_id) else None)
    if version is None:
        return str(policy.document)
    return str(or_404(policy_queries.version(connection, tenant_id, policy_id, version)).document)


def _rule_name(trace: RuleTrace) -> dict[str, Any]:
    return {"index": trace.source.index, "name": trace.name}


def _trace(engine: Engine, trace: RuleTrace) -> dict[str, Any]:
    rule = engine.rules[trace.source.index].rule
    return {
        **_rule_name(trace),
        "access": trace.effect,
        "operation": trace.operation.value,
        "target": trace.target.value,
        "constraints": [
            representations.constraint(one) | {"result": part.truth.value}
            for one, part in zip(rule.constraints, trace.constraints, strict=True)
        ],
        "withinAuthor": trace.within_author,
        "result": trace.truth.value,
        "fires": trace.applies,
    }


def _counts(coverage: Coverage, within: int) -> dict[str, int]:
    return {
        "allowed": (coverage.allowed & within).bit_count(),
        "denied": (coverage.denied & within).bit_count(),
        "effective": (coverage.effective & within).bit_count(),
        "conditional": (coverage.conditional & within).bit_count(),
    }


def _services(catalogue: CatalogueSnapshot, coverage: Coverage) -> list[dict[str, Any]]:
    masks = catalogue.operations.masks
    services = dict.fromkeys(name.partition(":")[0] for name in masks.operations)
    within = {service: masks.for_pattern(OperationPattern(service, STAR, STAR)) for service in services}
    return [
        {"service": service, "total": mask.bit_count(), **_counts(coverage, mask)} for service, mask in within.items()
    ]
