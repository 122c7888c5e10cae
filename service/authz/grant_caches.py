"""Caches of the entitlements of credentials and the grants of subjects, valid while their revisions are current.

Triggers increase the revisions of an organization and of a person in the transaction of each change of these data
(migration 0013). A request compares the revisions of its entitlements with the stored ones in a single statement: after
a revocation is committed, no request of any process uses the entitlements from before. Times are compared on each
request: `expires_at` here, those of an access token by `BearerTokens`.

Revisions are read before the data under them or in the same snapshot, so that no data are older than their revision.

Services ask about subjects. A decision compares the revisions of its snapshot with those of the cached grants. A new
key or workload identity increases the revision of its tenant (migration 0015), so that unknown subjects can be cached
too. A decision then costs the same whether its subject exists or not.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from service.authz.decisions import CatalogueSnapshot, CompiledGrants
from service.authz.entitlements import Entitlement, Entitlements
from service.db.revisions import CATALOGUE_DOMAIN, Revisions, read_revisions
from service.lru_cache import LruCache
from service.principal import Principal

MAX_ENTRIES = 10_000
MAX_RULES = 50_000
MAX_SUBJECTS = 10_000
MAX_TENANTS = 10_000


@dataclass(frozen=True, slots=True)
class Authority:
    """A principal and its entitlements, with the revisions of their domains."""

    principal: Principal
    entitlements: Mapping[Hashable, Entitlement] = field(default_factory=dict)
    credential_domains: frozenset[str] = frozenset()
    revisions: Revisions = field(default_factory=dict)

    @property
    def rules(self) -> int:
        """The number of rules in compiled policies."""
        grants = (each.value for each in self.entitlements.values() if isinstance(each.value, CompiledGrants))
        return sum(len(each.policies.rules) for each in grants if each.policies is not None)

    def refreshed(
        self, connection: Connection, compare: Callable[[Revisions, Revisions], None] = lambda stored, seen: None
    ) -> "Authority | None":
        """Return the authority without outdated entitlements; None if the credential itself may have changed.

        Args:
            compare: called with the stored revisions and those of the authority if they differ.
        """
        stored = read_revisions(connection, self.revisions)
        if stored == self.revisions:
            return self
        compare(stored, self.revisions)
        changed = {domain for domain, revision in stored.items() if revision != self.revisions[domain]}
        if not self.credential_domains.isdisjoint(changed):
            return None
        valid = {key: each for key, each in self.entitlements.items() if each.domains.isdisjoint(changed)}
        return replace(self, entitlements=valid, revisions=stored)


class AuthorityCache:
    """The authorities of this process, by digest of the credential, at most `max_entries` and `max_rules`.

    The rules of compiled policies take most of the memory. Shared rules are counted for each authority.
    """

    def __init__(self, max_entries: int = MAX_ENTRIES, max_rules: int = MAX_RULES) -> None:
        self._max_entries = max_entries
        self._max_rules = max_rules
        self._lock = threading.Lock()
        self._entries: OrderedDict[bytes, Authority] = OrderedDict()
        self._rules = 0
        self._is_on = True

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._rules = 0

    def switch(self, *, is_on: bool) -> None:
        """Turn the cache on, or empty it and turn it off."""
        self._is_on = is_on
        if not is_on:
            self.clear()

    def get(self, digest: bytes, at: datetime) -> Authority | None:
        """Return the authority of a credential that has not expired. It may be out of date."""
        with self._lock:
            authority = self._entries.get(digest)
            if authority is None:
                return None
            self._entries.move_to_end(digest)
        expires_at = authority.principal.expires_at
        return authority if expires_at is None or at < expires_at else None

    def put(self, connection: Connection, digest: bytes, entitlements: Entitlements, previous: Revisions) -> Authority:
        """Keep the entitlements that were read in the snapshot of a connection.

        While the cache is off, return an authority without revisions: a change will authorize again in its transaction.

        Args:
            previous: revisions that were read before.
        """
        credential_domains = entitlements.credential_domains()
        domains = credential_domains.union(*(each.domains for each in entitlements.values.values()))
        missing = domains - previous.keys()
        stored = {**previous, **(read_revisions(connection, missing) if missing else {})}
        authority = Authority(entitlements.principal, entitlements.values, credential_domains, stored)
        with self._lock:
            if not self._is_on:
                return replace(authority, revisions={})
            self._remove(digest)
            self._entries[digest] = authority
            self._rules += authority.rules
            while len(self._entries) > self._max_entries or (self._rules > self._max_rules and len(self._entries) > 1):
                self._remove(next(iter(self._entries)))
        return authority

    def _remove(self, digest: bytes) -> None:
        removed = self._entries.pop(digest, None)
        if removed is not None:
            self._rules -= removed.rules


@dataclass(frozen=True, slots=True)
class TenantSnapshot:
    """Data of a tenant that all its decisions use, with the revisions of `domains_of`."""

    tenant_id: str
    organization_id: str
    catalogue: CatalogueSnapshot
    revisions: tuple[int, ...]


class SubjectGrants(NamedTuple):
    """The grants of a subject until an instant, with the revisions of `domains_of`."""

    grants: CompiledGrants
    expires_at: datetime | None
    revisions: tuple[int, ...]

    def is_current(self, revisions: tuple[int, ...], at: datetime) -> bool:
        return self.revisions == revisions and (self.expires_at is None or at < self.expires_at)


def domains_of(tenant_id: str, organization_id: str) -> tuple[str, ...]:
    """Return the domains whose revisions change with the grants of any subject of a tenant."""
    return organization_id, tenant_id, CATALOGUE_DOMAIN


class SubjectCache:
    """The tenants and subjects of this process, by id of the tenant, type and name of the subject."""

    def __init__(self, max_subjects: int = MAX_SUBJECTS, max_rules: int = MAX_RULES) -> None:
        self.tenants: LruCache[str, TenantSnapshot] = LruCache(MAX_TENANTS)
        self.subjects: LruCache[Hashable, SubjectGrants] = LruCache(max_subjects, max_rules, count_rules)
        self._max_subjects = max_subjects

    def clear(self) -> None:
        self.tenants.clear()
        self.subjects.clear()

    def switch(self, *, is_on: bool) -> None:
        """Turn the cache on, or empty it and turn it off."""
        self.tenants.max_size, self.subjects.max_size = (MAX_TENANTS, self._max_subjects) if is_on else (0, 0)
        if not is_on:
            self.clear()

    def rules_of_current(self, tenant_id: str, type: str, name: str, at: datetime) -> int | None:
        """Return the number of rules of a subject; None unless it is cached under the revisions of its tenant."""
        tenant, subject = self.tenants.peek(tenant_id), self.subjects.peek((tenant_id, type, name))
        if tenant is None or subject is None or not subject.is_current(tenant.revisions, at):
            return None
        return count_rules(subject)


def count_rules(subject: SubjectGrants) -> int:
    policies = subject.grants.policies
    return 0 if policies is None else len(policies.rules)
