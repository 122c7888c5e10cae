"""Decides about operations by the grants of a principal, and caches compiled policies.

Every part of the grants must allow an operation, so a deny in any part wins: the scopes of a key, its creator's
current role and its policies, if any; for a workload identity its scopes, if any, and its policies. A policy is
limited to the current role of its author.

Users can only grant a scope if their role allows one of its operations. Each decision about a key checks its creator's
current role again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple

from sqlalchemy import Connection, func, literal_column, select

from client.policy.coverage import Catalogue, operation_bounds
from client.policy.document import InvalidDocument, parse_document
from client.policy.engine import Engine, GrantedRule, Source, granted_rules
from client.policy.model import Document, RequestContext
from service.catalogue import operations as shipped
from service.catalogue.operations import covers, roles, scope_of, scopes
from service.db.digests import DigestOf, digest
from service.db.prepared import prepared
from service.db.revisions import CATALOGUE_DOMAIN, read_revisions
from service.db.tables import catalogue_operations
from service.lru_cache import LruCache
from service.principals import grants as stored
from service.principals.grants import AppliedPolicy, PrincipalGrants

MAX_ENGINES = 1_000
# In all cached engines. A rule takes about 1.3 KB; a search may need 500 engines.
MAX_RULES = 50_000
Part = Literal["scopes", "role", "policies"]

_OPERATIONS = (
    select((catalogue_operations.c.name + " " + catalogue_operations.c.access_level).label("operation"))
    .order_by(catalogue_operations.c.position)
    .subquery()
)
# A parameter could not be prepared.
_NEWLINE: Any = literal_column("'\n'")
_CATALOGUE_DIGEST = prepared(select(DigestOf(func.aggregate_strings(_OPERATIONS.c.operation, _NEWLINE))))
DENY_ALL = Engine(())
CACHE_SIZE = 2_048
MAX_OPERATIONS = 5


class Decision(NamedTuple):
    """A decision about an operation.

    If denied, `part` is the first that does not allow it. `source` is the deciding rule, if any.
    """

    allowed: bool
    part: Part
    verdict: int = 0
    source: Source | None = None
    unreadable: bool = False

    @property
    def reason(self) -> str:
        """Return `allowed`, `explicit_deny`, `no_match` or `unreadable_policy`."""
        if self.allowed:
            return "allowed"
        if self.unreadable:
            return "unreadable_policy"
        return "explicit_deny" if self.verdict < 0 else "no_match"


@dataclass(frozen=True, slots=True, eq=False)
class CatalogueSnapshot:
    """The operations of a database at a point in time, compared by identity."""

    operations: Catalogue
    levels: dict[str, str]

    def scope_of(self, operation: str) -> str | None:
        """Return the scope that an operation requires; None if unknown."""
        level = self.levels.get(operation)
        return None if level is None else scope_of(operation, level)


@dataclass(frozen=True, slots=True)
class CompiledGrants:
    """Compiled grants. `role` and `policies` are None if they do not limit the principal."""

    principal: PrincipalGrants
    catalogue: CatalogueSnapshot
    role: Engine | None
    policies: Engine | None
    unreadable: tuple[str, ...] = ()

    def decide(self, operation: str, target: str, facts: RequestContext) -> Decision:
        """Decide about an operation on `target`, a full name in which `*` parts are unknown."""
        last = Decision(False, "policies")
        if self.principal.scopes is not None:
            last = Decision(covers(self.principal.scopes, self.catalogue.scope_of(operation)), "scopes")
            if not last.allowed:
                return last
        if self.role is not None:
            last = _answer("role", self.role, operation, target, facts)
            if not last.allowed:
                return last
        return self.by_policies(operation, target, facts) or last

    def by_policies(self, operation: str, target: str, facts: RequestContext) -> Decision | None:
        if self.unreadable:
            return Decision(False, "policies", unreadable=True)
        return None if self.policies is None else _answer("policies", self.policies, operation, target, facts)


def _answer(part: Part, engine: Engine, operation: str, target: str, facts: RequestContext) -> Decision:
    verdict = engine.decide(operation, target, facts)
    return Decision(verdict > 0, part, verdict, engine.source(verdict))


@dataclass(frozen=True, slots=True)
class Policies:
    """Compiled policies, and the ids of unreadable policies."""

    engine: Engine
    unreadable: tuple[str, ...] = ()


class PolicyEngineCache:
    """The compiled policies of this process.

    The cache key has the policies by name and digest of the text, the authors by current role, and the catalogue, so an
    entry is never outdated. Principals with the same policies share an engine.

    Args:
        max_rules: how many rules the engines may have together.
    """

    def __init__(self, max_rules: int = MAX_RULES) -> None:
        self._catalogue: tuple[int, str, CatalogueSnapshot] | None = None
        self._uses_revision = True
        self._engines: LruCache[tuple[str, tuple[AppliedPolicy, ...], CatalogueSnapshot], Policies] = LruCache(
            MAX_ENGINES, max_rules, lambda policies: len(policies.engine.rules)
        )

    def catalogue(self, connection: Connection) -> CatalogueSnapshot:
        """Return the catalogue; the cached one if its revision or the digest of the operations is the same.

        The digest takes some 250 times as long as the revision. Only revision 0 can be of several states.
        """
        cached = self._catalogue
        revision = read_revisions(connection, (CATALOGUE_DOMAIN,))[CATALOGUE_DOMAIN]
        if cached is not None and cached[0] == revision != 0 and self._uses_revision:
            return cached[2]
        current = connection.scalar(_CATALOGUE_DIGEST) or ""
        if cached is not None and cached[1] == current:
            self._catalogue = (revision, current, cached[2])
            return cached[2]
        rows = connection.execute(select(catalogue_operations).order_by(catalogue_operations.c.position)).all()
        catalogue = CatalogueSnapshot(Catalogue(row.name for row in rows), {row.name: row.access_level for row in rows})
        self._catalogue = (revision, current, catalogue)
        return catalogue

    def switch(self, *, is_on: bool) -> None:
        """Trust the revision of the catalogue, or compare the digest each time."""
        self._uses_revision = is_on

    def clear(self) -> None:
        self._catalogue = None
        self._engines.clear()

    def compiled(
        self, connection: Connection, grants: PrincipalGrants, catalogue: CatalogueSnapshot | None = None
    ) -> CompiledGrants:
        catalogue = catalogue or self.catalogue(connection)
        role = None if grants.kind == "workload_identity" else role_engine(grants.role)
        if grants.policies:
            policies = self._policies(connection, grants.tenant_id, grants.policies, catalogue)
            return CompiledGrants(grants, catalogue, role, policies.engine, policies.unreadable)
        # An identity without scopes and policies has no grants.
        ungranted = grants.kind == "workload_identity" and grants.scopes is None
        return CompiledGrants(grants, catalogue, role, DENY_ALL if ungranted else None)

    def _policies(
        self, connection: Connection, tenant_id: str, policies: tuple[AppliedPolicy, ...], catalogue: CatalogueSnapshot
    ) -> Policies:
        key = (tenant_id, policies, catalogue)
        cached = self._engines.get(key)
        if cached is not None:
            return cached
        texts = stored.policy_documents(connection, tenant_id, [policy.policy_id for policy in policies])
        compiled = compile_policies(texts, policies, catalogue)
        # The policies may have changed since the grants were read.
        if _are_of(policies, texts):
            self._engines[key] = compiled
        return compiled


def _are_of(policies: Sequence[AppliedPolicy], texts: Mapping[str, tuple[str, str]]) -> bool:
    """Return whether texts, by id, with their names, are those of the policies."""
    return all(
        (named := texts.get(policy.policy_id)) is not None
        and (policy.name, policy.digest) == (named[0], digest(named[1]))
        for policy in policies
    )


def compile_policies(
    texts: Mapping[str, tuple[str, str]], policies: Sequence[AppliedPolicy], catalogue: CatalogueSnapshot
) -> Policies:
    """Compile policies from their names and texts; the current role of its author limits each rule."""
    rules: list[GrantedRule] = []
    unreadable = []
    for policy in policies:
        if policy.policy_id not in texts:
            continue  # deleted since the grants were read; an empty engine denies
        name, text = texts[policy.policy_id]
        try:
            document = parse_document(text, catalogue.operations).document
        except InvalidDocument:
            unreadable.append(policy.policy_id)
            continue
        rules += granted_rules(document, policy.policy_id, name, role_engine(policy.author_role))
    return Policies(Engine(rules), tuple(unreadable))


@cache
def role_document(role: str) -> Document:
    return parse_document(
        json.dumps(roles()[role].document), Catalogue(operation.name for operation in shipped.operations())
    ).document


@cache
def role_engine(role: str | None) -> Engine:
    """Return the compiled rules of a role; None and unknown roles allow no operation."""
    return Engine(role_rules(role)) if role in roles() else DENY_ALL


def role_rules(role: str | None) -> list[GrantedRule]:
    if role is None or role not in roles():
        return []
    return granted_rules(role_document(role), f"role:{role}", roles()[role].title)


@dataclass(frozen=True, slots=True)
class Holding:
    """Whether a role permits a scope, and up to five operations that it lacks."""

    permitted: bool
    lacks: tuple[str, ...]


@lru_cache(maxsize=CACHE_SIZE)
def holding(role: str | None, scope: str, tenant_id: str, catalogue: CatalogueSnapshot) -> Holding:
    """Return how much of a scope a role allows in a tenant, under any conditions.

    A role permits a scope if it allows an operation of the scope's own service for every verb.
    `organizations:write` also covers bindings, which are not enough.
    """
    allowed = possible(role, tenant_id, catalogue)
    parts = [part for part in verbs(scope, catalogue) if part]
    lacks = [name for part in parts for name in part if name not in allowed]
    # Clients print the first operation; the scope's own service explains the refusal best.
    lacks.sort(key=lambda name: not _is_own(scope, name))
    permitted = bool(parts) and all(any(name in allowed for name in _own_operations(scope, part)) for part in parts)
    return Holding(permitted, tuple(lacks[:MAX_OPERATIONS]))


def _own_operations(scope: str, operations: list[str]) -> list[str]:
    """Return the operations of the scope's service, or all without any."""
    return [name for name in operations if _is_own(scope, name)] or operations


