"""Setting up a new tenant: four steps, each done exactly once whatever is killed when.

The operations row is the only memory. A step begins in one transaction (which makes it visible) and is carried
out in another that holds its work, its state and `seq + 1` together; between the two it waits so long that a
person can watch it. A failed attempt is written down and tried again, ever later; after `max_tries` of one step the
run fails and the tenant stays `provisioning`. The next start of the platform plans another run for such a tenant.
contract: Tenant, create; checklist T03, T07, T08; design: Durable operations

What each provisioning step adds for a tenant. Every statement may run again and then changes nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, RowMapping, Table, select, update
from sqlalchemy.exc import IntegrityError

from service.audit.entries import record
from service.catalogue.operations import roles
from service.catalogue.quota_types import default_limits
from service.clock import Clock, wire_time
from service.db.dialect import upsert_insert
from service.db.engine import Database
from service.db.errors import is_unreachable
from service.db.tables import (
    billing_accounts,
    isolation_projects,
    organizations,
    tenant_quotas,
    tenant_roles,
    tenants,
)
from service.jobs import queries
from service.principal import PLATFORM
from service.settings import DEFAULT_OPERATION_TRIES

logger = logging.getLogger(__name__)

KIND = "provision_tenant"
STEPS = ("isolation", "roles", "quotas", "billing_account")
LONGEST_WAIT = 60.0
BACKENDS = {"isolation": "isolation", "roles": "roles", "quotas": "quota", "billing_account": "billing"}
WORKFLOW_ERROR = "WORKFLOW_ERROR"
UNEXPECTED = "the step failed unexpectedly"


class BackendUnavailable(Exception):
    """A service that a step needs cannot be reached now. The text is for the customer."""


def plan(connection: Connection, *, tenant_id: str, started_by: str | None, at: datetime) -> str:
    """Writes the operation that will provision the tenant; returns its run id.

    Raises IntegrityError when one is open already for this tenant.
    """
    run_id = str(uuid4())
    queries.add(
        connection,
        {
            "run_id": run_id,
            "operation_id": operation_id(tenant_id),
            "tenant_id": tenant_id,
            "kind": KIND,
            "status": "pending",
            "started_by": started_by,
            "resource_type": "tenant",
            "resource_id": tenant_id,
            "progress": 0,
            "steps": pending_steps(),
            "seq": 0,
            "counts": {},
            "created_at": at,
            "updated_at": at,
        },
    )
    return run_id


def operation_id(tenant_id: str) -> str:
    return f"provision-tenant-{tenant_id}"


def pending_steps() -> list[dict[str, Any]]:
    """The steps of an operation nobody has begun."""
    return [
        {"name": name, "status": "pending", "attempts": 0, "startedAt": None, "completedAt": None, "error": None}
        for name in STEPS
    ]


@dataclass(frozen=True)
class ProvisioningJob:
    """Carries runs of `provision_tenant` forward. `pace` is the least time of a step, in seconds."""

    database: Database
    clock: Clock
    pace: float
    max_tries: int = DEFAULT_OPERATION_TRIES

    async def run(self, run_id: str) -> None:
        """Takes the run to its end, from wherever the last process left it. Cancelling is safe at any await."""
        while (name := await asyncio.to_thread(self.begin, run_id)) is not None:
            await asyncio.sleep(self.pace)
            try:
                await asyncio.to_thread(self.carry_out, run_id, name)
            except Exception as error:
                if not isinstance(error, BackendUnavailable):
                    logger.exception("step %s of run %s failed", name, run_id)
                text = str(error) if isinstance(error, BackendUnavailable) else UNEXPECTED
                attempts = await asyncio.to_thread(self.put_off, run_id, name, text, count=not is_unreachable(error))
                await asyncio.sleep(self.wait_after(attempts))

    def begin(self, run_id: str) -> str | None:
        """Shows the next step as running and returns its name; None when the run is over.

        A step found running was cut short by a kill or a stop: the attempt goes on and is not counted again.
        """
        with self.database.write() as connection:
            row = queries.locked(connection, run_id)
            if row is None or row["status"] not in queries.OPEN:
                return None
            now = self.clock.now()
            index, step = next((i, s) for i, s in enumerate(row["steps"]) if s["status"] != "completed")
            if step["status"] != "running":
                changed = step | {
                    "status": "running",
                    "attempts": step["attempts"] + 1,
                    "startedAt": step["startedAt"] or wire_time(now),
                }
                queries.advance(
                    connection,
                    run_id,
                    at=now,
                    status="running",
                    started_at=row["started_at"] or now,
                    current_step=f"{step['name']} ({index + 1}/{len(row['steps'])})",
                    steps=_with_step(row, changed),
                )
            return str(step["name"])

    def carry_out(self, run_id: str, name: str) -> None:
        """Does the step's work and writes it down, and with the last one the end of the run. All or nothing.

        Raises BackendUnavailable when a backend of the step is out of reach.
        """
        with self.database.write() as connection:
            row = queries.locked(connection, run_id)
            step = _open_step(row, name)
            if row is None or step is None:
                return
            _meet_fault(row, step)
            now = self.clock.now()
            WORK[name](connection, row["tenant_id"], now)
            steps = _with_step(row, step | {"status": "completed", "completedAt": wire_time(now), "error": None})
            done = sum(s["status"] == "completed" for s in steps)
            changes: dict[str, Any] = {"steps": steps, "progress": 100 * done // len(steps)}
            if done == len(steps):
                changes |= {"status": "completed", "completed_at": now}
                _activate(connection, row, now)
            queries.advance(connection, run_id, at=now, **changes)

    def put_off(self, run_id: str, name: str, error: str, *, count: bool = True) -> int:
        """Show that a step failed, and end the run as failed after `max_tries`; return the attempts of the step.

        The attempts are stored with the step, so a restart does not begin to count again.

        Args:
            count: False if the database was away: that ends without the run, so the attempt does not count.
        """
        with self.database.write() as connection:
            row = queries.locked(connection, run_id)
            step = _open_step(row, name)
            if row is None or step is None:
                return 0
            now = self.clock.now()
            attempts = int(step["attempts"])
            if count and attempts >= self.max_tries:
                queries.advance(
                    connection,
                    run_id,
                    at=now,
                    status="failed",
                    error=f"gave up after {attempts} tries at {row['current_step']}: {error}",
                    error_code=WORKFLOW_ERROR,
                    completed_at=now,
                    steps=_with_step(row, step | {"status": "failed", "error": error}),
                )
                _record(connection, row, now, outcome="failed", reason=WORKFLOW_ERROR)
                return attempts
            kept = attempts if count else attempts - 1
            changed = step | {"status": "retrying", "error": error, "attempts": kept}
            queries.advance(connection, run_id, at=now, steps=_with_step(row, changed))
            return attempts

    def wait_after(self, attempts: int) -> float:
        """Seconds to wait after so many attempts: twice as long each time, at most a minute."""
        return min(LONGEST_WAIT, max(self.pace, 0.01) * 2.0 ** min(attempts, 30))


def _open_step(row: RowMapping | None, name: str) -> dict[str, Any] | None:
    """The named step, unless it or its run is done already (another process may have been quicker)."""
    if row is None or row["status"] not in queries.OPEN:
        return None
    return next((step for step in row["steps"] if step["name"] == name and step["status"] != "completed"), None)


def _with_step(row: RowMapping, changed: dict[str, Any]) -> list[dict[str, Any]]:
    return [changed if step["name"] == changed["name"] else step for step in row["steps"]]


def _meet_fault(row: RowMapping, step: dict[str, Any]) -> None:
    """The faults a world asks for: `{"faults": {"billing_account": 2}}` fails that step's first two attempts."""
    failing = (row["snapshot"] or {}).get("faults", {}).get(step["name"], 0)
    if step["attempts"] <= failing:
        raise BackendUnavailable(f"{BACKENDS[step['name']]} backend unavailable")


