"""The author's cap when something is written: nobody gives, or takes from others, more than they hold. hostile A

Three questions, each decided by exact containment: does a document stay within its author's rights; do somebody's
rights cover all that a key or identity may have; may somebody give a scope away. Undecided counts as no.
The answers depend on nothing but their arguments, so they are remembered.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import Connection

from client.policy import containment
from client.policy.containment import Answer, CheckResult
from client.policy.document import InvalidDocument
from client.policy.engine import Engine, GrantedRule, granted_rules
from client.policy.matching import ANY_TARGET, OperationPattern, parse_operation_pattern
from client.policy.model import Document, Rule
from service import errors
from service.api.enforcement import load_grants
from service.authz.context import TenantContext
from service.authz.decisions import DENY_ALL, CatalogueSnapshot, covers, role_document, role_rules
from service.authz.route_policies import AUTHORS
from service.catalogue.operations import roles
from service.catalogue.resource_types import REGIONS
from service.context import Platform
from service.db.engine import Record
from service.errors import ApiError
from service.iam import representations
from service.iam.policy_documents import read_stored
from service.lru_cache import LruCache
from service.principals import grants as stored
from service.principals import queries

REMEMBERED = 512
# Of whole documents: a quarter of a megabyte each at most.
REMEMBERED_TEXTS = 64
# Of documents that passed, by their digest: as many as may hang on one group, so that no check is made twice.
REMEMBERED_PASSED = 10_000
MAX_NAMED = 20
NOTHING: frozenset[str] = frozenset()
WITHIN = CheckResult(Answer.WITHIN)
ALLOW_ALL = Document((Rule("", "allow", (parse_operation_pattern("*"),), ("*",), (ANY_TARGET,), ("*",), ()),))


@dataclass(frozen=True, slots=True)
class Author:
    """A principal that manages access in a tenant: a person, or an API key for its creator.

    `role` is the current role of the person or creator. `scopes` and `policies` limit a key further: None for a person,
    and `policies` None for a key without policies.
    """

    user_id: str
    tenant_id: str
    role: str | None
    known: CatalogueSnapshot
    scopes: tuple[str, ...] | None = None
    policies: Engine | None = None


def author_of(connection: Connection, platform: Platform, context: TenantContext) -> Author:
    """Return the principal of a request as an author, with the role and grants of its context.

    Inside `change` they are those of the transaction of the change.

    Raises:
        ApiError: 403 if the role may not write policies.
    """
    tenant_id, user_id, role = context.tenant_id, str(context.principal.user_id), context.role
    if role is None:
        raise errors.tenant_access_denied()
    if role not in AUTHORS:
        raise errors.permission_denied("tenant")
    if context.principal.kind == "session":
        return Author(user_id, tenant_id, role, platform.decisions.known(connection))
    key = load_grants(platform, connection, context)
    policies = DENY_ALL if key.unreadable else key.policies
    return Author(user_id, tenant_id, role, key.known, context.principal.scopes, policies)


def check_document(author: Author, text: str) -> CheckResult:
    """Check whether a canonical document stays within the author's rights."""
    check = _examine_role(author, text)
    if check.answer is not Answer.WITHIN or author.scopes is None:
        return check
    return _within_key(author, author.scopes, understood(text, author.known))


def _examine_role(author: Author, text: str) -> CheckResult:
    """Check a canonical document against the author's role only."""
    asked = (sha256(text.encode()).digest(), author.role, author.tenant_id, author.known)
    if _PASSED.get(asked):
        return WITHIN
    check = _examined(text, author.role, author.tenant_id, author.known)
    if check.answer is Answer.WITHIN:
        _PASSED[asked] = True
    return check


# Only positive results: one with examples may be long.
_PASSED: LruCache[object, bool] = LruCache(REMEMBERED_PASSED)


@lru_cache(maxsize=REMEMBERED_TEXTS)
def _examined(text: str, role: str | None, tenant_id: str, known: CatalogueSnapshot) -> CheckResult:
    try:
        document = read_stored(text, known)
    except InvalidDocument:
        # A stored document that is not understood any more gives nothing, so it may be anything.
        return CheckResult(Answer.UNDECIDED)
    return _contained(document, role, tenant_id, known)


def understood(text: str, known: CatalogueSnapshot) -> Document:
    """A stored document; one that is not understood any more is taken for the most it could mean."""
    try:
        return read_stored(text, known)
    except InvalidDocument:
        return ALLOW_ALL


def _contained(document: Document, role: str | None, tenant_id: str, known: CatalogueSnapshot) -> CheckResult:
    return _check(document, role_rules(role), tenant_id, known)


def _check(document: Document, held: Sequence[GrantedRule], tenant_id: str, known: CatalogueSnapshot) -> CheckResult:
    """Compare a document with rules that its author holds, in the catalogue and the regions of the platform."""
    return containment.check(document, held, tenant=tenant_id, catalogue=known.catalogue.names, regions=REGIONS)