def _is_own(scope: str, operation: str) -> bool:
    return operation.partition(":")[0] == scope.partition(":")[0]


@lru_cache(maxsize=CACHE_SIZE)
def possible(role: str | None, tenant_id: str, catalogue: CatalogueSnapshot) -> frozenset[str]:
    """Return the operations that a role allows on some target, under any conditions."""
    masks = catalogue.operations.masks
    return frozenset(masks.names(operation_bounds(masks, role_rules(role), tenant_id).possible))


def verbs(scope: str, catalogue: CatalogueSnapshot) -> list[list[str]]:
    """Return the operations of a scope, grouped by enforced scope: `compute:*` has `compute:read` and `compute:write`.

    A scope that no service enforces covers the operations with its verb or, without any, its service.
    """
    service, _, verb = scope.partition(":")
    if ":" in verb:
        return [[scope]]
    by_scope: dict[str, list[str]] = {}
    for name in catalogue.operations.names:
        by_scope.setdefault(scope_of(name, catalogue.levels[name]), []).append(name)
    if verb == "*":
        return [part for needed, part in by_scope.items() if needed.startswith(f"{service}:") and needed in listed()]
    names = [name for name in catalogue.operations.names if name.startswith(f"{service}:")]
    return [by_scope.get(scope) or [name for name in names if name.rpartition(":")[2] == verb] or names]


def listed() -> frozenset[str]:
    """Return the scopes that can be granted, without the global wildcard."""
    return frozenset(scope.scope for scope in scopes() if scope.scope != "*")