def _activate(connection: Connection, row: RowMapping, now: datetime) -> None:
    """The tenant can be used. Nothing else about it changes, not even `updatedAt` (checklist T03)."""
    tenant_id = row["tenant_id"]
    connection.execute(update(tenants).where(tenants.c.id == tenant_id).values(status="active"))
    _record(connection, row, now)


def _record(connection: Connection, row: RowMapping, now: datetime, outcome: str = "done", **details: str) -> None:
    tenant_id = row["tenant_id"]
    organization_id = connection.execute(
        select(tenants.c.organization_id).where(tenants.c.id == tenant_id)
    ).scalar_one()
    record(
        connection,
        PLATFORM,
        operation="tenant.provision",
        target=f"tenant:{tenant_id}",
        outcome=outcome,
        organization_id=organization_id,
        tenant_id=tenant_id,
        details={"runId": row["run_id"], **details},
        at=now,
    )


def plan_again(database: Database, at: datetime) -> list[str]:
    """Plan a run for each tenant whose provisioning failed or was cancelled; return the run ids.

    Steps that were completed do their work again, which changes nothing that is there.
    """
    planned = []
    with database.read() as connection:
        waiting = queries.tenants_without_run(connection, KIND)
    for tenant_id in waiting:
        # Another process may plan the same one: the database lets one run of a kind be open for a tenant.
        with suppress(IntegrityError), database.write() as connection:
            if queries.is_provisioning(connection, tenant_id):
                planned.append(plan(connection, tenant_id=tenant_id, started_by=None, at=at))
    return planned


