"""The job that provisions a new tenant in four idempotent steps. The operations row has its whole state.

A transaction marks a step as running, and after a pause another does its work and stores the result. Failed steps are
retried with growing delays. After `max_tries` of a step, the run fails; the next start of the platform plans a new run.
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

from service.audit.entries import AuditEvent, record
from service.catalogue.operations import roles
from service.catalogue.resource_types import default_limits
from service.clock import Clock, wire_time
from service.db.dialect import is_unreachable, upsert_insert
from service.db.engine import Database
from service.db.tables import (
    billing_accounts,
    isolation_projects,
    organizations,
    tenant_quotas,
    tenant_roles,
    tenants,
)
from service.jobs import job, queries
from service.jobs.job import WORKFLOW_ERROR, retry_delay
from service.principal import PLATFORM
from service.settings import DEFAULT_OPERATION_TRIES

logger = logging.getLogger(__name__)

KIND = "provision_tenant"
STEPS = ("isolation", "roles", "quotas", "billing_account")
BACKENDS = {"isolation": "isolation", "roles": "roles", "quotas": "quota", "billing_account": "billing"}
UNEXPECTED = "the step failed unexpectedly"


class BackendUnavailable(Exception):
    """A backend of a step is unreachable. The message is public."""


def plan(connection: Connection, *, tenant_id: str, started_by: str | None, at: datetime) -> str:
    """Insert the operation that provisions a tenant; return its run id.

    Raises:
        IntegrityError: the tenant has an open run.
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
    return [
        {"name": name, "status": "pending", "attempts": 0, "startedAt": None, "completedAt": None, "error": None}
        for name in STEPS
    ]


