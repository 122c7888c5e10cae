"""Replicas of the example are killed and replaced under load."""

import itertools
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from service.db.engine import Database
from service.db.tables import operations, policy_versions, quota_requests, resources, tenant_quotas, tenants
from tests.service import load
from tests.service.access import Iam, allow
from tests.service.account import Key
from tests.service.conftest import NewDatabaseUrl
from tests.service.load import Journal, Target, audited_changes, keys_are_stored_once
from tests.service.planned import until
from tests.service.running import AURORA, DATA_LAKE, OWNER, STAGING, WEB_SHOP, Running

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "replicas" / "run.py"
LOAD_SECONDS = 45
PROCESSES = 3
# After a kill, until the balancer knows the replicas again.
NOTICED_SECONDS = 3.0


class Replicas:
    """The example as a user starts it; its output names the processes of its replicas."""

    def __init__(self, url: str, count: int, world: str = "demo", **variables: str) -> None:
        self.folder, self.count = Path(tempfile.mkdtemp(prefix="frost-")) / "replicas", count
        command = [sys.executable, str(EXAMPLE), "--database", url, "--replicas", str(count), "--world", world]
        self.process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", "--folder", str(self.folder)],
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pids: dict[int, int] = {}
        self.port = 0
        threading.Thread(target=self._read, daemon=True).start()
        until(lambda: self.port > 0 and len(self.pids) == count, 60)
        for number in self.pids:
            self.wait_ready(number)

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            if match := re.match(r"replica (\d+): process (\d+)", line):
                self.pids[int(match[1])] = int(match[2])
            elif match := re.match(r"balancer: listening on .*:(\d+)", line):
                self.port = int(match[1])

    def __getitem__(self, number: int) -> Running:
        """Return a replica, to be asked over its own socket."""
        one = Running.__new__(Running)
        one.folder, one.tokens, one.seen = self.folder / f"replica-{number}", {}, set()
        return one

    def is_ready(self, number: int) -> bool:
        try:
            return self[number].get("/readyz").status == 200
        except OSError:
            return False

    def wait_ready(self, number: int) -> None:
        until(lambda: self.is_ready(number), 60)

    def kill(self, number: int) -> None:
        killed = self.pids[number]
        os.kill(killed, signal.SIGKILL)
        until(lambda: self.pids[number] != killed, 30)
        self.wait_ready(number)

    def log(self) -> str:
        return "".join(path.read_text() for path in self.folder.glob("replica-*/log"))

    def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            assert self.process.wait(30) == 0
        finally:
            shutil.rmtree(self.folder.parent, ignore_errors=True)
        for pid in self.pids.values():
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)


@pytest.fixture
def url(new_database_url: NewDatabaseUrl) -> str:
    return new_database_url("postgresql", False)


@pytest.fixture
def replicas(url: str) -> Iterator[Replicas]:
    """Two replicas on an empty database, which they set up together."""
    running = Replicas(url, 2, FROST_PLATFORM_PROVISIONING_PACE="0.5", FROST_PLATFORM_APPLY_PACE="0.2")
    yield running
    running.end()


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    opened = Database(url)
    yield opened
    opened.close()


