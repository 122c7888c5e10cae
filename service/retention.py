"""Retention: the rows that are removed, hourly and in small batches.

These rows remain: the audit log; open operations and pending quota requests; the operations in a tenant's list of
applies, and all with an undo log; the current version of a policy and of default tags; keys, people and organizations.

Several replicas may sweep at the same time. Each batch is a transaction that skips locked rows, and a pause follows
that is at least as long, so that other writers get half of the time. A sweep that finds nothing only reads.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, func, or_, select, tuple_, update

from service.api import changes
from service.clock import Clock
from service.db.engine import Database, Record
from service.db.revisions import lock_domains
from service.db.tables import (
    applied_tags,
    authorization_codes,
    default_tag_versions,
    device_codes,
    idempotency_keys,
    operations,
    policies,
    policy_versions,
    quota_requests,
    refresh_tokens,
    sessions,
    tenants,
    users,
    workload_identities,
    workload_tokens,
)
from service.default_tags import apply_job
from service.default_tags.queries import MAX_UNDO_RUNS
from service.jobs.queries import is_open
from service.quotas.quota_request import PENDING
from service.settings import DAY_SECONDS, Retention

logger = logging.getLogger(__name__)

REUSE_PERIOD = timedelta(days=1)
"""After the expiry of codes and refresh tokens, in which their reuse is detected."""
MAX_PROPAGATION = timedelta(seconds=DAY_SECONDS)
"""The longest time in which earlier default tags apply to new resources (FROST_PLATFORM_TAG_PROPAGATION)."""
CLOCK_SKEW = timedelta(minutes=1)
"""By which the clock of an external issuer may be ahead."""
SWEEP_SECONDS = 3_600.0
MIN_PAUSE_SECONDS = 0.05
BATCH_ROWS = 200
QUERIED_BATCHES = 50
"""Number of batches with keys in memory at the same time."""


@dataclass(frozen=True)
class Rule:
    """Rows of a table to remove.

    `domain` is that of the revision which a removal increases (`service/db/revisions.py`).
    """

    table: Table
    is_due: ColumnElement[bool]
    domain: ColumnElement[Any] | None = None

    def prepare(self, connection: Connection, rows: Sequence[Record]) -> None:
        """Store the parts of rows that must remain. Rows have the columns of the primary key and are locked."""


def rules(settings: Retention, at: datetime) -> Iterator[Rule]:
    """Yield the rules at an instant. Tables that refer to others come first."""
    yield Rule(idempotency_keys, idempotency_keys.c.created_at < at - changes.IDEMPOTENCY_KEY_LIFETIME)
    for table in (device_codes, authorization_codes, refresh_tokens):
        yield Rule(table, table.c.expires_at < at - REUSE_PERIOD)
    yield Rule(workload_tokens, workload_tokens.c.expires_at <= at, domain=_organization_of_token())
    if settings.session_days:
        before = at - timedelta(days=settings.session_days)
        is_over = or_(sessions.c.ended_at < before, sessions.c.expires_at < before)
        yield Rule(refresh_tokens, refresh_tokens.c.session_id.in_(select(sessions.c.id).where(is_over)))
        yield SessionRule(sessions, and_(is_over, _has_no_refresh_token()), domain=sessions.c.user_id)
    if settings.operation_days:
        before = at - timedelta(days=settings.operation_days)
        yield Rule(operations, and_(operations.c.completed_at < before, ~is_open(), ~_is_listed_apply(), _has_no_log()))
    if settings.quota_request_days:
        before = at - timedelta(days=settings.quota_request_days)
        decided_at = func.coalesce(quota_requests.c.decided_at, quota_requests.c.created_at)
        yield Rule(quota_requests, and_(quota_requests.c.status != PENDING, decided_at < before))
    if settings.versions:
        yield Rule(policy_versions, _is_old_policy_version(settings.versions))
        yield Rule(default_tag_versions, _is_old_tag_version(settings.versions, at - MAX_PROPAGATION))


class SessionRule(Rule):
    def prepare(self, connection: Connection, rows: Sequence[Record]) -> None:
        """Refuse sign-ins of removed sessions at an external issuer: their tokens would start new sessions."""
        started = (
            select(sessions.c.user_id, func.max(sessions.c.started_at).label("started_at"))
            # The local issuer's sessions have their id as the subject.
            .where(sessions.c.id.in_([row.id for row in rows]), sessions.c.subject != sessions.c.id)
            .group_by(sessions.c.user_id)
            .order_by(sessions.c.user_id)
        )
        for user_id, started_at in connection.execute(started).all():
            revoked_at = started_at + CLOCK_SKEW
            is_earlier = or_(users.c.sessions_revoked_at.is_(None), users.c.sessions_revoked_at < revoked_at)
            connection.execute(
                update(users).where(users.c.id == user_id, is_earlier).values(sessions_revoked_at=revoked_at)
            )


def _organization_of_token() -> ColumnElement[Any]:
    return (
        select(tenants.c.organization_id)
        .join(workload_identities, workload_identities.c.tenant_id == tenants.c.id)
        .where(workload_identities.c.id == workload_tokens.c.identity_id)
        .scalar_subquery()
    )


def _has_no_refresh_token() -> ColumnElement[bool]:
    return ~select(refresh_tokens.c.token_hash).where(refresh_tokens.c.session_id == sessions.c.id).exists()


def _has_no_log() -> ColumnElement[bool]:
    return ~select(applied_tags.c.run_id).where(applied_tags.c.run_id == operations.c.run_id).exists()


def _is_listed_apply() -> ColumnElement[bool]:
    """Return whether an operation is among the tenant's latest applies, which `listDefaultTagRuns` returns."""
    latest = operations.alias()
    oldest_listed = (
        select(latest.c.created_at)
        .where(latest.c.tenant_id == operations.c.tenant_id, latest.c.kind == apply_job.KIND)
        .order_by(latest.c.created_at.desc())
        .limit(1)
        .offset(MAX_UNDO_RUNS - 1)
        .scalar_subquery()
    )
    is_recent = or_(oldest_listed.is_(None), operations.c.created_at >= oldest_listed)
    return and_(operations.c.kind == apply_job.KIND, is_recent)


