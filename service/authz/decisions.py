"""The one place where stored facts become a decision about a principal. policy language: Who may do what

An operation is done only when every part of a standing gives it: a key's scopes AND its creator's rights now AND its
policies when it has any; an identity's scopes when it has any AND its policies. A deny in any part therefore wins.
What a policy gives ends where its author's rights end now; that cap is inside the compiled engine.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from sqlalchemy import Connection, func, select

from client.policy.catalogue import Catalogue
from client.policy.document import InvalidDocument, parse_document
from client.policy.engine import Engine, GrantedRule, Source, granted_rules
from client.policy.model import Document, RequestContext
from service.catalogue import operations as shipped
from service.catalogue.operations import roles, scope_of
from service.db.tables import catalogue_operations
from service.principals import grants as stored
from service.principals.grants import AppliedPolicy, PrincipalGrants

MAX_ENGINES = 1_000
# In all that are kept: each rule takes some 1.3 KB there, and one search may ask for five hundred engines.
MAX_RULES = 50_000
Part = Literal["scopes", "role", "policies"]

_LAST = select(func.max(catalogue_operations.c.position))
DENY_ALL = Engine(())
"""Of somebody without any right here: an author who left, a policy nobody stands for."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether, and which part of the standing says so.

    On a refusal `part` is the first part that does not give it; `source` is the deciding rule, None where none matched.
    """

    allowed: bool
    part: Part
    verdict: int = 0
    source: Source | None = None
    unreadable: bool = False

    @property
    def reason(self) -> str:
        """Why, in one word: `allowed`, `explicit_deny`, `no_match`, `unreadable_policy`."""
        if self.allowed:
            return "allowed"
        if self.unreadable:
            return "unreadable_policy"
        return "explicit_deny" if self.verdict < 0 else "no_match"


@dataclass(frozen=True, slots=True, eq=False)
class CatalogueSnapshot:
    """The catalogue as it is. One object for each state of it, told apart by identity."""

    catalogue: Catalogue
    levels: dict[str, str]

    def scope_of(self, operation: str) -> str | None:
        """The key scope that covers an operation; None for one that is not in the catalogue."""
        level = self.levels.get(operation)
        return None if level is None else scope_of(operation, level)


@dataclass(frozen=True, slots=True)
class CompiledGrants:
    """A standing made ready to decide. Immutable: a change of anything it rests on makes another."""

    principal: PrincipalGrants
    known: CatalogueSnapshot
    # None: this part is not asked.
    role: Engine | None
    policies: Engine | None
    unreadable: tuple[str, ...] = ()

    def decide(self, operation: str, target: str, facts: RequestContext) -> Decision:
        """May this be done? `target` is a full name whose `*` parts are unknown."""
        last = Decision(False, "policies")
        if self.principal.scopes is not None:
            last = Decision(covers(self.principal.scopes, self.known.scope_of(operation)), "scopes")
            if not last.allowed:
                return last
        if self.role is not None:
            last = _answer("role", self.role, operation, target, facts)
            if not last.allowed:
                return last
        return self.by_policies(operation, target, facts) or last

    def by_policies(self, operation: str, target: str, facts: RequestContext) -> Decision | None:
        """What the policies alone say; None where there are none."""
        if self.unreadable:
            return Decision(False, "policies", unreadable=True)
        return None if self.policies is None else _answer("policies", self.policies, operation, target, facts)


def _answer(part: Part, engine: Engine, operation: str, target: str, facts: RequestContext) -> Decision:
    verdict = engine.decide(operation, target, facts)
    return Decision(verdict > 0, part, verdict, engine.source(verdict))


def covers(scopes: Iterable[str], needed: str | None) -> bool:
    """Return whether scopes cover a needed one: that scope itself or the wildcard of its service.

    `write` does not cover `read`. A scope that no service enforces is never covered.
    """
    if needed is None or needed not in shipped.enforced_scopes():
        return False
    return any(scope in (needed, f"{needed.partition(':')[0]}:*") for scope in scopes)


def has_enforced_scope(scopes: Iterable[str]) -> bool:
    """Return whether any of the scopes is one that a service enforces; the others give nothing."""
    return not shipped.enforced_scopes().keys().isdisjoint(scopes)


@dataclass(frozen=True, slots=True)
class Policies:
    """The policies of a principal as one engine, and those that cannot be read any more."""

    engine: Engine
    unreadable: tuple[str, ...] = ()


class PolicyEngineCache:
    """The engines of this process. They are immutable and kept under the stamp they were compiled from.

    A stamp (tenant, policies by version, authors by their role now) is read with every request, so a change made by
    any process acts on the next request, and principals with the same policies share one engine.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: tuple[int, CatalogueSnapshot] | None = None
        self._kept: OrderedDict[tuple[str, tuple[AppliedPolicy, ...], CatalogueSnapshot], Policies] = OrderedDict()
        self._rules = 0

    def known(self, connection: Connection) -> CatalogueSnapshot:
        """The catalogue of this database; it only ever grows, so its last position tells whether it is the same."""
        last = connection.scalar(_LAST) or 0
        kept = self._known
        if kept is not None and kept[0] == last:
            return kept[1]
        rows = connection.execute(select(catalogue_operations).order_by(catalogue_operations.c.position)).all()
        known = CatalogueSnapshot(Catalogue(row.name for row in rows), {row.name: row.access_level for row in rows})
        self._known = (last, known)
        return known

    def compiled(self, connection: Connection, grants: PrincipalGrants) -> CompiledGrants:
        """Compile grants that were read on this connection."""
        known = self.known(connection)
        role = None if grants.kind == "workload_identity" else role_engine(grants.role)
        if grants.policies:
            policies = self._policies(connection, grants.tenant_id, grants.policies, known)
            return CompiledGrants(grants, known, role, policies.engine, policies.unreadable)
        # Without scopes and without policies an identity has no grant at all.
        ungranted = grants.kind == "workload_identity" and grants.scopes is None
        return CompiledGrants(grants, known, role, DENY_ALL if ungranted else None)

    def _policies(
        self, connection: Connection, tenant_id: str, held: tuple[AppliedPolicy, ...], known: CatalogueSnapshot
    ) -> Policies:
        stamp = (tenant_id, held, known)
        with self._lock:
            kept = self._kept.get(stamp)
            if kept is not None:
                self._kept.move_to_end(stamp)
                return kept
        made = compile_policies(connection, tenant_id, held, known)
        with self._lock:
            if stamp not in self._kept:
                self._kept[stamp] = made
                self._rules += len(made.engine.rules)
            while len(self._kept) > MAX_ENGINES or (self._rules > MAX_RULES and len(self._kept) > 1):
                _, forgotten = self._kept.popitem(last=False)
                self._rules -= len(forgotten.engine.rules)
        return made