def _check_rights(author: Author, document: Document) -> CheckResult:
    """Check whether rights stay within the author's."""
    check = _contained_rights(document, author.role, author.tenant_id, author.known)
    if check.answer is not Answer.WITHIN or author.scopes is None:
        return check
    return _within_key(author, author.scopes, document)


def _within_key(author: Author, scopes: tuple[str, ...], document: Document) -> CheckResult:
    """Check rights against the scopes and policies of an API key."""
    check = _contained_scopes(document, scopes, author.tenant_id, author.known)
    if check.answer is not Answer.WITHIN or author.policies is None:
        return check
    return _contained_policies(document, author.policies, author.tenant_id, author.known)


@lru_cache(maxsize=REMEMBERED)
def _contained_scopes(
    document: Document, scopes: tuple[str, ...], tenant_id: str, known: CatalogueSnapshot
) -> CheckResult:
    held = granted_rules(_scope_rights(scopes, known), "scopes", "scopes")
    return _check(document, held, tenant_id, known)


@lru_cache(maxsize=REMEMBERED)
def _contained_policies(document: Document, policies: Engine, tenant_id: str, known: CatalogueSnapshot) -> CheckResult:
    """Check rights against compiled policies. An allow counts only if its author's role covers the document."""
    covering: dict[Engine | None, bool] = {None: True}
    for cap in {granted.cap for granted in policies.rules if granted.cap is not None}:
        check = _check(document, cap.rules, tenant_id, known)
        covering[cap] = check.answer is Answer.WITHIN
    held = [granted for granted in policies.rules if granted.rule.denies or covering[granted.cap]]
    return _check(document, held, tenant_id, known)


def require_within(author: Author, text: str, **named: Any) -> None:
    """Refuse a document that allows what its author may not do; `named` says of which policy it is, if not the draft.

    Raises:
        Refusal: 403 POLICY_EXCEEDS_AUTHOR with at most five counterexamples.
    """
    check = check_document(author, text)
    if check.answer is Answer.WITHIN:
        return
    document = understood(text, author.known)
    raise ApiError(
        403,
        "POLICY_EXCEEDS_AUTHOR",
        "a policy cannot grant more than its author holds"
        if check.answer is Answer.BEYOND
        else "it could not be decided whether the policy grants more than its author holds",
        details={
            "answer": check.answer.value,
            "counterexamples": [representations.counterexample(one, document) for one in check.examples],
            **named,
        },
        hint="narrow the rule that is named, or ask somebody who holds the operation"
        if check.answer is Answer.BEYOND
        else "write the rules with fewer different patterns and constraints",
    )


def require_within_unchanged(author: Author, text: str) -> None:
    """Refuse to change the name or description of a policy whose document allows what the author may not do.

    A stored document that cannot be read may mean anything: an author who holds everything may still name its policy.

    Raises:
        Refusal: 403 POLICY_EXCEEDS_AUTHOR.
    """
    if understood(text, author.known) is not ALLOW_ALL:
        require_within(author, text)
    elif _compared(author, ALLOW_ALL, {}) is not None:
        raise ApiError(
            403,
            "POLICY_EXCEEDS_AUTHOR",
            "the policy's document cannot be read, so only an author who holds everything may rename it",
            details={"answer": Answer.UNDECIDED.value, "counterexamples": []},
            hint="replace the document, or ask an owner",
        )


def require_authority_over(connection: Connection, author: Author, principals: Sequence[tuple[str, str]]) -> None:
    """Refuse to change the rights of keys and identities that the author neither created nor covers in rights.

    Adding a deny or removing a policy harms a stronger key as much as an allow lifts a weaker one. An API key must
    cover the rights of its creator's principals, too: it acts within its own scopes only.

    Raises:
        Refusal: 403 PRINCIPAL_EXCEEDS_AUTHOR naming the principals.
    """
    beyond: list[dict[str, str]] = []
    examples: list[dict[str, Any]] = []
    for principal, found in _excess(connection, author, principals):
        beyond.append(principal)
        examples += [representations.counterexample(one, found.document) | found.source for one in found.check.examples]
        if len(beyond) == MAX_NAMED:
            break
    if beyond:
        raise ApiError(
            403,
            "PRINCIPAL_EXCEEDS_AUTHOR",
            "you neither made this principal nor hold all that it may do"
            if author.scopes is None
            else "the API key does not hold all that this principal may do",
            details={"principals": beyond, "counterexamples": examples[: containment.MAX_EXAMPLES]},
            hint="ask its creator or an admin"
            if author.scopes is None
            else "use a key whose scopes cover it, or sign in: frost login",
        )


class _Excess(NamedTuple):
    """Rights that exceed somebody's, and how that was found out."""

    check: CheckResult
    document: Document
    source: dict[str, Any]
    """Where the rights come from: `role` or `scopes`, whose rules nobody wrote, or the policy."""