def _is_old_policy_version(kept: int) -> ColumnElement[bool]:
    version = select(policies.c.version).where(policies.c.id == policy_versions.c.policy_id).scalar_subquery()
    return and_(
        # Finds the few policies before their versions.
        policy_versions.c.policy_id.in_(select(policies.c.id).where(policies.c.version > kept)),
        policy_versions.c.version <= version - kept,
    )


def _is_old_tag_version(kept: int, propagated: datetime) -> ColumnElement[bool]:
    version = (
        select(tenants.c.default_tags_version).where(tenants.c.id == default_tag_versions.c.tenant_id).scalar_subquery()
    )
    newer = default_tag_versions.alias()
    is_replaced = select(newer.c.version).where(
        newer.c.tenant_id == default_tag_versions.c.tenant_id,
        newer.c.version > default_tag_versions.c.version,
        newer.c.changed_at < propagated,
    )
    return and_(
        default_tag_versions.c.tenant_id.in_(select(tenants.c.id).where(tenants.c.default_tags_version > kept)),
        default_tag_versions.c.version <= version - kept,
        is_replaced.exists(),
    )


class RetentionSweep:
    """Call `remove_batch` again after the seconds that it returns."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        settings: Retention,
        *,
        interval: float = SWEEP_SECONDS,
        batch_rows: int = BATCH_ROWS,
        queried_batches: int = QUERIED_BATCHES,
    ) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings
        self._interval = interval
        self._batch_rows = batch_rows
        self._queried_rows = batch_rows * queried_batches
        self._batches: Iterator[bool] = iter(())
        self._running = False

    def remove_batch(self) -> float:
        """Remove the next batch of the sweep, or of a new one; return the seconds until the next batch."""
        began = time.monotonic()
        if not self._running:
            self._batches = self._sweep()
        # After an error the next call begins a new sweep.
        self._running = False
        self._running = next(self._batches, False)
        return max(MIN_PAUSE_SECONDS, time.monotonic() - began) if self._running else self._interval

    def _sweep(self) -> Iterator[bool]:
        """Remove all rows that are due now; yield True after each batch."""
        removed: Counter[str] = Counter()
        for rule in rules(self._settings, self._clock.now()):
            more = True
            while more:
                with self._database.read() as connection:
                    keys = connection.execute(_due(rule).limit(self._queried_rows)).all()
                before = removed[rule.table.name]
                for start in range(0, len(keys), self._batch_rows):
                    with self._database.write() as connection:
                        batch = keys[start : start + self._batch_rows]
                        removed[rule.table.name] += remove(connection, rule, batch)
                    yield True
                # Without progress the rows are locked: the next sweep gets them.
                more = len(keys) == self._queried_rows and removed[rule.table.name] > before
        if removed := +removed:
            logger.info("removed %s", ", ".join(f"{count} {name}" for name, count in removed.items()))


def remove(connection: Connection, rule: Rule, keys: Sequence[Any]) -> int:
    """Remove the rows of these keys that are still due and not locked; return their number."""
    if rule.domain is not None and connection.dialect.name == "postgresql":
        domains = select(rule.domain).where(_is_among(rule, keys)).distinct()
        lock_domains(connection, connection.scalars(domains))
    query = _due(rule).where(_is_among(rule, keys))
    rows = connection.execute(query.with_for_update(skip_locked=True, of=rule.table)).all()
    if rows:
        rule.prepare(connection, rows)
        connection.execute(delete(rule.table).where(_is_among(rule, rows)))
    return len(rows)


def _due(rule: Rule) -> Any:
    return select(*rule.table.primary_key).where(rule.is_due)


def _is_among(rule: Rule, keys: Sequence[Any]) -> ColumnElement[bool]:
    """Return whether a row has one of these primary keys."""
    columns = list(rule.table.primary_key)
    if len(columns) == 1:
        return columns[0].in_([key[0] for key in keys])
    return tuple_(*columns).in_([tuple(key) for key in keys])
