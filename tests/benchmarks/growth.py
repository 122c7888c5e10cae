"""How times grow from 10 to 10,000 tenants, keys and policies: the slope of the logarithms, 1 is linear."""

import json
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from uuid import uuid4

from sqlalchemy import Connection, select

from service.api.dependencies import MAX_LIMIT
from service.authn import secret_format
from service.clock import wire_time
from service.db import tables
from service.db.engine import Database
from service.seed.insert import first_tag_versions, insert_rows
from tests.api import Answer
from tests.benchmarks.ratios import Line, milliseconds
from tests.benchmarks.servers import databases
from tests.people import OWNER
from tests.service import factories
from tests.service.access import allow, document_text, trial
from tests.service.running import Executed, Running

SIZES = (10, 100, 1_000, 10_000)
RUNS = 9
NOW = datetime.now(UTC)
TRIED = document_text(allow("compute:*"))
# The time of a whole list grows with its rows only, not with other rows.
WHOLE, PAGED, ONE = 1.1, 0.2, 0.2
WHOLE_MILLISECONDS, PAGE_MILLISECONDS = 120, 5


def run() -> Iterator[Line]:
    for name, url in databases("bench"):
        yield from grown(name, url)
    yield from switcher()
    yield filtered()


def grown(name: str, url: str | None) -> Iterator[Line]:
    with Executed(url, "demo") as platform:
        worlds = [World(platform, size) for size in SIZES]
        for what, most, ask, milliseconds in (
            ("list of an organization's tenants, whole", WHOLE, World.tenants, WHOLE_MILLISECONDS),
            ("list of a tenant's keys, whole", WHOLE, World.api_keys, WHOLE_MILLISECONDS),
            ("first page of a tenant's policies", PAGED, World.policies, None),
            (f"page of {MAX_LIMIT} of a tenant's policies", PAGED, World.page_of_policies, PAGE_MILLISECONDS),
            (f"page of {MAX_LIMIT} of a tenant's groups", PAGED, World.page_of_groups, PAGE_MILLISECONDS),
            ("simulate beside so many policies", ONE, World.simulate, None),
            ("decision for a key, beside so many keys and policies", ONE, World.decision, None),
        ):
            asks = [partial(ask, world) for world in worlds]
            yield from sloped(f"{what} ({name})", most, asks, milliseconds)


def sloped(
    what: str, most: float, asks: Sequence[Callable[[], object]], milliseconds: float | None = None
) -> Iterator[Line]:
    """The slope over `SIZES`, and the time at the largest if `milliseconds` is the most that it may be.

    The sizes take turns, so that a slow moment of the machine hits all of them. An ask may return a check of its
    answer, which is made outside the time.
    """
    taken: list[list[float]] = [[] for _ in asks]
    for _ in range(RUNS + 1):
        for times, ask in zip(taken, asks, strict=True):
            began = time.perf_counter()
            check = ask()
            times.append((time.perf_counter() - began) * 1_000)
            if callable(check):
                check()
    medians = [statistics.median(times[1:]) for times in taken]
    slope = statistics.linear_regression(list(map(math.log, SIZES)), list(map(math.log, medians))).slope
    yield Line(what, slope, most, f"{', '.join(f'{median:.1f}' for median in medians)} ms", "")
    if milliseconds is not None:
        yield Line(f"{what}, of {SIZES[-1]:,}", medians[-1], milliseconds, "a fixed limit", "ms")


