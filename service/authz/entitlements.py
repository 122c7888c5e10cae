"""The entitlements of a principal, read from the database at most once."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import NamedTuple, TypeVar, cast

from sqlalchemy import Connection, select

from service.authz.decisions import CatalogueSnapshot, CompiledGrants, PolicyEngineCache
from service.db.revisions import CATALOGUE_DOMAIN
from service.db.tables import memberships, tenants, users
from service.principal import Principal
from service.principals.grants import (
    Membership,
    PrincipalGrants,
    PrincipalType,
    may_enter,
    membership_in,
    organization_id_of,
)

T = TypeVar("T")
KINDS: Mapping[str, PrincipalType] = {"session": "user", "api_key": "api_key", "workload": "workload_identity"}


"""The revision domain of the operations that exist. The other domains are ids of organizations, people and tenants."""


class Entitlement(NamedTuple):
    """A value, and the domains with a revision that changes with it."""

    value: object
    domains: frozenset[str]


class NotLoaded(Exception):
    """An entitlement is not in memory, and there is no connection to read it from."""


class Entitlements:
    """The entitlements of one principal, each read at most once.

    Args:
        connection: a snapshot, or the transaction of a change; None to use only the cached entitlements.
        cached: entitlements that are current in that snapshot.
    """

    def __init__(
        self,
        principal: Principal,
        decisions: PolicyEngineCache,
        connection: Connection | None,
        cached: Mapping[Hashable, Entitlement] | None = None,
    ) -> None:
        self.principal = principal
        self.values = dict(cached or {})
        self._decisions = decisions
        self._connection = connection

    def home_tenant(self) -> str | None:
        """Return the tenant of a key or workload, or a person's default tenant."""
        if self.principal.tenant_id:
            return self.principal.tenant_id
        query = select(users.c.default_tenant_id).where(users.c.id == self.principal.user_id)
        return self._read("home", lambda connection: connection.scalar(query), lambda _: ())

    def own_organization(self) -> str:
        """Return the organization of the tenant of a key or workload."""
        tenant_id = str(self.principal.tenant_id)
        return self._read(
            "own organization",
            lambda connection: organization_id_of(connection, tenant_id),
            lambda organization_id: (organization_id,),
        )

    def membership_in(self, tenant_id: str) -> Membership | None:
        """Return the membership by which a person, or the creator of a key, may enter a tenant."""
        user_id = self.principal.user_id
        return self._read(
            ("tenant", tenant_id),
            lambda connection: membership_in(connection, tenant_id, user_id),
            lambda membership: (membership.organization_id,) if membership else (),
        )

    def role_in_organization(self, organization_id: str) -> str | None:
        """Return the role of a person; of a key, its creator's role while the creator may enter its tenant."""
        query = select(memberships.c.role).where(
            memberships.c.organization_id == organization_id, memberships.c.user_id == self.principal.user_id
        )
        if self.principal.tenant_id:
            query = query.join(tenants, tenants.c.organization_id == memberships.c.organization_id).where(
                may_enter(self.principal)
            )
        return self._read(
            ("organization", organization_id),
            lambda connection: connection.scalar(query),
            lambda _: (organization_id,),
        )

    def catalogue(self) -> CatalogueSnapshot:
        return self._read("catalogue", self._decisions.catalogue, lambda _: (CATALOGUE_DOMAIN,))

    def grants(self, tenant_id: str, organization_id: str, role: str | None) -> CompiledGrants:
        """Return the compiled grants of the principal in a tenant."""
        principal = self.principal
        principal_id = str(principal.key_id or principal.workload_id or principal.user_id)
        kind, catalogue = KINDS[principal.kind], self.catalogue()

        def load(connection: Connection) -> CompiledGrants:
            stored = PrincipalGrants.load(
                connection, kind, principal_id, tenant_id, organization_id, role, principal.scopes
            )
            return self._decisions.compiled(connection, stored, catalogue)

        return self._read(("grants", tenant_id), load, lambda _: (organization_id, CATALOGUE_DOMAIN))

    def credential_domains(self) -> frozenset[str]:
        """Return the domains whose revision changes when the credential is revoked or changed."""
        own = (self.own_organization(),) if self.principal.tenant_id else ()
        return self._with_user(own)

    def _read(self, key: Hashable, load: Callable[[Connection], T], domains: Callable[[T], Iterable[str]]) -> T:
        if key not in self.values:
            if self._connection is None:
                raise NotLoaded
            value = load(self._connection)
            self.values[key] = Entitlement(value, self._with_user(domains(value)))
        return cast(T, self.values[key].value)

    def _with_user(self, domains: Iterable[str]) -> frozenset[str]:
        return frozenset((*domains, self.principal.user_id) if self.principal.user_id else domains)
