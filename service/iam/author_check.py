"""Checks that authors grant only rights that they have, and change only principals without further rights.

Compares a document, the rights of a key or identity, or a scope with the author's rights by exact containment. An
undecided check fails. Results are cached, because they depend only on the arguments.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Connection

from client.policy import containment
from client.policy.containment import Answer, CheckResult
from client.policy.document import InvalidDocument
from client.policy.engine import Engine, GrantedRule, granted_rules
from client.policy.matching import ANY_TARGET, OperationPattern, parse_operation_pattern
from client.policy.model import Document, Rule
from client.policy.problems import MAX_EXAMPLES, REMEDIES
from service import errors
from service.api.enforcement import load_grants
from service.authz.context import TenantContext
from service.authz.decisions import DENY_ALL, CatalogueSnapshot, role_document, role_rules
from service.authz.route_policies import AUTHORS
from service.catalogue.operations import covers, roles
from service.catalogue.resource_types import REGIONS
from service.context import Platform
from service.db.engine import Record
from service.errors import ApiError
from service.iam import representations
from service.iam.policy_documents import Draft
from service.lru_cache import LruCache
from service.principals import grants as stored
from service.principals import queries

MAX_CACHED_CHECKS = 512
# A document has at most 256 KiB.
MAX_CACHED_DOCUMENTS = 64
# Large enough for the policies of a group, so that each check runs once. Only digests are stored.
MAX_PASSED = 10_000
MAX_NAMED = 20
NOTHING: frozenset[str] = frozenset()
WITHIN = CheckResult(Answer.WITHIN)
ALLOW_ALL = Document((Rule("", "allow", (parse_operation_pattern("*"),), ("*",), (ANY_TARGET,), ("*",), ()),))


@dataclass(frozen=True, slots=True)
class Author:
    """A principal that manages access in a tenant: a person, or an API key for its creator.

    `role` is the current role of the person or creator. `scopes` and `policies` limit a key further; None is no limit.
    """

    user_id: str
    tenant_id: str
    role: str | None
    catalogue: CatalogueSnapshot
    scopes: tuple[str, ...] | None = None
    policies: Engine | None = None


def author_of(connection: Connection, platform: Platform, context: TenantContext) -> Author:
    """Return the principal of a request as an author.

    Inside `change`, role and grants are those of its transaction.

    Raises:
        ApiError: 403 if the role may not write policies.
    """
    tenant_id, user_id, role = context.tenant_id, str(context.principal.user_id), context.role
    if role is None:
        raise errors.tenant_access_denied()
    if role not in AUTHORS:
        raise errors.permission_denied("tenant")
    if context.principal.kind == "session":
        return Author(user_id, tenant_id, role, context.catalogue or platform.decisions.catalogue(connection))
    key = load_grants(platform, connection, context)
    policies = DENY_ALL if key.unreadable else key.policies
    return Author(user_id, tenant_id, role, key.catalogue, context.principal.scopes, policies)


def check_document(author: Author, draft: Draft) -> CheckResult:
    check = _compare_draft_with_role_once(author, draft)
    if check.answer is not Answer.WITHIN or author.scopes is None:
        return check
    return _compare_with_key(author, author.scopes, read_or_allow_all(draft, author.catalogue))


def _compare_draft_with_role_once(author: Author, draft: Draft) -> CheckResult:
    key = (draft.digest, author.role, author.tenant_id, author.catalogue)
    if _PASSED.get(key):
        return WITHIN
    check = _compare_draft_with_role(draft, author.role, author.tenant_id, author.catalogue)
    if check.answer is Answer.WITHIN:
        _PASSED[key] = True
    return check


# Only positive results are cached, because they need little memory.
_PASSED: LruCache[object, bool] = LruCache(MAX_PASSED)


@lru_cache(maxsize=MAX_CACHED_DOCUMENTS)
def _compare_draft_with_role(
    draft: Draft, role: str | None, tenant_id: str, catalogue: CatalogueSnapshot
) -> CheckResult:
    try:
        document = draft.read(catalogue)
    except InvalidDocument:
        # An invalid stored document grants no rights, but its intended rights are unknown.
        return CheckResult(Answer.UNDECIDED)
    return _compare_with_role(document, role, tenant_id, catalogue)


def read_or_allow_all(draft: Draft, catalogue: CatalogueSnapshot) -> Document:
    """Return the document of a draft; for an invalid stored document, the most it could mean."""
    try:
        return draft.read(catalogue)
    except InvalidDocument:
        return ALLOW_ALL


def _compare_with_role(
    document: Document, role: str | None, tenant_id: str, catalogue: CatalogueSnapshot
) -> CheckResult:
    return _compare(document, role_rules(role), tenant_id, catalogue)


def _compare(
    document: Document, rules: Sequence[GrantedRule], tenant_id: str, catalogue: CatalogueSnapshot
) -> CheckResult:
    return containment.check(document, rules, tenant=tenant_id, catalogue=catalogue.operations.names, regions=REGIONS)


def check_rights(author: Author, document: Document) -> CheckResult:
    check = _compare_rights_with_role(document, author.role, author.tenant_id, author.catalogue)
    if check.answer is not Answer.WITHIN or author.scopes is None:
        return check
    return _compare_with_key(author, author.scopes, document)


def _compare_with_key(author: Author, scopes: tuple[str, ...], document: Document) -> CheckResult:
    check = _compare_with_scopes(document, scopes, author.tenant_id, author.catalogue)
    if check.answer is not Answer.WITHIN or author.policies is None:
        return check
    return _compare_with_policies(document, author.policies, author.tenant_id, author.catalogue)


@lru_cache(maxsize=MAX_CACHED_CHECKS)
def _compare_with_scopes(
    document: Document, scopes: tuple[str, ...], tenant_id: str, catalogue: CatalogueSnapshot
) -> CheckResult:
    rules = granted_rules(_scope_rights(scopes, catalogue), "scopes", "scopes")
    return _compare(document, rules, tenant_id, catalogue)


@lru_cache(maxsize=MAX_CACHED_CHECKS)
def _compare_with_policies(
    document: Document, policies: Engine, tenant_id: str, catalogue: CatalogueSnapshot
) -> CheckResult:
    """Check rights against policies. An allow applies only if its author's role covers the document."""
    covering: dict[Engine | None, bool] = {None: True}
    for cap in {granted.cap for granted in policies.rules if granted.cap is not None}:
        check = _compare(document, cap.rules, tenant_id, catalogue)
        covering[cap] = check.answer is Answer.WITHIN
    rules = [granted for granted in policies.rules if granted.rule.denies or covering[granted.cap]]
    return _compare(document, rules, tenant_id, catalogue)