class World:
    """An organization of so many tenants; the first of them has as many keys, policies, and groups with one policy."""

    def __init__(self, platform: Running, size: int) -> None:
        self.platform, self.size = platform, size
        self.organization, self.tenant, self.key = str(uuid4()), str(uuid4()), secret_format.mint()
        secret = (platform.folder / "secret.key").read_bytes()
        database = Database(platform.database_url)
        with database.write() as connection:
            owner = connection.scalar(select(tables.users.c.id).where(tables.users.c.email == OWNER))
            self._fill(connection, str(owner), secret)
        if database.kind == "postgresql":
            with database.write() as connection:
                connection.exec_driver_sql("ANALYZE tenants, api_keys, policies, groups, policy_attachments")
        database.close()

    def _fill(self, connection: Connection, owner: str, secret: bytes) -> None:
        made, in_tenant = {"created_at": NOW, "updated_at": NOW}, {"tenant_id": self.tenant}
        insert_rows(connection, tables.organizations, [factories.organization(self.organization, NOW)])
        member = factories.membership(NOW, user_id=owner, organization_id=self.organization)
        insert_rows(connection, tables.memberships, [member])
        tenants, policies, groups = ([str(uuid4()) for _ in range(self.size)] for _ in range(3))
        tenants[0] = self.tenant
        rows = [factories.tenant(one, NOW, organization_id=self.organization) for one in tenants]
        insert_rows(connection, tables.tenants, rows)
        insert_rows(connection, tables.default_tag_versions, first_tag_versions(rows))
        secrets = [self.key, *(secret_format.mint() for _ in range(1, self.size))]
        key = {"user_id": owner, "rate_limit": 60_000, "scopes": ["compute:read"], **in_tenant}
        keys = (
            factories.api_key(str(uuid4()), NOW, key_hash=secret_format.digest(secret, plain), **key)
            | {"name": f"key {number}", "key_prefix": secret_format.lookup_prefix(plain)}
            for number, plain in enumerate(secrets)
        )
        insert_rows(connection, tables.api_keys, keys)
        policy = {"document": TRIED, "authored_by": owner, **in_tenant, **made}
        rows_of = (({"id": one, "name": f"policy {number}"} | policy) for number, one in enumerate(policies))
        insert_rows(connection, tables.policies, rows_of)
        group = {"version": 1, "created_by": owner, **in_tenant, **made}
        rows_of = (({"id": one, "name": f"group {number}"} | group) for number, one in enumerate(groups))
        insert_rows(connection, tables.groups, rows_of)
        attachment = {"attachee_type": "group", "attached_by": owner, "attached_at": NOW, **in_tenant}
        pairs = zip(policies, groups, strict=True)
        rows_of = ({"policy_id": policy_id, "attachee_id": group_id} | attachment for policy_id, group_id in pairs)
        insert_rows(connection, tables.policy_attachments, rows_of)

    def _asked(self, answer: Answer) -> Answer:
        assert answer.status == 200, answer
        return answer

    def _list(self, path: str, name: str, size: int, **members: object) -> Callable[[], None]:
        """Request a list; return a check for the number of its distinct records and their members."""
        answer = self._asked(self.platform.get(path, as_=OWNER))

        def check() -> None:
            records = answer.json()[name]
            assert len({record["id"] for record in records}) == len(records) == size
            assert all(record.items() >= members.items() for record in records)

        return check

    def tenants(self) -> Callable[[], None]:
        path = f"/api/v1/organizations/{self.organization}/tenants"
        return self._list(path, "tenants", self.size, role="owner", createdAt=wire_time(NOW), defaultTagCount=0)

    def api_keys(self) -> Callable[[], None]:
        members = {"tenantId": self.tenant, "status": "active", "scopes": ["compute:read"], "createdAt": wire_time(NOW)}
        return self._list(f"/api/v1/tenants/{self.tenant}/api-keys", "apiKeys", self.size, **members)

    def policies(self) -> Callable[[], None]:
        return self._list(f"/api/v1/tenants/{self.tenant}/iam/policies?limit=10", "policies", 10)

    def page_of_policies(self) -> Callable[[], None]:
        path = f"/api/v1/tenants/{self.tenant}/iam/policies?limit={MAX_LIMIT}"
        members = {"document": json.loads(TRIED), "attachmentCount": 1, "createdAt": wire_time(NOW)}
        return self._list(path, "policies", min(self.size, MAX_LIMIT), **members)

    def page_of_groups(self) -> Callable[[], None]:
        path = f"/api/v1/tenants/{self.tenant}/iam/groups?limit={MAX_LIMIT}"
        members = {"memberCount": 0, "policyCount": 1, "createdAt": wire_time(NOW)}
        return self._list(path, "groups", min(self.size, MAX_LIMIT), **members)

    def simulate(self) -> None:
        body = trial(allow("compute:*"))
        self._asked(self.platform.ask("POST", f"/api/v1/tenants/{self.tenant}/iam/simulate", as_=OWNER, body=body))

    def decision(self) -> None:
        path = f"/api/v1/tenants/{self.tenant}/resources/instance?limit=1"
        self._asked(self.platform.get(path, headers={"X-API-Key": self.key}))


def switcher() -> Iterator[Line]:
    """A letter typed into the tenant switcher, to its rows being ranked."""
    from tui.state.preferences import RememberedTenant
    from tui.tenants.switcher import ranked, searchable

    sets = [
        searchable(
            RememberedTenant(str(uuid4()), f"Checkout {n}", f"checkout-{n}", organization_name=f"Organization {n % 20}")
            for n in range(size)
        )
        for size in SIZES
    ]
    asks = [partial(ranked, rows, "che 7", ()) for rows in sets]
    yield from sloped("a letter in the switcher", WHOLE, asks)
    taken = statistics.mean(milliseconds(asks[-1]) for _ in range(RUNS))
    yield Line(f"a letter in the switcher, {SIZES[-1]:,} tenants", taken, 16, "a frame", "ms")


def filtered() -> Line:
    """The first letter of a filter, for which every record is looked into."""
    from client.tables.iam import CATALOGUE
    from tui.widgets.record_view import RecordView

    number = 20_000
    view: RecordView[dict[str, str]] = RecordView(CATALOGUE)
    view.replace([{"name": f"svc:res{n}:act", "accessLevel": "read", "description": "Does it"} for n in range(number)])
    view.prepare(number)
    taken = []
    for _ in range(RUNS):
        view.set_filter("")
        taken.append(milliseconds(partial(view.set_filter, "r")))
    return Line(f"a letter in a filter, {number:,} operations", statistics.median(taken), 16, "a frame", "ms")