def compile_policies(
    connection: Connection, tenant_id: str, policies: Sequence[AppliedPolicy], known: CatalogueSnapshot
) -> Policies:
    """Read the documents of policies and compile them as one, each rule within what its author holds now."""
    texts = stored.policy_documents(connection, tenant_id, [held.policy_id for held in policies])
    rules: list[GrantedRule] = []
    unreadable = []
    for held in policies:
        if held.policy_id not in texts:
            continue  # Deleted since the standing was read: what is left decides, an empty rest denies.
        name, text = texts[held.policy_id]
        try:
            document = parse_document(text, known.catalogue).document
        except InvalidDocument:
            unreadable.append(held.policy_id)
            continue
        rules += granted_rules(document, held.policy_id, name, role_engine(held.author_role))
    return Policies(Engine(rules), tuple(unreadable))


@cache
def role_document(role: str) -> Document:
    """The rules of a role of this platform."""
    return parse_document(
        json.dumps(roles()[role].document), Catalogue(operation.name for operation in shipped.operations())
    ).document


@cache
def role_engine(role: str | None) -> Engine:
    """A role's rules, compiled once; of no role, or of one this version does not know, nothing."""
    return Engine(role_rules(role)) if role in roles() else DENY_ALL


def role_rules(role: str | None) -> list[GrantedRule]:
    """A role's rules as grants, named `role:<name>`."""
    if role is None or role not in roles():
        return []
    return granted_rules(role_document(role), f"role:{role}", roles()[role].title)
