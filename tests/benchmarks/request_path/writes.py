"""Renaming a resource with its audit entry, beside a bare FastAPI route that stores nothing."""

from collections.abc import Iterator
from contextlib import closing

from sqlalchemy import select

from service.audit.entries import AuditEvent
from service.db.engine import Database
from service.db.tables import audit_log, resources
from tests.benchmarks.ratios import Line
from tests.benchmarks.request_path.resource_loads import bare_writes, instances, renames
from tests.benchmarks.samples import beside
from tests.benchmarks.servers import Platform, bare, platforms
from tests.benchmarks.settings import POSTGRESQL, SQLITE
from tests.service.queries import fetch

GOALS = {SQLITE: 0.3, POSTGRESQL: 0.12}


def run() -> Iterator[Line]:
    against = "a bare route that stores nothing"
    for name, platform in platforms():
        with bare(answer := instances(platform, 1)[0]) as other:
            ours, theirs = renames(platform), (bare_writes(answer), other)
            line = beside(f"writes with an audit entry ({name})", (ours, platform.server), theirs, GOALS[name], against)
            check_stored(platform, ours.acknowledged, ours.cut_off)
            yield line


def check_stored(platform: Platform, acknowledged: int, cut_off: int) -> None:
    """Check that the database has the acknowledged renames.

    Raises:
        RuntimeError: it lacks some, has more than `cut_off` others, or a name is not that of the newest entry.
    """
    updates = audit_log.c.operation == AuditEvent.RESOURCE_UPDATE.value
    with closing(Database(platform.database_url)) as database:
        renamed = select(audit_log.c.target, audit_log.c.details).where(updates).order_by(audit_log.c.id)
        entries, rows = fetch(database, renamed), fetch(database, select(resources))
    names = {f"{row.kind}:{row.id}": row.name for row in rows}
    if not acknowledged <= len(entries) <= acknowledged + cut_off:
        raise RuntimeError(f"{len(entries)} audit entries of {acknowledged} acknowledged writes")
    newest = {target: details["name"]["to"] for target, details in entries}
    if wrong := {target for target, name in newest.items() if names[target] != name}:
        raise RuntimeError(f"the names of {wrong} are not those of their newest audit entries")
