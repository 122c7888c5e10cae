"""Measures the costs of the capacity model on this machine, as CPU time: other programs change it little."""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count, cycle, repeat

from service.audit.sealer import BATCH_ENTRIES, MIN_ID, has_waiting, insert_unsealed, seal_batch
from service.audit.seals import ENTRY_FIELDS, key_of
from service.authn.rate_limit import interval_of
from service.authn.request_limits import leases_of
from service.db.engine import Database
from service.db.tables import metadata
from tests.benchmarks.growth import World
from tests.benchmarks.load import rate, request
from tests.benchmarks.processors import LOAD, on_cores
from tests.benchmarks.processors import cpu_seconds_with_children as cpu_seconds
from tests.benchmarks.request_path.resource_loads import INSTANCES, JSON, instances
from tests.benchmarks.servers import Platform, Store
from tests.benchmarks.settings import POSTGRESQL
from tests.scaling.costs import Cost
from tests.service.access import READ
from tests.service.account import Key
from tests.service.postgres import Cluster

SECONDS = 6.0
STATEMENTS = 2_000
BATCHES = 20
WORLD_SIZE = 10_000
MIN_ROWS = 1_000


class Measurement:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        cluster.create("scaling")
        self.url = cluster.url("scaling")
        self.platform = Platform(Store(POSTGRESQL, self.url, cluster.server.pid))

    def of(self, requests: Iterator[bytes]) -> Cost:
        number = 0

        def counted() -> Iterator[bytes]:
            nonlocal number
            for each in requests:
                number += 1
                yield each

        sent = counted()
        rate(("127.0.0.1", self.platform.port), sent, 1)
        number = 0
        busy = self.cpu_during(lambda: rate(("127.0.0.1", self.platform.port), sent, SECONDS))
        # `rate` runs for a second more than it counts.
        idle = self.cpu_during(lambda: time.sleep(SECONDS + 1))
        return cost_of(*((each - less) / number for each, less in zip(busy, idle, strict=True)))

    def cpu_during(self, run: Callable[[], object]) -> list[float]:
        """Return the CPU seconds of the replica and of PostgreSQL."""
        before = self.platform.server.cpu()
        run()
        return [now - then for now, then in zip(self.platform.server.cpu(), before, strict=True)]

    def requests(self) -> Iterator[tuple[str, Cost]]:
        key = Key(self.platform, "compute:read", "compute:write", "decisions:evaluate", rateLimit=60_000)
        credential = {"X-API-Key": key.secret}
        ids = [instance["id"] for instance in instances(self.platform)]
        read = request("GET", f"{INSTANCES}/{ids[0]}", credential)
        question = {"subject": {"type": "api_key", "id": key.id}, "action": {"name": READ}}
        question["resource"] = {"type": "instance", "id": ids[0]}
        evaluation = request("POST", "/access/v1/evaluation", {**credential, **JSON}, json.dumps(question).encode())

        def renames() -> Iterator[bytes]:
            # Of several instances, because parallel changes of one would wait for its row.
            for number, one in enumerate(cycle(ids)):
                body = json.dumps({"name": f"web-{number}"}).encode()
                yield request("PATCH", f"{INSTANCES}/{one}", {**credential, **JSON}, body)

        yield "read", self.of(repeat(read))
        yield "write", self.of(renames())
        yield "decision", self.of(repeat(evaluation))
        yield "changed", self.of(self.after_changes(read))

    def after_changes(self, read: bytes) -> Iterator[bytes]:
        """Yield reads; before each, the organization is changed by another process."""
        database = Database(self.url)
        while True:
            with database.write() as connection:
                connection.exec_driver_sql("UPDATE revisions SET revision = revision + 1")
            yield read

    def statements(self, secret: bytes) -> Iterator[tuple[str, Cost]]:
        """Yield the costs of statements, without a platform, whose sealer would take entries."""
        database = Database(self.url)
        take, numbers = leases_of(database), count()
        yield "lease", self.of_calls(lambda: take(f"key {next(numbers) % 100}", interval_of(1_000_000), 1, 0))
        key = key_of(secret)
        entry = dict.fromkeys(ENTRY_FIELDS, "an id of 36 characters, for instance") | {"details": {"a": "b"}}
        entries = [entry | {"at": datetime.now(UTC), "actor_kind": "api_key", "outcome": "done"}] * BATCH_ENTRIES
        # `of_calls` makes one call more.
        for _ in range(BATCHES + 1):
            with database.write() as connection:
                insert_unsealed(connection, key, entries)
        cost = self.of_calls(lambda: seal_batch(database, key), BATCHES)
        if has_waiting(database, MIN_ID):
            raise RuntimeError("the batches were not sealed")
        yield "seal", Cost(round(cost.replica / BATCH_ENTRIES, 4), round(cost.database / BATCH_ENTRIES, 4))
        database.close()

    def of_calls(self, call: Callable[[], object], number: int = STATEMENTS) -> Cost:
        call()
        before, began = cpu_seconds(self.cluster.server.pid), time.process_time()
        for _ in range(number):
            call()
        replica, database = time.process_time() - began, cpu_seconds(self.cluster.server.pid) - before
        return cost_of(replica / number, database / number)

    def row_bytes(self) -> dict[str, int]:
        """Return the bytes of a row with its indexes, of each table with many rows."""
        World(self.platform, WORLD_SIZE)
        database = Database(self.url)
        sizes = {}
        with database.autocommit() as connection:
            for table in metadata.tables:
                rows = connection.exec_driver_sql(f'SELECT count(*) FROM "{table}"').scalar_one()
                if rows >= MIN_ROWS:
                    # The renames left more versions of few rows than the table has rows.
                    connection.exec_driver_sql(f'VACUUM FULL "{table}"')
                    size = connection.exec_driver_sql(f"SELECT pg_total_relation_size('\"{table}\"')").scalar_one()
                    sizes[table] = round(size / rows)
        database.close()
        return dict(sorted(sizes.items()))


def cost_of(replica: float, database: float) -> Cost:
    """Return the cost of CPU seconds."""
    return Cost(round(replica * 1_000, 3), round(database * 1_000, 3))


def main() -> None:
    """Print the costs as JSON, to be passed to the model with `--costs`."""
    # A replica uses one core, and its load and PostgreSQL others.
    with on_cores(LOAD), Cluster() as cluster:
        measurement = Measurement(cluster)
        with measurement.platform:
            costs = dict(measurement.requests())
            row_bytes = measurement.row_bytes()
            secret = (measurement.platform.folder / "secret.key").read_bytes()
        costs |= dict(measurement.statements(secret))
        read, changed = costs["read"], costs.pop("changed")
        costs["reload"] = Cost(round(changed.replica - read.replica, 3), round(changed.database - read.database, 3))
        print(json.dumps({name: vars(cost) for name, cost in costs.items()} | {"row_bytes": row_bytes}, indent=2))
