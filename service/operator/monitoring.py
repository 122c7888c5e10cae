"""Monitoring of the platform: liveness and readiness checks, and metrics in Prometheus' text format.

The checks need no credential and are outside `/api`. `/metrics` is only for the owner of the unix socket.
FROST_PLATFORM_METRICS=HOST:PORT serves the metrics on a separate port. The Prometheus library is imported on demand,
because its import takes a fifth of the start-up time.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import func, select, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import QueuePool
from starlette.responses import Response

from service.api.dependencies import PlatformDep
from service.api.protected_route import protected_router
from service.audit import chain
from service.audit.sealer import is_unsealed
from service.audit.seals import ChainBroken
from service.clock import SystemClock
from service.context import Platform
from service.db import migrate
from service.db.dialect import Busy
from service.db.engine import Database
from service.db.storage import is_storage_failure
from service.db.tables import audit_head, audit_log, operations
from service.http_server.request_metrics import ADVICE, BUCKETS
from service.jobs import queries
from service.jobs.queries import OPEN, is_open, stalled_count
from service.jobs.worker import WorkerDep
from service.json_bodies import JSONResponse
from service.settings import VERSION

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

logger = logging.getLogger(__name__)
router = protected_router("health")
metrics_router = protected_router("metrics")

NO_ANSWER = {"database": "no_answer"}
"""The result if the checks do not end."""
OPTIONAL = frozenset({"triggers"})
"""Checks without which requests can be served: without triggers, no grants are cached."""
MAX_CLOCK_LAG = timedelta(seconds=5)
MIN_FREE_BYTES = 16 * 1024 * 1024
"""For the log and the SQLite database in the data folder."""


@router.get("/healthz", operation_id="alive")
async def alive() -> JSONResponse:
    """Answer 200 while the process answers requests."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz", operation_id="ready")
async def ready(platform: PlatformDep) -> JSONResponse:
    """Answer 200 if requests can be served, otherwise 503 with the status `stopping` or `degraded`.

    Each check is `ok` or another word. Results are about a second old, and up to ten while the database is slow.
    """
    results = with_current_state(
        platform, await platform.readiness.get_soon(lambda: _run_checks(platform)) or NO_ANSWER
    )
    healthy = all(is_good(result) for name, result in results.items() if name not in OPTIONAL)
    status = "stopping" if platform.draining.is_set() else "ok" if healthy else "degraded"
    return JSONResponse({"status": status, "checks": results}, 200 if status == "ok" else 503)


def checks(platform: Platform) -> Mapping[str, str]:
    """Return the readiness checks, at most a second old."""
    return with_current_state(platform, platform.readiness.get(lambda: _run_checks(platform)))


def start_checks(platform: Platform) -> None:
    """Start the checks before the first request."""
    platform.readiness.refresh(lambda: _run_checks(platform))


def repeat_checks(platform: Platform, *, is_in_use: bool) -> None:
    """Start the checks again if their result is old; see `ReadinessCache.repeat`."""
    platform.readiness.repeat(lambda: _run_checks(platform), is_in_use=is_in_use)


def is_good(result: str) -> bool:
    """Return whether requests can be served; `busy` only means concurrent writes."""
    return result in ("ok", "busy")


def with_current_state(platform: Platform, results: Mapping[str, str]) -> Mapping[str, str]:
    """Add what is known without a query, and may be newer than the results."""
    newer = {}
    if platform.draining.is_set():
        newer["operations"] = "stopping"
    if (state := storage_state(platform.database)) != "ok":
        newer["database"] = state
    return {**results, **newer}


def storage_state(database: Database) -> str:
    """Return `ok`, `moved` (the file of SQLite) or `failed` (an error of the storage, and no change since)."""
    if database.files is not None and not database.files.are_in_place():
        return "moved"
    return "failed" if database.has_storage_failed else "ok"