def _excess(
    connection: Connection, author: Author, principals: Sequence[tuple[str, str]]
) -> Iterator[tuple[dict[str, str], _Excess]]:
    """Yield the principals that may do what the author may not. A person's own are left out, a key's are not."""
    if _compared(author, ALLOW_ALL, {}) is None:
        return
    named: dict[str, list[str]] = {"api_key": [], "workload_identity": []}
    for kind, identifier in principals:
        named[kind].append(identifier)
    makers = stored.roles_in(connection, author.tenant_id) if named["api_key"] else {}
    # However many principals there are, they rest on few different scopes and policies: each is compared once.
    of_keys: dict[tuple[tuple[str, ...], str | None], _Excess | None] = {}
    for key in queries.keys_among(connection, author.tenant_id, named["api_key"]):
        if author.scopes is None and key.user_id == author.user_id:
            continue
        # Policies are left out: they narrow it now and may be gone tomorrow.
        rests_on = (tuple(key.scopes), makers.get(key.user_id))
        if rests_on not in of_keys:
            rights = key_rights(*rests_on, author.known)
            of_keys[rests_on] = _compared(author, rights, {"role": makers.get(key.user_id)})
        if found := of_keys[rests_on]:
            yield {"type": "api_key", "id": key.id, "name": key.name}, found
    others = [
        row
        for row in queries.identities_among(connection, author.tenant_id, named["workload_identity"])
        if author.scopes is not None or row.created_by != author.user_id
    ]
    of_scopes = {
        scopes: _compared(author, _scope_rights(scopes, author.known), {"scopes": list(scopes)})
        for scopes in set(map(_scopes, others))
    }
    held = queries.held_policies(connection, author.tenant_id, [row.id for row in others if not row.scopes])
    texts = stored.policy_documents(connection, author.tenant_id, sorted(set().union(*held.values())))
    of_policies = {
        policy_id: _compared_text(author, text, {"policyId": policy_id, "policyName": name})
        for policy_id, (name, text) in texts.items()
    }
    of_sets = {ids: next(filter(None, map(of_policies.get, sorted(ids))), None) for ids in set(held.values())}
    for row in others:
        if found := of_scopes[_scopes(row)] or of_sets.get(held.get(row.id, NOTHING)):
            name = f"{row.namespace}/{row.service_account}"
            yield {"type": "workload_identity", "id": row.id, "name": name}, found


def _scopes(identity: Record) -> tuple[str, ...]:
    return tuple(identity.scopes)


def _compared(author: Author, document: Document, source: dict[str, Any]) -> _Excess | None:
    """Return how rights exceed the author's; None if they do not."""
    check = _check_rights(author, document)
    return None if check.answer is Answer.WITHIN else _Excess(check, document, source)


def _compared_text(author: Author, text: str, source: dict[str, Any]) -> _Excess | None:
    """The same of a stored document."""
    check = check_document(author, text)
    if check.answer is Answer.WITHIN:
        return None
    document = understood(text, author.known)
    return _compared(author, ALLOW_ALL, source) if document is ALLOW_ALL else _Excess(check, document, source)


@lru_cache(maxsize=REMEMBERED)
def _contained_rights(document: Document, role: str | None, tenant_id: str, known: CatalogueSnapshot) -> CheckResult:
    return _contained(document, role, tenant_id, known) if document.rules else WITHIN


@lru_cache(maxsize=REMEMBERED)
def key_rights(scopes: tuple[str, ...], role: str | None, known: CatalogueSnapshot) -> Document:
    """What a key has from its scopes and its creator's role together, as a document of today's operations."""
    if role not in roles():
        return Document(())
    covered = set(_operations(scopes, known))
    rules = []
    for rule in role_document(str(role)).rules:
        if rule.denies:
            rules.append(rule)
            continue
        names = known.catalogue.masks.names(known.catalogue.masks.for_rule(rule))
        patterns = tuple(parse_operation_pattern(name) for name in names if name in covered)
        if patterns:
            rules.append(replace(rule, operations=patterns, operation_texts=tuple(map(str, patterns))))
    return Document(tuple(rules))


def _operations(scopes: tuple[str, ...], known: CatalogueSnapshot) -> list[str]:
    return [name for name in known.catalogue.names if covers(scopes, known.scope_of(name))]


@lru_cache(maxsize=REMEMBERED)
def _scope_rights(scopes: tuple[str, ...], known: CatalogueSnapshot) -> Document:
    """What scopes give on their own."""
    patterns: tuple[OperationPattern, ...] = tuple(map(parse_operation_pattern, _operations(scopes, known)))
    if not patterns:
        return Document(())
    return Document((Rule("", "allow", patterns, tuple(map(str, patterns)), (ANY_TARGET,), ("*",), ()),))


def require_scope(author: Author, scope: str) -> None:
    """Refuse to give an identity a scope that covers more than the author holds.

    Raises:
        Refusal: 403 SCOPE_EXCEEDS_AUTHOR naming the scope, with counterexamples.
    """
    document = _scope_rights((scope,), author.known)
    check = _check_rights(author, document)
    if check.answer is not Answer.WITHIN:
        holder = "you hold" if author.scopes is None else "the API key holds"
        raise ApiError(
            403,
            "SCOPE_EXCEEDS_AUTHOR",
            f"the scope {scope} gives more than {holder}",
            details={
                "scope": scope,
                "counterexamples": [representations.counterexample(o, document) for o in check.examples],
            },
        )
