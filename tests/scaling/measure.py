"""Measures the costs of the capacity model on this machine, as CPU time: other programs change it little."""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count, repeat

from service.audit import chain
from service.audit.seals import key_of
from service.authn.rate_limit import interval_of
from service.authn.request_limits import leases_of
from service.db.engine import Database
from service.db.tables import metadata
from tests.benchmarks.growth import World
from tests.benchmarks.load import rate, request
from tests.benchmarks.processors import cpu_seconds_with_children as cpu_seconds
from tests.benchmarks.request_path.resource_loads import JSON
from tests.benchmarks.servers import free_port
from tests.scaling.costs import Cost
from tests.service.account import Key
from tests.service.postgres import Cluster
from tests.service.running import OWNER, WEB_SHOP, Executed

SECONDS = 6.0
STATEMENTS = 2_000
WORLD_SIZE = 10_000
MIN_ROWS = 1_000


class Measurement:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.port = cluster, free_port()
        cluster.create("scaling")
        self.url = cluster.url("scaling")
        self.platform = Executed(self.url, "demo", "--listen", f"127.0.0.1:{self.port}")

    def of(self, requests: Iterator[bytes]) -> Cost:
        """Return the cost of one of some requests."""
        number = 0

        def counted() -> Iterator[bytes]:
            nonlocal number
            for each in requests:
                number += 1
                yield each

        sent = counted()
        rate(("127.0.0.1", self.port), sent, 1)
        number = 0
        busy = self.cpu_during(lambda: rate(("127.0.0.1", self.port), sent, SECONDS))
        replica, database = ((each - idle) / number * 1_000 for each, idle in zip(busy, self.idle(), strict=True))
        return Cost(round(replica, 3), round(database, 3))

    def cpu_during(self, run: Callable[[], object]) -> tuple[float, float]:
        """Return the CPU seconds of the replica and of PostgreSQL."""
        process = self.platform.process
        assert process is not None
        before = cpu_seconds(process.pid), cpu_seconds(self.cluster.server.pid)
        run()
        return cpu_seconds(process.pid) - before[0], cpu_seconds(self.cluster.server.pid) - before[1]

    def idle(self) -> tuple[float, float]:
        """Return the same for as long without requests."""
        # `rate` runs for a second more than it counts.
        return self.cpu_during(lambda: time.sleep(SECONDS + 1))

    def requests(self) -> Iterator[tuple[str, Cost]]:
        key = Key(self.platform, "compute:read", "compute:write", "decisions:evaluate", rateLimit=60_000)
        credential = {"X-API-Key": key.secret}
        path = f"/api/v1/tenants/{WEB_SHOP}/resources/instance"
        one = self.platform.get(f"{path}?limit=1", as_=OWNER).json()["resources"][0]["id"]
        read = request("GET", f"{path}/{one}", credential)
        question = {
            "subject": {"type": "api_key", "id": key.id},
            "action": {"name": "compute:instances:read"},
            "resource": {"type": "instance", "id": one},
        }
        evaluation = request("POST", "/access/v1/evaluation", {**credential, **JSON}, json.dumps(question).encode())

        def renames() -> Iterator[bytes]:
            for number in count():
                body = json.dumps({"name": f"web-{number}"}).encode()
                yield request("PATCH", f"{path}/{one}", {**credential, **JSON}, body)

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

    def statements(self) -> Iterator[tuple[str, Cost]]:
        database, secret = Database(self.url), b"s" * 32
        take, numbers = leases_of(database), count()
        yield "lease", self.of_calls(lambda: take(f"key {next(numbers) % 100}", interval_of(1_000_000), 1, 0))
        chain.initialize_chain(database, secret, datetime.now(UTC), rolling=False)
        entry = dict.fromkeys(chain.ENTRY_FIELDS, "an id of 36 characters, for instance") | {"details": {"a": "b"}}
        entries = [entry | {"at": datetime.now(UTC), "actor_kind": "api_key", "outcome": "done"}] * 100

        def seal() -> None:
            with database.write() as connection:
                chain.append(connection, self.chain_key(), entries)

        cost = self.of_calls(seal, STATEMENTS // 20)
        yield "seal", Cost(round(cost.replica / len(entries), 4), round(cost.database / len(entries), 4))
        database.close()

    def chain_key(self) -> bytes:
        return key_of((self.platform.folder / "secret.key").read_bytes())

    def of_calls(self, call: Callable[[], object], number: int = STATEMENTS) -> Cost:
        call()
        before, began = cpu_seconds(self.cluster.server.pid), time.process_time()
        for _ in range(number):
            call()
        replica, database = time.process_time() - began, cpu_seconds(self.cluster.server.pid) - before
        return Cost(round(replica / number * 1_000, 3), round(database / number * 1_000, 3))

    def row_bytes(self) -> dict[str, int]:
        """Return the bytes of a row with its indexes, of each table with many rows."""
        World(self.platform, WORLD_SIZE)
        database = Database(self.url)
        sizes = {}
        with database.read() as connection:
            for table in metadata.tables:
                rows = connection.exec_driver_sql(f'SELECT count(*) FROM "{table}"').scalar_one()
                if rows >= MIN_ROWS:
                    size = connection.exec_driver_sql(f"SELECT pg_total_relation_size('\"{table}\"')").scalar_one()
                    sizes[table] = round(size / rows)
        database.close()
        return dict(sorted(sizes.items()))


def main() -> None:
    """Print the costs as JSON, to be passed to the model with `--costs`."""
    with Cluster() as cluster:
        measurement = Measurement(cluster)
        with measurement.platform:
            costs = dict(measurement.requests()) | dict(measurement.statements())
            read, changed = costs["read"], costs.pop("changed")
            costs["reload"] = Cost(round(changed.replica - read.replica, 3), round(changed.database - read.database, 3))
            measured = {name: vars(cost) for name, cost in costs.items()}
            print(json.dumps(measured | {"row_bytes": measurement.row_bytes()}, indent=2))