def _run_checks(platform: Platform) -> dict[str, str]:
    results = {
        "database": database_check(platform),
        "migrations": "unknown",
        "operations": "unknown",
        "audit": "unknown",
        "disk": disk_check(platform),
        "clock": clock_check(platform),
        "triggers": "failed" if platform.cache_guard.missing else "ok",
    }
    # Only the local issuer has a key here, so the result is not one of every platform.
    if (state := platform.check_issuer()) != "ok":
        results["issuer"] = state
    if results["database"] != "unreachable":
        try:
            # A revision ahead is fine: a newer replica has migrated the database.
            results["migrations"] = "behind" if migrate.is_behind(migrate.stored_revision(platform.database)) else "ok"
            with platform.database.read() as connection:
                queries.open_count(connection)
            results["operations"] = "stopping" if platform.stopping.is_set() else platform.check_operations()
            results["audit"] = audit_check(platform)
        except SQLAlchemyError:
            logger.exception("a readiness check failed")
    return results


def database_check(platform: Platform) -> str:
    """Return the state of the database.

    Not `ok`: those of `storage_state`, `unreachable`, `read_only` or `full` (a recent change failed).
    """
    database = platform.database
    try:
        with database.read() as connection:
            connection.execute(text("SELECT 1"))
        if database.has_storage_failed:
            database.retry_storage()
        if (state := storage_state(database)) != "ok":
            logger.error("the storage of the database failed: %s", state)
            return state
    except (SQLAlchemyError, OSError) as error:
        logger.exception("the database cannot be reached")
        return "failed" if is_storage_failure(error) else "unreachable"
    if not database.is_writable():
        return "read_only"
    return "ok" if platform.request_metrics.is_writable() else "full"


def audit_check(platform: Platform) -> str:
    """Return `ok`, `busy` (concurrent writes), `broken` (the chain is not that of the mark) or `unwritable`.

    With the last two, every change fails.
    """
    try:
        platform.chain_watch.require_intact()
        return "ok" if chain.can_append(platform.database, platform.secret) else "unwritable"
    except Busy:
        return "busy"
    except ChainBroken as error:
        logger.error("%s", error)
        return "broken"


def clock_check(platform: Platform) -> str:
    """Return `ok`, or `went_back` if the system clock was set back, which the platform ignores until it restarts."""
    clock = platform.clock
    return "went_back" if isinstance(clock, SystemClock) and clock.lag() > MAX_CLOCK_LAG else "ok"


def disk_check(platform: Platform) -> str:
    try:
        disk = os.statvfs(platform.settings.data_dir)
    except OSError as error:
        logger.error("the data directory cannot be read: %s", error)
        return "failed"
    return "ok" if disk.f_bavail * disk.f_frsize >= MIN_FREE_BYTES else "full"


@metrics_router.get("/metrics", operation_id="readMetrics")
def read_metrics(platform: PlatformDep, worker: WorkerDep) -> Response:
    """Return the platform's metrics in Prometheus' text format."""
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

    return Response(generate_latest(registry(platform, worker.kinds)), media_type=CONTENT_TYPE_LATEST)


def listen(platform: Platform, kinds: Iterable[str], host: str, port: int) -> tuple[str, int]:
    """Serve the metrics from a thread; return the actual address.

    Raises:
        OSError: the address is not local or is in use.
    """
    from prometheus_client import start_http_server

    server, _ = start_http_server(port, host, registry(platform, kinds))
    return host, server.server_port


def registry(platform: Platform, kinds: Iterable[str]) -> "CollectorRegistry":
    """Return a registry that reads the platform at each scrape."""
    from prometheus_client import CollectorRegistry, ProcessCollector

    collectors = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=collectors)
    collectors.register(Collector(platform, kinds))
    return collectors


