"""Writes of a platform without requests."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing

import psycopg

from service.db.engine import Database
from service.readiness_cache import REPEAT_SECONDS
from tests.benchmarks.ratios import Line
from tests.benchmarks.servers import Platform, store
from tests.benchmarks.settings import POSTGRESQL, settings

SECONDS = 60
# A start leaves work: the demo data has a tenant to provision, and sweeps run for the first time. The readiness checks
# insert an audit entry and roll it back; they are repeated for a time after the last request.
SETTLE_SECONDS = REPEAT_SECONDS + 10
POLL_SECONDS = 0.02
# From the database `postgres`, so that the question is no transaction of the database that is measured.
COUNTS = (
    "SELECT tup_inserted + tup_updated + tup_deleted, xact_commit, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"
    " FROM pg_stat_database WHERE datname = %s"
)


def run() -> Iterator[Line]:
    for name in settings.databases:
        with store(name) as one, Platform(one, FROST_PLATFORM_PROVISIONING_PACE="0") as platform:
            if name == POSTGRESQL:
                stop_autovacuum(platform.database_url)
            time.sleep(SETTLE_SECONDS)
            yield postgresql(platform.database_url) if name == POSTGRESQL else sqlite(platform.database_url)


def postgresql(url: str) -> Line:
    before = counts(url)
    time.sleep(SECONDS)
    rows, transactions, wal = (now - then for now, then in zip(counts(url), before, strict=True))
    against = f"{transactions} transactions, {wal} bytes of write-ahead log"
    return Line(f"rows written in {SECONDS} s without requests ({POSTGRESQL})", rows, 0, against, "")


def stop_autovacuum(url: str) -> None:
    """Stop autovacuum, whose statistics are rows too."""
    with psycopg.connect(server_url(url), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET autovacuum = off")
        connection.execute("SELECT pg_reload_conf()")


def server_url(url: str) -> str:
    """Return the URL of the database `postgres` on the same server."""
    return url.replace("/bench?", "/postgres?")


def counts(url: str) -> tuple[int, int, int]:
    """Return the rows written, the transactions and the position in the write-ahead log."""
    with psycopg.connect(server_url(url), autocommit=True) as connection:
        row = connection.execute(COUNTS, ["bench"]).fetchone()
        assert row
        return int(row[0]), int(row[1]), int(row[2])


def sqlite(url: str) -> Line:
    path = Database(url).engine.url.database
    assert path
    changes, end = 0, time.monotonic() + SECONDS
    with closing(sqlite3.connect(path)) as connection:
        version = data_version(connection)
        while time.monotonic() < end:
            time.sleep(POLL_SECONDS)
            if (now := data_version(connection)) != version:
                version, changes = now, changes + 1
    return Line(f"commits in {SECONDS} s without requests (SQLite)", changes, 0, "the data version", "")


def data_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes with each commit of another connection."""
    return int(connection.execute("PRAGMA data_version").fetchone()[0])