@pytest.mark.slow
def test_replicas_killed_under_load_lose_nothing(replicas: Replicas, database: Database) -> None:
    seed = int(os.environ.get("FROST_TEST_SEED") or 20261122)
    print(f"seed {seed} (FROST_TEST_SEED)")  # noqa: T201
    moments = random.Random(seed)
    loader = next(n for n in replicas.pids if (replicas.folder / f"replica-{n}/world-keys.json").exists())
    first = replicas[loader]
    iam, key = Iam(first), Key(first, "compute:read", rateLimit=60_000)
    policy = iam.policy("load", allow("compute:*"))
    assert iam.attach(policy, "api_key", key.id).status == 204
    began = time.monotonic()
    stop = replicas.folder / "stop"
    common = {"port": replicas.port, "token": first.token(OWNER), "until": began + 600, "stop": str(stop)}
    common["patience"] = 300.0
    works = [
        (load.reading, {"tenant": WEB_SHOP}),
        (load.reading, {"tenant": DATA_LAKE}),
        (load.making_keys, {"tenant": WEB_SHOP}),
        (load.making_keys, {"tenant": DATA_LAKE}),
        (load.editing, {"tenant": WEB_SHOP, "policy": policy}),
        (load.deciding, {"tenant": WEB_SHOP, "secret": key.secret}),
        (load.asking_quota, {"tenant": DATA_LAKE}),
        (load.making_tenants, {"tenant": WEB_SHOP, "organization": AURORA}),
        (load.applying, {"tenant": WEB_SHOP}),
        (load.applying, {"tenant": STAGING}),
    ]
    targets = [Target(**common, seed=seed + number, **more) for number, (_, more) in enumerate(works)]
    broken = list[tuple[float, float]]()
    tasks = list(zip([work for work, _ in works], targets, strict=True))
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        shares = [pool.apply_async(load.worked_together, (tasks[number::PROCESSES],)) for number in range(PROCESSES)]
        while time.monotonic() < began + LOAD_SECONDS or len(broken) < 2:
            time.sleep(moments.uniform(0.5, 3))
            dying = list(replicas.pids) if moments.random() < 0.2 else [moments.choice(list(replicas.pids))]
            killed = time.monotonic()
            with ThreadPoolExecutor(len(dying)) as threads:
                list(threads.map(replicas.kill, dying))
            broken.append((killed, time.monotonic() + NOTICED_SECONDS))
            print(f"killed {dying}: back after {time.monotonic() - killed:.1f} s")  # noqa: T201
        stop.touch()
        results = [share.get(120) for share in shares]
    names = [f"{work.__name__} {number}" for number, (work, _) in enumerate(works)]
    journals = {
        names[place + PROCESSES * n]: journal for place, share in enumerate(results) for n, journal in enumerate(share)
    }

    assert not [journal.error for journal in journals.values() if journal.error]
    assert len(broken) >= 2
    assert all(journal.done or name.startswith("reading") for name, journal in journals.items())
    # Errors occur only while a connection breaks, and not after the retry: a client without an answer ends.
    failures = [(name, *failure) for name, journal in journals.items() for failure in journal.failures]
    assert not [one for one in failures if not any(one[1] <= end and begin <= one[2] for begin, end in broken)]
    assert failures, "no kill met a request"
    assert '"request failed"' not in replicas.log()
    # Other replicas continue the work of killed ones.
    until(lambda: not still_open(database), 180)
    nothing_lost_or_doubled(database, journals)
    decided = rightly_decided(journals, policy)
    # Hundreds on a machine that has nothing else to do.
    assert decided >= 5
    count_of_applies_is_true(database, journals)
    verified = replicas[loader].get("/api/v1/platform/audit/verify").json()
    assert verified["ok"], verified
    requests = sum(journal.requests for journal in journals.values())
    print(f"{requests} requests, {len(failures)} broken, {len(broken)} kills, {decided} decisions")  # noqa: T201


def of(journals: dict[str, Journal], work: str) -> list[dict[str, Any]]:
    return [one for name, journal in journals.items() if name.startswith(work) for one in journal.done]


def still_open(database: Database) -> int:
    with database.read() as connection:
        opened = select(func.count()).where(operations.c.status.in_(("pending", "running")))
        return connection.scalar(opened) or 0


