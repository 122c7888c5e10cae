"""Principals of a tenant, with names and grants."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from sqlalchemy import Connection

from service import errors, validation
from service.db.engine import Record
from service.principals import queries
from service.principals.grants import PrincipalGrants, PrincipalType, organization_id_of, policies_for_all, role_in


@dataclass(frozen=True, slots=True)
class TenantPrincipal:
    """A principal of a tenant; `works` is false for a revoked or expired key."""

    grants: PrincipalGrants
    name: str
    works: bool = True

    @property
    def kind(self) -> PrincipalType:
        return self.grants.kind

    @property
    def id(self) -> str:
        return self.grants.id

    def wire(self) -> dict[str, object]:
        return {"type": self.kind, "id": self.id, "name": self.name}


def get_principal(connection: Connection, tenant_id: str, kind: str, identifier: str, at: datetime) -> TenantPrincipal:
    """Return a principal of the tenant.

    Raises:
        ApiError: flat 404 for an unknown id.
    """
    organization_id = organization_id_of(connection, tenant_id)
    row = _row(connection, tenant_id, kind, identifier)
    if row is None:
        raise errors.not_found()
    principal_type = cast(PrincipalType, kind)
    if kind == "user":
        role, scopes = row.role, ()
    else:
        role, scopes = role_in(connection, tenant_id, row.user_id) if kind == "api_key" else None, row.scopes
    grants = PrincipalGrants.load(connection, principal_type, row.id, tenant_id, organization_id, role, scopes)
    return _tenant_principal(row, grants, at)


def _row(connection: Connection, tenant_id: str, kind: str, identifier: str) -> Record | None:
    if kind == "user":
        return next((row for row in queries.people(connection, tenant_id) if row.id == identifier), None)
    lookup = queries.key if kind == "api_key" else queries.identity
    return lookup(connection, tenant_id, identifier) if validation.is_id(identifier) else None


def list_principals(connection: Connection, tenant_id: str, at: datetime) -> Iterator[TenantPrincipal]:
    """Yield every person, live key and identity of a tenant."""
    organization_id = organization_id_of(connection, tenant_id)
    people = queries.people(connection, tenant_id)
    roles = {row.id: row.role for row in people}
    policies = policies_for_all(connection, tenant_id)
    for row in people:
        yield _tenant_principal(row, PrincipalGrants.of("user", row.id, tenant_id, organization_id, row.role, ()), at)
    for row in queries.keys(connection, tenant_id, at):
        role, applied = roles.get(row.user_id), policies.get(("api_key", row.id), ())
        grants = PrincipalGrants.of("api_key", row.id, tenant_id, organization_id, role, row.scopes, applied)
        yield _tenant_principal(row, grants, at)
    for row in queries.identities(connection, tenant_id):
        applied = policies.get(("workload_identity", row.id), ())
        grants = PrincipalGrants.of("workload_identity", row.id, tenant_id, organization_id, None, row.scopes, applied)
        yield _tenant_principal(row, grants, at)


def _tenant_principal(row: Record, grants: PrincipalGrants, at: datetime) -> TenantPrincipal:
    if grants.kind == "user":
        return TenantPrincipal(grants, f"{row.name} <{row.email}>")
    if grants.kind == "api_key":
        return TenantPrincipal(grants, row.name, works=row.revoked_at is None and at < row.expires_at)
    return TenantPrincipal(grants, f"{row.namespace}/{row.service_account}")
