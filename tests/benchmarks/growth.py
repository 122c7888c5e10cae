"""How times grow from 10 to 10,000 tenants, keys and policies, with the slope named.

The slope is of a straight line through the logarithms: 0 is a time that stays, 1 one that grows as the number does.
"""

import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from uuid import uuid4

from sqlalchemy import Connection, select

from service.authn import api_keys as authn_api_keys
from service.db import tables
from service.db.engine import Database
from service.seed.insert import Row, first_tag_versions, insert_rows
from tests.benchmarks.ratios import Line
from tests.homes import Answer
from tests.service.access import allow, document
from tests.service.postgres import Cluster
from tests.service.running import OWNER, Executed, Running

SIZES = (10, 100, 1_000, 10_000)
RUNS = 9
NOW = datetime.now(UTC)
READ = "compute:instances:read"
TRIED = json.dumps(document(allow("compute:*")))
# A whole list has as many rows as there are; what is beside them must not make it steeper.
WHOLE, PAGED, ONE = 1.1, 0.2, 0.2


def run() -> Iterator[Line]:
    yield from grown("SQLite", None)
    with Cluster() as cluster:
        cluster.create("bench")
        yield from grown("PostgreSQL", cluster.url("bench"))
    yield from switcher()
    yield filtered()


def grown(name: str, url: str | None) -> Iterator[Line]:
    with Executed(url, "demo") as platform:
        worlds = [World(platform, size) for size in SIZES]
        for what, most, ask in (
            ("list of an organization's tenants, whole", WHOLE, World.tenants),
            ("list of a tenant's keys, whole", WHOLE, World.api_keys),
            ("first page of a tenant's policies", PAGED, World.policies),
            ("simulate beside so many policies", ONE, World.simulate),
            ("decision for a key, beside so many keys and policies", ONE, World.decision),
        ):
            yield sloped(f"{what} ({name})", most, [lambda world=world, ask=ask: ask(world) for world in worlds])  # type: ignore[misc]


def sloped(what: str, most: float, asks: Sequence[Callable[[], object]]) -> Line:
    """The slope over `SIZES`; the sizes take turns, so that a slow moment of the machine hits all of them."""
    taken: list[list[float]] = [[] for _ in asks]
    for turn in range(RUNS + 1):
        for times, ask in zip(taken, asks, strict=True):
            began = time.perf_counter()
            ask()
            if turn:
                times.append((time.perf_counter() - began) * 1_000)
    medians = [statistics.median(times) for times in taken]
    told = ", ".join(f"{median:.1f}" for median in medians)
    return Line(what, slope([math.log(size) for size in SIZES], [math.log(m) for m in medians]), most, f"{told} ms", "")


def slope(along: Sequence[float], values: Sequence[float]) -> float:
    return statistics.linear_regression(along, values).slope