@dataclass(frozen=True)
class ProvisioningJob:
    """Runs operations of the kind `provision_tenant`. `pace` is the minimum duration of a step in seconds."""

    database: Database
    clock: Clock
    pace: float
    max_tries: int = DEFAULT_OPERATION_TRIES

    async def run(self, run_id: str) -> None:
        """Continue a run to its end. It may be cancelled at any await."""
        while (name := await asyncio.to_thread(self.start_step, run_id)) is not None:
            await asyncio.sleep(self.pace)
            try:
                await asyncio.to_thread(self.run_step, run_id, name)
            except Exception as error:
                if not isinstance(error, BackendUnavailable):
                    logger.exception("step %s of run %s failed", name, run_id)
                text = str(error) if isinstance(error, BackendUnavailable) else UNEXPECTED
                attempts = await asyncio.to_thread(
                    self.record_failure, run_id, name, text, count=not is_unreachable(error)
                )
                await asyncio.sleep(retry_delay(attempts, self.pace))

    def start_step(self, run_id: str) -> str | None:
        """Mark the next step as running; return its name, None if the run has ended.

        A step that is already running was interrupted, and continues the same attempt.
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

    def run_step(self, run_id: str, name: str) -> None:
        """Run a step and store its result in one transaction; the last step completes the run.

        Raises:
            BackendUnavailable: a backend of the step is unreachable.
        """
        with self.database.write() as connection:
            row = queries.locked(connection, run_id)
            step = _open_step(row, name)
            if row is None or step is None:
                return
            _inject_fault(row, step)
            now = self.clock.now()
            WORK[name](connection, row["tenant_id"], now)
            steps = _with_step(row, step | {"status": "completed", "completedAt": wire_time(now), "error": None})
            done = sum(s["status"] == "completed" for s in steps)
            changes: dict[str, Any] = {"steps": steps, "progress": 100 * done // len(steps)}
            if done == len(steps):
                changes |= {"status": "completed", "completed_at": now}
                _activate(connection, row, now)
            queries.advance(connection, run_id, at=now, **changes)

    def record_failure(self, run_id: str, name: str, error: str, *, count: bool = True) -> int:
        """Store the failure of a step, and fail the run after `max_tries`; return the attempts of the step.

        Args:
            count: False to ignore the attempt, because the database was unreachable.
        """
        with self.database.write() as connection:
            row = queries.locked(connection, run_id)
            step = _open_step(row, name)
            if row is None or step is None:
                return 0
            now = self.clock.now()
            attempts = int(step["attempts"])
            if count and attempts >= self.max_tries:
                reason = f"failed after {attempts} attempts at {row['current_step']}: {error}"
                _end(connection, row, now, reason, step_error=error)
                return attempts
            counted = attempts if count else attempts - 1
            changed = step | {"status": "retrying", "error": error, "attempts": counted}
            queries.advance(connection, run_id, at=now, steps=_with_step(row, changed))
            return attempts

    def give_up(self, run_id: str, error: Exception) -> None:
        """Fail an open run; its tenant remains `provisioning`."""
        with self.database.write() as connection:
            row = queries.locked(connection, run_id)
            if row is not None and row["status"] in queries.OPEN:
                _end(connection, row, self.clock.now(), job.internal_error(row, self.max_tries, error))


def _end(connection: Connection, row: RowMapping, at: datetime, error: str, step_error: str | None = None) -> None:
    job.end(connection, row, at, status="failed", error=error, code=WORKFLOW_ERROR, step_error=step_error)
    _record(connection, row, at, outcome="failed", reason=WORKFLOW_ERROR)


def _open_step(row: RowMapping | None, name: str) -> dict[str, Any] | None:
    """Return a step by name; None if another process has ended it or its run."""
    if row is None or row["status"] not in queries.OPEN:
        return None
    return next((step for step in row["steps"] if step["name"] == name and step["status"] != "completed"), None)


def _with_step(row: RowMapping, changed: dict[str, Any]) -> list[dict[str, Any]]:
    return [changed if step["name"] == changed["name"] else step for step in row["steps"]]


def _inject_fault(row: RowMapping, step: dict[str, Any]) -> None:
    """Raise a fault of the seed: `{"faults": {"billing_account": 2}}` fails two attempts of that step."""
    failing = (row["snapshot"] or {}).get("faults", {}).get(step["name"], 0)
    if step["attempts"] <= failing:
        raise BackendUnavailable(f"{BACKENDS[step['name']]} backend unavailable")


def _activate(connection: Connection, row: RowMapping, now: datetime) -> None:
    """Set the tenant to `active`, without a new `updatedAt`."""
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
        event=AuditEvent.TENANT_PROVISION,
        target=f"tenant:{tenant_id}",
        outcome=outcome,
        organization_id=organization_id,
        tenant_id=tenant_id,
        details={"runId": row["run_id"], **details},
        at=now,
    )


def plan_again(database: Database, at: datetime) -> list[str]:
    """Plan a run of all steps for each `provisioning` tenant without an open run; return the run ids."""
    planned = []
    with database.read() as connection:
        waiting = queries.tenants_without_run(connection, KIND)
    for tenant_id in waiting:
        # IntegrityError: another process has planned a run.
        with suppress(IntegrityError), database.write() as connection:
            if queries.is_provisioning(connection, tenant_id):
                planned.append(plan(connection, tenant_id=tenant_id, started_by=None, at=at))
    return planned


# The column has 120 characters: 62 + 48 of the slugs, 8 of the unique id, and 2 hyphens.
MAX_ORGANIZATION_SLUG = 62


def isolation(connection: Connection, tenant_id: str, at: datetime) -> None:
    """Create the isolation project `<organization slug>-<tenant slug>-<first 8 characters of the id>`."""
    slugs = connection.execute(
        select(organizations.c.slug.label("organization"), tenants.c.slug.label("tenant"))
        .join_from(tenants, organizations)
        .where(tenants.c.id == tenant_id)
    ).one()
    name = f"{slugs.organization[:MAX_ORGANIZATION_SLUG]}-{slugs.tenant}-{tenant_id[:8]}"
    _add(connection, isolation_projects, [{"tenant_id": tenant_id, "name": name, "created_at": at}])


def standard_roles(connection: Connection, tenant_id: str, at: datetime) -> None:
    _add(connection, tenant_roles, [{"tenant_id": tenant_id, "role": role, "created_at": at} for role in roles()])


def default_quotas(connection: Connection, tenant_id: str, at: datetime) -> None:
    """Set default limits, except limits that are already set."""
    _add(
        connection,
        tenant_quotas,
        [{"tenant_id": tenant_id, "resource_type": kind, "limit": limit} for kind, limit in default_limits().items()],
    )


def billing_account(connection: Connection, tenant_id: str, at: datetime) -> None:
    """Create the billing account, numbered after the tenant id."""
    number = f"BA-{tenant_id.replace('-', '')[:12].upper()}"
    _add(connection, billing_accounts, [{"tenant_id": tenant_id, "account_number": number, "created_at": at}])


WORK: Mapping[str, Callable[[Connection, str, datetime], None]] = {
    "isolation": isolation,
    "roles": standard_roles,
    "quotas": default_quotas,
    "billing_account": billing_account,
}


def _add(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    statement = upsert_insert(connection, table).on_conflict_do_nothing(index_elements=list(table.primary_key))
    connection.execute(statement, rows)


PROVISIONING = "provisioning"