def nothing_lost_or_doubled(database: Database, journals: dict[str, Journal]) -> None:
    log = audited_changes(database)
    keys_are_stored_once(database, log, of(journals, "making_keys"))
    with database.read() as connection:
        requests = connection.execute(select(quota_requests).where(quota_requests.c.reason.startswith("load "))).all()
        vcpu = (tenant_quotas.c.tenant_id == DATA_LAKE, tenant_quotas.c.resource_type == "vcpu")
        limit = connection.scalar(select(tenant_quotas.c.limit).where(*vcpu))
        versions = list(connection.scalars(select(policy_versions.c.version).where(policy_versions.c.name == "load")))
        policy = connection.scalar(select(policy_versions.c.policy_id).where(policy_versions.c.name == "load").limit(1))
        created = connection.execute(select(tenants).where(tenants.c.display_name.startswith("Load "))).all()
        runs = connection.execute(select(operations)).all()
    quotas = of(journals, "asking_quota")
    assert {row.id for row in requests} == {one["id"] for one in quotas}
    assert limit == quotas[-1]["limit"]
    assert all(log["quota_request.create", f"quota_request:{row.id}"] == 1 for row in requests)
    edits = of(journals, "editing")
    assert [one["version"] for one in edits] == list(range(2, len(edits) + 2))
    assert sorted(versions) == list(range(1, len(edits) + 2))
    assert log["policy.update", f"policy:{policy}"] == len(edits)
    started = of(journals, "making_tenants")
    assert {row.id for row in created} == {one["id"] for one in started}
    assert len({row.display_name for row in created}) == len(started)
    for row in created:
        assert row.status == "active"
        assert log["tenant.create", f"tenant:{row.id}"] == log["tenant.provision", f"tenant:{row.id}"] == 1
    assert {row.status for row in runs} == {"completed"}


def rightly_decided(journals: dict[str, Journal], policy: str) -> int:
    """Check every decision against the history of the policy; return how many had only one correct answer.

    A version counts from the request that created it to the answer of the next one. Where two overlap, both are
    correct.
    """
    edits = [{"gives": True, "sent": 0.0, "known": 0.0}, *of(journals, "editing")]
    spans = [
        (edit["gives"], edit["sent"], following["known"] if following else float("inf"))
        for edit, following in itertools.zip_longest(edits, edits[1:])
    ]
    decisive = 0
    for seen in of(journals, "deciding"):
        right = {gives for gives, begin, end in spans if begin <= seen["came"] and seen["sent"] <= end}
        assert seen["permit"] in right, (policy, seen, spans)
        decisive += len(right) == 1
    return decisive


def count_of_applies_is_true(database: Database, journals: dict[str, Journal]) -> None:
    log = audited_changes(database)
    with database.read() as connection:
        rows = connection.execute(select(operations).where(operations.c.kind == "apply_default_tags")).all()
        tags = [
            (row.tenant_id, json.loads(row.tags) if isinstance(row.tags, str) else row.tags)
            for row in connection.execute(select(resources.c.tenant_id, resources.c.tags))
        ]
    mine = [row for row in rows if any(name.startswith("run-") for name in row.snapshot["tags"])]
    assert {row.run_id for row in mine} >= {one["run"] for one in of(journals, "applying")}
    # The other replicas notice a killed one after 20 s, so there are few runs.
    assert len(mine) >= 2
    by_tag = Counter[tuple[str, str]]()
    for row in mine:
        for kind, counts in row.result["byType"].items():
            outcomes = [counts[outcome] for outcome in ("updated", "unchanged", "skipped", "failed")]
            # Each resource once; a kind that cannot be listed has one failure.
            unlisted = counts["examined"] == 0 and outcomes == [0, 0, 0, 1]
            total = row.snapshot["totals"].get(kind, 0)
            assert unlisted or sum(outcomes) == counts["examined"] == total, (kind, counts)
        (tag,) = row.snapshot["tags"]
        by_tag[row.tenant_id, tag] += row.result["summary"]["updated"]
        for end in ("", ".complete"):
            assert log[f"default_tags.apply{end}", f"tenant:{row.tenant_id}"] == sum(
                other.tenant_id == row.tenant_id for other in rows if other.snapshot["tags"]
            ), row.tenant_id
    for (tenant, tag), updated in by_tag.items():
        assert updated == sum(tag in held for owner, held in tags if owner == tenant) > 0