class World:
    """An organization of so many tenants; the first of them has as many keys and as many policies."""

    def __init__(self, platform: Running, size: int) -> None:
        self.platform, self.size = platform, size
        self.organization, self.tenant, self.key = str(uuid4()), str(uuid4()), authn_api_keys.mint()
        secret = (platform.folder / "secret.key").read_bytes()
        database = Database(platform.database_url)
        with database.write() as connection:
            owner = connection.scalar(select(tables.users.c.id).where(tables.users.c.email == OWNER))
            self._fill(connection, owner, secret)
        if database.kind == "postgresql":
            with database.write() as connection:
                connection.exec_driver_sql("ANALYZE tenants, api_keys, policies")
        database.close()

    def _fill(self, connection: Connection, owner: str, secret: bytes) -> None:
        made = {"created_at": NOW, "updated_at": NOW}
        organization = {"id": self.organization, "name": f"Scale {self.size}", "slug": f"scale-{self.size}"}
        insert_rows(connection, tables.organizations, [organization | {"created_at": NOW}])
        member = {"user_id": owner, "organization_id": self.organization, "role": "owner", "limited": False}
        insert_rows(connection, tables.memberships, [member | {"created_at": NOW}])
        rows: list[Row] = [
            made
            | {"id": str(uuid4()) if number else self.tenant, "organization_id": self.organization}
            | {"display_name": f"Tenant {number}", "slug": f"tenant-{number}", "status": "active", "default_tags": {}}
            for number in range(self.size)
        ]
        insert_rows(connection, tables.tenants, rows)
        insert_rows(connection, tables.default_tag_versions, first_tag_versions(rows))
        secrets = [authn_api_keys.mint() if number else self.key for number in range(self.size)]
        insert_rows(
            connection,
            tables.api_keys,
            (
                {"id": str(uuid4()), "tenant_id": self.tenant, "user_id": owner, "name": f"key {number}"}
                | {
                    "key_prefix": authn_api_keys.prefix(plain),
                    "key_hash": authn_api_keys.digest(secret, plain),
                    "rate_limit": 60_000,
                }
                | {"scopes": ["compute:read"], "created_at": NOW, "expires_at": NOW + timedelta(days=300)}
                for number, plain in enumerate(secrets)
            ),
        )
        insert_rows(
            connection,
            tables.policies,
            (
                {"id": str(uuid4()), "tenant_id": self.tenant, "name": f"policy {number}", "document": TRIED}
                | {"authored_by": owner, **made}
                for number in range(self.size)
            ),
        )

    def _asked(self, answer: Answer) -> Answer:
        assert answer.status == 200, answer
        return answer

    def tenants(self) -> None:
        path = f"/api/v1/organizations/{self.organization}/tenants"
        answer = self._asked(self.platform.get(path, as_=OWNER))
        assert len(answer.json()["tenants"]) == self.size

    def api_keys(self) -> None:
        answer = self._asked(self.platform.get(f"/api/v1/tenants/{self.tenant}/api-keys", as_=OWNER))
        assert len(answer.json()["apiKeys"]) == self.size

    def policies(self) -> None:
        self._asked(self.platform.get(f"/api/v1/tenants/{self.tenant}/iam/policies?limit=10", as_=OWNER))

    def simulate(self) -> None:
        body = {"documentText": TRIED, "operation": READ, "target": "*", "facts": {}}
        self._asked(self.platform.ask("POST", f"/api/v1/tenants/{self.tenant}/iam/simulate", as_=OWNER, body=body))

    def decision(self) -> None:
        path = f"/api/v1/tenants/{self.tenant}/resources/instance?limit=1"
        self._asked(self.platform.get(path, headers={"X-API-Key": self.key}))


def switcher() -> Iterator[Line]:
    """A letter typed into the tenant switcher, to its rows being ranked."""
    from tui.widgets.tenant_switcher import ranked, searchable

    sets = [
        searchable(
            {"id": str(uuid4()), "displayName": f"Checkout {number}", "slug": f"checkout-{number}"}
            | {"organizationName": f"Organization {number % 20}"}
            for number in range(size)
        )
        for size in SIZES
    ]
    yield sloped("a letter in the switcher", WHOLE, [lambda rows=rows: ranked(rows, "che 7", ()) for rows in sets])  # type: ignore[misc]
    began = time.perf_counter()
    for _ in range(RUNS):
        ranked(sets[-1], "che 7", ())
    taken = (time.perf_counter() - began) / RUNS * 1_000
    yield Line(f"a letter in the switcher, {SIZES[-1]:,} tenants", taken, 16, "a frame", "ms")


def filtered() -> Line:
    """The first letter of a filter, for which every record is looked into."""
    from client.records_iam import CATALOGUE
    from tui.record_view import RecordView

    number = 20_000
    view = RecordView(CATALOGUE)
    view.replace([{"name": f"svc:res{n}:act", "accessLevel": "read", "description": "Does it"} for n in range(number)])
    view.prepare(number)
    taken = []
    for _ in range(RUNS):
        view.set_filter("")
        began = time.perf_counter()
        view.set_filter("r")
        taken.append((time.perf_counter() - began) * 1_000)
    return Line(f"a letter in a filter, {number:,} operations", statistics.median(taken), 16, "a frame", "ms")