def require_within(author: Author, draft: Draft, **named: Any) -> None:
    """Refuse a document beyond the author's rights; `named` identifies a policy other than the draft.

    Raises:
        ApiError: 403 POLICY_EXCEEDS_AUTHOR with at most five counterexamples.
    """
    check = check_document(author, draft)
    if check.answer is Answer.WITHIN:
        return
    document = read_or_allow_all(draft, author.catalogue)
    raise ApiError(
        403,
        "POLICY_EXCEEDS_AUTHOR",
        "a policy cannot grant more than its author has"
        if check.answer is Answer.BEYOND
        else "undecided: the policy may grant more than its author has",
        details={
            "answer": check.answer.value,
            "counterexamples": [representations.counterexample(example, document) for example in check.examples],
            **named,
        },
        hint=REMEDIES[check.answer],
    )


def require_within_unchanged(author: Author, draft: Draft) -> None:
    """Refuse to rename or describe a policy with a document beyond the author's rights.

    An unreadable document may allow anything, so its policy requires an author with all rights.

    Raises:
        ApiError: 403 POLICY_EXCEEDS_AUTHOR.
    """
    if read_or_allow_all(draft, author.catalogue) is not ALLOW_ALL:
        require_within(author, draft)
    elif _find_excess_of_rights(author, ALLOW_ALL, {}) is not None:
        raise ApiError(
            403,
            "POLICY_EXCEEDS_AUTHOR",
            "the policy's document cannot be read, so only an author with all permissions may rename it",
            details={"answer": Answer.UNDECIDED.value, "counterexamples": []},
            hint="replace the document, or ask an owner",
        )


