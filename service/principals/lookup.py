"""Principals of a tenant with what their decisions rest on."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from service import errors, validation
from service.db.engine import Record
from service.principals import grants as stored
from service.principals import queries
from service.principals.grants import AppliedPolicy, PrincipalGrants, PrincipalType


@dataclass(frozen=True, slots=True)
class TenantPrincipal:
    """Somebody or something that may do things in a tenant; `works` is false for a revoked or expired key."""

    standing: PrincipalGrants
    name: str
    works: bool = True

    @property
    def kind(self) -> PrincipalType:
        return self.standing.kind

    @property
    def id(self) -> str:
        return self.standing.id

    def wire(self) -> dict[str, object]:
        return {"type": self.kind, "id": self.id, "name": self.name}


def get_principal(connection: Connection, tenant_id: str, kind: str, identifier: str, at: datetime) -> TenantPrincipal:
    """A principal of the tenant.

    Raises:
        Refusal: flat 404 for an id that is none of its principals.
    """
    organization_id = stored.organization_id_of(connection, tenant_id)
    if kind == "user":
        for someone in queries.people(connection, tenant_id):
            if someone.id == identifier:
                return person(someone, tenant_id, organization_id)
        raise errors.not_found()
    lookup = queries.key if kind == "api_key" else queries.identity
    row = lookup(connection, tenant_id, identifier) if validation.is_id(identifier) else None
    if row is None:
        raise errors.not_found()
    held = stored.policies_for_principal(connection, tenant_id, kind, identifier)
    if kind == "workload_identity":
        return identity(row, organization_id, held)
    role = stored.role_in(connection, tenant_id, row.user_id)
    return key(row, tenant_id, organization_id, role, held, at)


def list_principals(connection: Connection, tenant_id: str, at: datetime) -> Iterator[TenantPrincipal]:
    """Every person, working key and identity of a tenant, in a handful of statements."""
    organization_id = stored.organization_id_of(connection, tenant_id)
    people = queries.people(connection, tenant_id)
    roles = {row.id: row.role for row in people}
    held = stored.policies_for_all(connection, tenant_id)
    for row in people:
        yield person(row, tenant_id, organization_id)
    for row in queries.keys(connection, tenant_id, at):
        policies = held.get(("api_key", row.id), ())
        yield key(row, tenant_id, organization_id, roles.get(row.user_id), policies, at)
    for row in queries.identities(connection, tenant_id):
        yield identity(row, organization_id, held.get(("workload_identity", row.id), ()))


def person(row: Record, tenant_id: str, organization_id: str) -> TenantPrincipal:
    """A person: the rules of their role."""
    return TenantPrincipal(
        PrincipalGrants("user", row.id, tenant_id, organization_id, row.role, None), f"{row.name} <{row.email}>"
    )


def key(
    row: Record, tenant_id: str, organization_id: str, role: str | None, held: tuple[AppliedPolicy, ...], at: datetime
) -> TenantPrincipal:
    """A key: its scopes, its creator's role, its policies."""
    standing = PrincipalGrants("api_key", row.id, tenant_id, organization_id, role, tuple(row.scopes), held)
    return TenantPrincipal(standing, row.name, works=row.revoked_at is None and at < row.expires_at)


def identity(row: Record, organization_id: str, held: tuple[AppliedPolicy, ...]) -> TenantPrincipal:
    """A workload identity: its scopes when it has any, its policies."""
    scopes = tuple(row.scopes) or None
    standing = PrincipalGrants("workload_identity", row.id, row.tenant_id, organization_id, None, scopes, held)
    return TenantPrincipal(standing, f"{row.namespace}/{row.service_account}")
