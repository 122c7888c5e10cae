"""A tenant to provision, and its progress."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import select, update

from service.catalogue.operations import roles
from service.catalogue.resource_types import default_limits
from service.clock import FixedClock
from service.db.engine import Database
from service.db.tables import (
    audit_log,
    billing_accounts,
    isolation_projects,
    operations,
    organizations,
    tenant_quotas,
    tenant_roles,
    tenants,
)
from service.tenants.provisioning import ProvisioningJob, plan
from tests.service import factories
from tests.service.queries import fetch, fetch_row

NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
BEFORE = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Planned:
    database: Database
    tenant_id: str
    organization_id: str
    run_id: str

    @property
    def provisioning(self) -> ProvisioningJob:
        return ProvisioningJob(self.database, FixedClock(NOW), pace=0)

    def row(self) -> dict[str, Any]:
        return fetch_row(self.database, select(operations).where(operations.c.run_id == self.run_id))

    def tenant(self) -> dict[str, Any]:
        return fetch_row(self.database, select(tenants).where(tenants.c.id == self.tenant_id))

    def parts(self) -> tuple[int, ...]:
        """Return the numbers of rows of the steps: isolation, roles, quotas, billing account."""
        tables = (isolation_projects, tenant_roles, tenant_quotas, billing_accounts)
        rows = (fetch(self.database, select(table).where(table.c.tenant_id == self.tenant_id)) for table in tables)
        return tuple(map(len, rows))

    def audited(self) -> list[tuple[str, str]]:
        entries = select(audit_log.c.actor_kind, audit_log.c.operation)
        return list(map(tuple, fetch(self.database, entries.where(audit_log.c.tenant_id == self.tenant_id))))

    def is_whole(self) -> None:
        assert self.row()["status"] == "completed"
        assert self.row()["progress"] == 100
        assert [step["status"] for step in self.row()["steps"]] == ["completed"] * 4
        assert self.tenant()["status"] == "active"
        assert self.parts() == (1, len(roles()), len(default_limits()), 1)
        assert self.audited() == [("platform", "tenant.provision")]


def planned_on(database: Database, *, faults: dict[str, int] | None = None) -> Planned:
    organization_id, tenant_id = str(uuid4()), str(uuid4())
    organization = factories.organization(organization_id, BEFORE, slug=f"aurora-{organization_id[:8]}")
    tenant = factories.tenant(
        tenant_id, BEFORE, organization_id=organization_id, slug="web-shop", status="provisioning"
    )
    with database.write() as connection:
        factories.add(connection, {organizations: organization, tenants: tenant})
        run_id = plan(connection, tenant_id=tenant_id, started_by=None, at=BEFORE)
        if faults:
            planned = update(operations).where(operations.c.run_id == run_id)
            connection.execute(planned.values(snapshot={"faults": faults}))
    return Planned(database, tenant_id, organization_id, run_id)


def completed(planned: Planned) -> Callable[[], bool]:
    return lambda: planned.row()["status"] == "completed"