def require_authority_over(connection: Connection, author: Author, principals: Sequence[tuple[str, str]]) -> None:
    """Refuse to change the rights of keys and identities that the author neither created nor covers in rights.

    A new deny or a removed policy may disable a stronger principal. An API key has only its own scopes, so it must
    also cover the principals that its creator created.

    Raises:
        ApiError: 403 PRINCIPAL_EXCEEDS_AUTHOR naming the principals.
    """
    beyond: list[dict[str, str]] = []
    examples: list[dict[str, Any]] = []
    for principal, excess in _find_principals_beyond(connection, author, principals):
        beyond.append(principal)
        examples += [
            representations.counterexample(example, excess.document) | excess.source
            for example in excess.check.examples
        ]
        if len(beyond) == MAX_NAMED:
            break
    if beyond:
        raise ApiError(
            403,
            "PRINCIPAL_EXCEEDS_AUTHOR",
            "you did not create this principal and do not have all its permissions"
            if author.scopes is None
            else "the API key does not have all permissions of this principal",
            details={"principals": beyond, "counterexamples": examples[:MAX_EXAMPLES]},
            hint="ask its creator or an admin"
            if author.scopes is None
            else "use a key that has these permissions, or sign in: frost login",
        )


class _Excess(NamedTuple):
    """Rights that exceed the author's."""

    check: CheckResult
    document: Document
    source: dict[str, Any]
    """Origin of the rights: `role`, `scopes` or the policy."""


def _find_principals_beyond(
    connection: Connection, author: Author, principals: Sequence[tuple[str, str]]
) -> Iterator[tuple[dict[str, str], _Excess]]:
    """Yield the principals with more rights than the author. Skips the author's own, except for API keys."""
    if _find_excess_of_rights(author, ALLOW_ALL, {}) is None:
        return
    ids: dict[str, list[str]] = {"api_key": [], "workload_identity": []}
    for kind, identifier in principals:
        ids[kind].append(identifier)
    creator_roles = stored.roles_in(connection, author.tenant_id) if ids["api_key"] else {}
    # Many principals share a few sets of scopes and policies, so each set is compared once.
    of_keys: dict[tuple[tuple[str, ...], str | None], _Excess | None] = {}
    for key in queries.keys_among(connection, author.tenant_id, ids["api_key"]):
        if author.scopes is None and key.user_id == author.user_id:
            continue
        # Its policies are ignored: they only limit the key and may be removed later.
        rests_on = (tuple(key.scopes), creator_roles.get(key.user_id))
        if rests_on not in of_keys:
            rights = key_rights(*rests_on, author.catalogue)
            of_keys[rests_on] = _find_excess_of_rights(author, rights, {"role": creator_roles.get(key.user_id)})
        if excess := of_keys[rests_on]:
            yield {"type": "api_key", "id": key.id, "name": key.name}, excess
    others = [
        row
        for row in queries.identities_among(connection, author.tenant_id, ids["workload_identity"])
        if author.scopes is not None or row.created_by != author.user_id
    ]
    of_scopes = {
        scopes: _find_excess_of_rights(author, _scope_rights(scopes, author.catalogue), {"scopes": list(scopes)})
        for scopes in set(map(_scopes, others))
    }
    policies = queries.policies_by_identity(connection, author.tenant_id, [row.id for row in others if not row.scopes])
    texts = stored.policy_documents(connection, author.tenant_id, sorted(set().union(*policies.values())))
    of_policies = {
        policy_id: _find_excess_of_draft(author, Draft.stored(text), {"policyId": policy_id, "policyName": name})
        for policy_id, (name, text) in texts.items()
    }
    of_sets = {each: next(filter(None, map(of_policies.get, sorted(each))), None) for each in set(policies.values())}
    for row in others:
        if excess := of_scopes[_scopes(row)] or of_sets.get(policies.get(row.id, NOTHING)):
            name = f"{row.namespace}/{row.service_account}"
            yield {"type": "workload_identity", "id": row.id, "name": name}, excess


