"""A cache of the grants of subjects about which services ask, valid under the revisions of their tenant.

A decision compares the revisions of its snapshot with those of the cached grants: after a change is committed, no
process uses grants from before. Times are compared on each decision.

A new key or workload identity increases the revision of its tenant (migration 0015), so that unknown subjects can be
cached too. A decision then costs the same whether its subject exists or not.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from service.authz.decisions import CatalogueSnapshot, CompiledGrants
from service.authz.entitlements import CATALOGUE_DOMAIN
from service.lru_cache import LruCache

MAX_SUBJECTS = 10_000
MAX_TENANTS = 10_000
MAX_RULES = 50_000
"""Rules in the compiled policies of all subjects; rules that subjects share are counted for each."""


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

    def rules_of_current(self, tenant_id: str, type: str, name: str, at: datetime) -> int | None:
        """Return the number of rules of a subject; None unless it is cached under the revisions of its tenant."""
        tenant, subject = self.tenants.peek(tenant_id), self.subjects.peek((tenant_id, type, name))
        if tenant is None or subject is None or not subject.is_current(tenant.revisions, at):
            return None
        return count_rules(subject)


def count_rules(subject: SubjectGrants) -> int:
    policies = subject.grants.policies
    return 0 if policies is None else len(policies.rules)
