"""Renaming a resource with its audit entry, beside a bare FastAPI route that stores nothing."""

from collections.abc import Iterator

from sqlalchemy import select

from service.audit.entries import AuditEvent
from service.db.engine import Database
from service.db.tables import audit_log, resources
from tests.benchmarks import wrk
from tests.benchmarks.ratios import Line
from tests.benchmarks.request_path.resource_loads import bare_writes, instances, renames
from tests.benchmarks.samples import beside
from tests.benchmarks.servers import Platform, bare, stores
from tests.benchmarks.settings import POSTGRESQL, SQLITE

GOALS = {SQLITE: 0.3, POSTGRESQL: 0.12}


def run() -> Iterator[Line]:
    if not wrk.is_installed():
        return
    for store in stores():
        with Platform(store) as platform, bare(answer := instances(platform, 1)[0]) as other:
            ours = renames(platform)
            line = beside(
                f"writes with an audit entry ({store.name})",
                (ours, platform.server),
                (bare_writes(answer), other),
                GOALS[store.name],
                "a bare route that stores nothing",
            )
            check_stored(platform, ours.acknowledged, ours.cut_off)
            yield line


def check_stored(platform: Platform, acknowledged: int, cut_off: int) -> None:
    """Check that the database has the acknowledged renames.

    Raises:
        RuntimeError: it lacks some, has more than `cut_off` others, or a name is not that of the newest entry.
    """
    database = Database(platform.database_url)
    try:
        with database.read() as connection:
            entries = connection.execute(
                select(audit_log.c.target, audit_log.c.details)
                .where(audit_log.c.operation == AuditEvent.RESOURCE_UPDATE.value)
                .order_by(audit_log.c.id)
            ).all()
            names = {f"{kind}:{one}": name for one, kind, name in connection.execute(
                select(resources.c.id, resources.c.kind, resources.c.name)
            )}  # fmt: skip
    finally:
        database.close()
    if not acknowledged <= len(entries) <= acknowledged + cut_off:
        raise RuntimeError(f"{len(entries)} audit entries of {acknowledged} acknowledged writes")
    newest = {target: details["name"]["to"] for target, details in entries}
    if wrong := {target for target, name in newest.items() if names[target] != name}:
        raise RuntimeError(f"the names of {wrong} are not those of their newest audit entries")