def _scopes(identity: Record) -> tuple[str, ...]:
    return tuple(identity.scopes)


def _find_excess_of_rights(author: Author, document: Document, source: dict[str, Any]) -> _Excess | None:
    check = check_rights(author, document)
    return None if check.answer is Answer.WITHIN else _Excess(check, document, source)


def _find_excess_of_draft(author: Author, draft: Draft, source: dict[str, Any]) -> _Excess | None:
    check = check_document(author, draft)
    if check.answer is Answer.WITHIN:
        return None
    document = read_or_allow_all(draft, author.catalogue)
    return (
        _find_excess_of_rights(author, ALLOW_ALL, source) if document is ALLOW_ALL else _Excess(check, document, source)
    )


@lru_cache(maxsize=MAX_CACHED_CHECKS)
def _compare_rights_with_role(
    document: Document, role: str | None, tenant_id: str, catalogue: CatalogueSnapshot
) -> CheckResult:
    return _compare_with_role(document, role, tenant_id, catalogue) if document.rules else WITHIN


@lru_cache(maxsize=MAX_CACHED_CHECKS)
def key_rights(scopes: tuple[str, ...], role: str | None, catalogue: CatalogueSnapshot) -> Document:
    """Return the current rights that both the scopes of a key and the role of its creator allow."""
    if role not in roles():
        return Document(())
    covered = set(_operations(scopes, catalogue))
    rules = []
    for rule in role_document(str(role)).rules:
        if rule.denies:
            rules.append(rule)
            continue
        names = catalogue.operations.masks.names(catalogue.operations.masks.for_rule(rule))
        patterns = tuple(parse_operation_pattern(name) for name in names if name in covered)
        if patterns:
            rules.append(replace(rule, operations=patterns, operation_texts=tuple(map(str, patterns))))
    return Document(tuple(rules))


def _operations(scopes: tuple[str, ...], catalogue: CatalogueSnapshot) -> list[str]:
    return [name for name in catalogue.operations.names if covers(scopes, catalogue.scope_of(name))]


@lru_cache(maxsize=MAX_CACHED_CHECKS)
def _scope_rights(scopes: tuple[str, ...], catalogue: CatalogueSnapshot) -> Document:
    patterns: tuple[OperationPattern, ...] = tuple(map(parse_operation_pattern, _operations(scopes, catalogue)))
    if not patterns:
        return Document(())
    return Document((Rule("", "allow", patterns, tuple(map(str, patterns)), (ANY_TARGET,), ("*",), ()),))


def require_scope(author: Author, scope: str) -> None:
    """Refuse to grant an identity a scope beyond the author's rights.

    Raises:
        ApiError: 403 SCOPE_EXCEEDS_AUTHOR naming the scope, with counterexamples.
    """
    document = _scope_rights((scope,), author.catalogue)
    check = check_rights(author, document)
    if check.answer is not Answer.WITHIN:
        holder = "you have" if author.scopes is None else "the API key has"
        raise ApiError(
            403,
            "SCOPE_EXCEEDS_AUTHOR",
            f"the scope {scope} grants more than {holder}",
            details={
                "scope": scope,
                "counterexamples": [representations.counterexample(o, document) for o in check.examples],
            },
        )
