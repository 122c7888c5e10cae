"""A newer version migrates while replicas of this version serve (rules in `service/db/migrate.py`)."""

import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text

from service.db import migrate
from service.db.engine import Database
from service.db.tables import groups
from tests.people import OWNER, WEB_SHOP
from tests.service.conftest import NewDatabaseUrl
from tests.service.running import Running
from tests.waiting import until

pytestmark = pytest.mark.slow

GROUPS = f"/api/v1/tenants/{WEB_SHOP}/iam/groups"
NEWER = """
import sqlalchemy as sa
from alembic import op

revision = "9001"
down_revision = "{before}"
branch_labels = None
depends_on = None


def upgrade():
    op.create_table("floors", sa.Column("id", sa.String(36), primary_key=True))
    for name in ("tenants", "groups", "audit_log"):
        op.add_column(name, sa.Column("floor", sa.String(36), nullable=True))
        op.add_column(name, sa.Column("height", sa.Integer(), nullable=False, server_default="0"))
    op.create_index("ix_groups_floor", "groups", ["floor"])
"""


@pytest.fixture
def replica(new_database_url: NewDatabaseUrl) -> Iterator[Running]:
    with Running(new_database_url("postgresql", True)) as running:
        running.token(OWNER)
        yield running


@pytest.fixture
def newer(replica: Running) -> Iterator[Database]:
    """The database as a replica of a newer version opens it."""
    with closing(Database(replica.database_url)) as opened:
        yield opened


@pytest.fixture
def migrate_further(tmp_path: Path) -> Callable[[Database], object]:
    """The migration of a version with one revision more."""
    folder = tmp_path / "migrations"
    shutil.copytree(migrate.MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "versions" / "9001_floors.py").write_text(NEWER.format(before=migrate.HEAD))
    return partial(migrate.upgrade, head="9001", migrations=folder)


def create_group(replica: Running, name: str) -> Any:
    answer = replica.ask("POST", GROUPS, as_=OWNER, body={"name": name})
    assert answer.status == 201, answer
    return answer.json()["id"]


def test_a_replica_serves_while_and_after_newer_ones_migrate(
    replica: Running, newer: Database, migrate_further: Callable[[Database], object]
) -> None:
    failures, created, over = list[str](), list[str](), threading.Event()

    def work(number: int) -> None:
        try:
            while not over.is_set():
                created.append(create_group(replica, f"g {number} {len(created)}"))
                assert replica.get("/api/v1/tenants", as_=OWNER).status == 200
                assert replica.get("/readyz").status == 200
        except (AssertionError, OSError) as error:
            failures.append(str(error))

    others = [Database(replica.database_url) for _ in range(2)]
    with ThreadPoolExecutor(5) as threads:
        for number in range(2):
            threads.submit(work, number)
        try:
            until(lambda: len(created) > 10)
            list(threads.map(migrate_further, [newer, *others]))
            before = len(created)
            until(lambda: len(created) > before + 10 or bool(failures))
        finally:
            over.set()
    assert not failures
    assert {migrate.stored_revision(database) for database in (newer, *others)} == {"9001"}
    with others[0].read() as connection:
        assert set(created) <= set(connection.scalars(select(groups.c.id)))
    for database in others:
        database.close()
    # A replica continues until it is replaced: only a start checks the revision.
    assert replica.get("/readyz").json()["checks"]["migrations"] == "ok"
    replica.stop()
    assert replica.launch().wait(30) == 1
    assert "schema this version does not know" in replica.log


def test_requests_do_not_wait_for_a_migration_that_waits(
    replica: Running, newer: Database, migrate_further: Callable[[Database], object]
) -> None:
    with newer.read() as reader:
        reader.execute(text("SELECT count(*) FROM groups"))
        migrating = threading.Thread(target=migrate_further, args=(newer,), daemon=True)
        migrating.start()
        with Database(replica.database_url).read() as looking:
            waits = text("SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted")
            until(lambda: looking.execute(waits).scalar_one() > 0)
        # As long as the reader reads: the migration cannot be over.
        create_group(replica, "during a migration")
        assert migrating.is_alive()
    migrating.join()
    assert migrate.stored_revision(newer) == "9001"
    create_group(replica, "beside a newer version")