class Collector:
    def __init__(self, platform: Platform, kinds: Iterable[str]) -> None:
        self.platform = platform
        self.kinds = tuple(kinds)

    def describe(self) -> Iterator["Metric"]:
        return iter(())

    def collect(self) -> Iterator["Metric"]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily

        database = self.platform.database
        yield InfoMetricFamily("frost", "This platform", {"version": VERSION, "database": database.kind})
        yield from self._requests()
        failures = self.platform.request_metrics.audit_failures
        yield CounterMetricFamily(
            "frost_audit_write_failures", "Changes refused because their entry could not be written", failures
        )
        yield CounterMetricFamily(
            "frost_database_write_waits", "Changes that waited for another change", database.lock_waits
        )
        pool = database.engine.pool
        if isinstance(pool, QueuePool):
            connections = GaugeMetricFamily("frost_database_connections", "Connections", labels=["state"])
            connections.add_metric(["in_use"], pool.checkedout())
            connections.add_metric(["idle"], pool.checkedin())
            yield connections
        yield CounterMetricFamily(
            "frost_database_set_backs",
            "Times the database was set back or replaced",
            self.platform.cache_guard.set_backs,
        )
        readiness = GaugeMetricFamily("frost_ready", "1 when a check of readiness is ok or busy", labels=["check"])
        for name, result in checks(self.platform).items():
            readiness.add_metric([name], is_good(result))
        yield readiness
        try:
            yield from self._stored()
        except SQLAlchemyError:
            logger.exception("the numbers of the database cannot be read")

    def _requests(self) -> Iterator["Metric"]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        metrics = self.platform.request_metrics
        requests = CounterMetricFamily("frost_requests", "Requests answered", labels=["method", "route", "status"])
        for (method, route, status), count in list(metrics.requests.items()):
            requests.add_metric([method, route, str(status)], count)
        yield requests
        refused = CounterMetricFamily("frost_refused", "Requests and connections beyond a limit", labels=["limit"])
        for limit in ADVICE:
            refused.add_metric([limit], metrics.rejections.counts[limit])
        yield refused
        for state in ("running", "waiting"):
            gauge = GaugeMetricFamily(f"frost_requests_{state}", f"Requests {state} in the queues", labels=["work"])
            for work, queue in self.platform.work.queues.items():
                gauge.add_metric([work.value], getattr(queue, state))
            yield gauge
        seconds = HistogramMetricFamily("frost_request_seconds", "Time to the complete response", labels=["route"])
        for route, (total, counts) in list(metrics.seconds.items()):
            cumulative, buckets = 0, []
            for bound, count in zip((*BUCKETS, float("inf")), list(counts), strict=True):
                cumulative += count
                buckets.append(("+Inf" if bound == float("inf") else str(bound), cumulative))
            seconds.add_metric([route], buckets, total)
        yield seconds

    def _stored(self) -> Iterator["Metric"]:
        from prometheus_client.core import GaugeMetricFamily

        with self.platform.database.read() as connection:
            counts = connection.execute(
                select(operations.c.kind, operations.c.status, func.count())
                .where(is_open())
                .group_by(operations.c.kind, operations.c.status)
            ).all()
            stalled = stalled_count(connection, self.platform.clock.now())
            entries = connection.scalar(select(audit_head.c.entries)) or 0
            unsealed = connection.scalar(select(func.count()).select_from(audit_log).where(is_unsealed())) or 0
        running = GaugeMetricFamily("frost_operations_open", "Running operations", labels=["kind", "status"])
        # Zeros are included, because absent series could trigger alerts.
        zeros = {(kind, status): 0 for kind in self.kinds for status in OPEN}
        for (kind, status), count in {**zeros, **{(kind, status): count for kind, status, count in counts}}.items():
            running.add_metric([kind, status], count)
        yield running
        yield GaugeMetricFamily("frost_operations_stalled", "Open operations without progress for a minute", stalled)
        yield GaugeMetricFamily("frost_audit_entries", "Entries in the audit log's chain, with dropped ones", entries)
        yield GaugeMetricFamily("frost_audit_unsealed", "Entries that wait for their seal", unsealed)


router.routes.extend(metrics_router.routes)