# The column takes 120 characters, two slugs may have 64 + 48, and the id's 8 keep the cut name unique.
NAME_OF_ORGANIZATION = 62


def isolation(connection: Connection, tenant_id: str, at: datetime) -> None:
    """A project that nothing of another tenant reaches: `<organization>-<tenant>-<first 8 of the id>`."""
    slugs = connection.execute(
        select(organizations.c.slug.label("organization"), tenants.c.slug.label("tenant"))
        .join_from(tenants, organizations)
        .where(tenants.c.id == tenant_id)
    ).one()
    name = f"{slugs.organization[:NAME_OF_ORGANIZATION]}-{slugs.tenant}-{tenant_id[:8]}"
    _add(connection, isolation_projects, [{"tenant_id": tenant_id, "name": name, "created_at": at}])


def standard_roles(connection: Connection, tenant_id: str, at: datetime) -> None:
    """Every role of the platform, usable in the tenant."""
    _add(connection, tenant_roles, [{"tenant_id": tenant_id, "role": role, "created_at": at} for role in roles()])


def default_quotas(connection: Connection, tenant_id: str, at: datetime) -> None:
    """The platform's defaults; a limit somebody has set already stays. checklist T07"""
    _add(
        connection,
        tenant_quotas,
        [{"tenant_id": tenant_id, "resource_type": kind, "limit": limit} for kind, limit in default_limits().items()],
    )


def billing_account(connection: Connection, tenant_id: str, at: datetime) -> None:
    """The account the tenant's use is billed to; its number follows from the tenant's id."""
    number = f"BA-{tenant_id.replace('-', '')[:12].upper()}"
    _add(connection, billing_accounts, [{"tenant_id": tenant_id, "account_number": number, "created_at": at}])


WORK: Mapping[str, Callable[[Connection, str, datetime], None]] = {
    "isolation": isolation,
    "roles": standard_roles,
    "quotas": default_quotas,
    "billing_account": billing_account,
}


def _add(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Inserts the rows that are not there yet, by primary key; any other conflict is an error."""
    statement = upsert_insert(connection, table).on_conflict_do_nothing(index_elements=list(table.primary_key))
    connection.execute(statement, rows)
