"""Default tags for 100,000 resources beside one UPDATE, and the changes of others during it."""

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from uuid import UUID

from sqlalchemy import func, insert, literal, update

from service.clock import FixedClock
from service.db import dialect as statistics_of_tables
from service.db import migrate
from service.db.engine import Database
from service.db.tables import Document, resources
from service.default_tags.apply_job import ApplyJob
from tests.api import UnixConnection
from tests.benchmarks.ratios import Line, milliseconds, paired
from tests.people import OWNER
from tests.service.audited import audited
from tests.service.postgres import Cluster
from tests.service.queries import execute
from tests.service.running import Executed, Running, ask_on
from tests.service.tagged import DEFAULTS, NOW, REST, Tagged

RESOURCES = 100_000
KINDS = ("instance", "volume", "snapshot", "bucket", "secret")
HAVE: tuple[dict[str, str], ...] = ({}, {"env": "prod"}, {"env": "dev", "team": "search"}, {"app": "web"})
RUNS = 3
WRITERS = 4
SECONDS = 8.0


def run() -> Iterator[Line]:
    numbers = count()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base.db"

        def copied() -> str:
            path = Path(folder) / f"{next(numbers)}.db"
            shutil.copy(base, path)
            return f"sqlite:///{path}"

        yield applying("SQLite", f"sqlite:///{base}", copied)
    with Cluster() as cluster:
        cluster.create("filled")

        def cloned() -> str:
            name = f"copy_{next(numbers)}"
            cluster.create(name, template="filled")
            return cluster.url(name)

        yield applying("PostgreSQL", cluster.url("filled"), cloned)
        cluster.create("others")
        yield others("PostgreSQL", cluster.url("others"))
    yield others("SQLite", None)


def applying(name: str, base: str, copy: Callable[[], str]) -> Line:
    """A whole run against one UPDATE, each on a fresh copy of the same database, in turn."""
    with closing(Database(base)) as filled:
        migrate.upgrade(filled)
        tagged = Tagged(filled)
        fill(tagged)
    ours, theirs = (partial(timed, copy, tagged, do) for do in (whole_run, one_statement))
    _, theirs_seconds, ratio = paired(ours, theirs, RUNS)
    return Line(f"default tags for {RESOURCES:,} resources ({name})", ratio, 6, f"one UPDATE ({theirs_seconds:.1f} s)")


def fill(tagged: Tagged) -> None:
    random = Random(1)
    rows = [
        REST
        | {"id": str(UUID(int=random.getrandbits(128), version=4)), "tenant_id": tagged.tenant_id, "state": "active"}
        | {"kind": KINDS[number % len(KINDS)], "tags": HAVE[number % len(HAVE)], "relations": {}}
        for number in range(RESOURCES)
    ]
    with tagged.database.write() as connection:
        for begin in range(0, RESOURCES, 5_000):
            connection.execute(insert(resources), rows[begin : begin + 5_000])
        statistics_of_tables.analyze(connection)


def timed(copy: Callable[[], str], tagged: Tagged, do: Callable[[Tagged], None]) -> float:
    tagged.database = audited(copy())
    with closing(tagged.database):
        return milliseconds(lambda: do(tagged)) / 1000


def whole_run(tagged: Tagged) -> None:
    run_id = tagged.planned()
    asyncio.run(ApplyJob(tagged.database, FixedClock(NOW), pace=0).run(run_id))
    assert tagged.operation(run_id)["result"]["summary"]["updated"] == RESOURCES


def one_statement(tagged: Tagged) -> None:
    defaults = literal(DEFAULTS, Document)
    postgresql = tagged.database.kind == "postgresql"
    merged = defaults.op("||")(resources.c.tags) if postgresql else func.json_patch(defaults, resources.c.tags)
    mine = update(resources).where(resources.c.tenant_id == tagged.tenant_id)
    execute(tagged.database, mine.values(tags=merged, updated_at=NOW))


def others(name: str, url: str | None) -> Line:
    """The 99th of 100 changes of others, while the large tenant's tags are applied and while they are not."""
    with Executed(url, "large") as platform:
        tenants = platform.get("/api/v1/tenants", as_=OWNER).json()["tenants"]
        large = next(tenant["id"] for tenant in tenants if tenant["slug"] == "warehouse")
        places = [place(platform, tenant["id"]) for tenant in tenants if tenant["id"] != large][:WRITERS]
        quiet, busy = [], []
        for turn in range(RUNS):
            quiet += changes(platform, places, lambda passed: passed < SECONDS)
            tags = {"turn": str(turn), f"turn-{turn}": "x"}
            path = f"/api/v1/tenants/{large}"
            assert platform.ask("PUT", f"{path}/default-tags", as_=OWNER, body={"tags": tags}).status == 200
            run_id = platform.ask("POST", f"{path}/default-tags/apply", as_=OWNER).json()["runId"]
            operation = f"{path}/operations/{run_id}"
            while status(platform, operation) == "pending":
                time.sleep(0.02)
            busy += changes(platform, places, partial(is_running, platform, operation))
        usual = percentile(quiet)
        against = f"no apply at work ({usual:.0f} ms, {len(busy)} changes)"
    return Line(f"the 99th of 100 changes during an apply ({name})", percentile(busy) / usual, 3, against)


def is_running(platform: Running, operation: str, _: float) -> bool:
    return status(platform, operation) == "running"


def status(platform: Running, operation: str) -> str:
    return str(platform.get(operation, as_=OWNER).json()["status"])


def place(platform: Running, tenant_id: str) -> str:
    path = f"/api/v1/tenants/{tenant_id}/resources/instance"
    one = platform.get(f"{path}?limit=1", as_=OWNER).json()["resources"][0]
    return f"{path}/{one['id']}"


def changes(platform: Running, places: list[str], going: Callable[[float], bool]) -> list[float]:
    """Milliseconds of each change that several make, one after the other, as long as it goes on."""
    headers = {"Authorization": f"Bearer {platform.token(OWNER)}", "Content-Type": "application/json"}
    over = False

    def change(path: str) -> list[float]:
        connection = UnixConnection(platform.socket)
        taken: list[float] = []
        while not over:
            content = json.dumps({"name": f"n{len(taken)}"}).encode()
            began = time.perf_counter()
            answer = ask_on(connection, "PATCH", path, headers.items(), content)
            taken.append((time.perf_counter() - began) * 1000)
            assert answer.status == 200, answer
        return taken

    with ThreadPoolExecutor(len(places)) as threads:
        changing = [threads.submit(change, path) for path in places]
        began = time.monotonic()
        while going(time.monotonic() - began):
            time.sleep(0.1)
        over = True
        return [took for one in changing for took in one.result()]


def percentile(taken: list[float]) -> float:
    return sorted(taken)[len(taken) * 99 // 100]
