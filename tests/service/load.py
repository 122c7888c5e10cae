"""Clients that keep several replicas busy, in several processes, and write down what they asked and were told.

Every client retries as ours does (`exchange.py`), only longer: a read, or what bears an `Idempotency-Key`, is sent
again after a broken connection, 502 or 503. Whatever else is not what it expects ends it with an error. Instants are
of the machine's one monotonic clock, so that what different processes saw can be compared.
"""

import http.client
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import select

from service.db.engine import Database
from service.db.tables import api_keys, audit_log
from tests.homes import UnixConnection
from tests.service.access import allow, document

PATIENCE = 45.0
PAUSE = 0.15


@dataclass
class Target:
    """What a client is told: where, as whom, on what, and until when."""

    port: int
    token: str
    until: float
    seed: int
    tenant: str
    organization: str = ""
    policy: str = ""
    secret: str = ""
    socket: str = ""
    """The platform's socket; the port is used without it."""
    patience: float = PATIENCE
    """Seconds after which a request without an answer ends the client."""


@dataclass
class Journal:
    """What a client saw: `failures` as (from, to, why), `done` as it needs."""

    failures: list[tuple[float, float, str]] = field(default_factory=list)
    done: list[dict[str, Any]] = field(default_factory=list)
    requests: int = 0
    error: str = ""


@dataclass
class Told:
    status: int
    headers: dict[str, str]
    body: Any
    sent: float
    came: float


class Client:
    """A person at the balancer."""

    def __init__(self, target: Target, journal: Journal) -> None:
        self.target, self.journal, self.random = target, journal, random.Random(target.seed)

    def once(self, method: str, path: str, body: Any = None, secret: str = "", **headers: str) -> Told | None:
        """One request; None when it broke, with a line in the journal."""
        sent = time.monotonic()
        credential = {"X-API-Key": secret} if secret else {"Authorization": f"Bearer {self.target.token}"}
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        connection: http.client.HTTPConnection
        if self.target.socket:
            connection = UnixConnection(Path(self.target.socket))
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.target.port, timeout=30)
        self.journal.requests += 1
        try:
            content = None if body is None else json.dumps(body)
            typed = {} if body is None else {"Content-Type": "application/json"}
            connection.request(method, path, content, {**credential, **typed, **said})
            answer = connection.getresponse()
            read = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.journal.failures.append((sent, time.monotonic(), type(error).__name__))
            return None
        finally:
            connection.close()
        came = time.monotonic()
        if answer.status in (502, 503):
            self.journal.failures.append((sent, came, f"{answer.status} {read.decode()[:200]}"))
            return None
        got = {name.lower(): value for name, value in answer.getheaders()}
        return Told(answer.status, got, json.loads(read) if read else None, sent, came)

    def ask(self, method: str, path: str, body: Any = None, *expected: int, **headers: str) -> Told:
        """Ask until there is an answer, which must be one of those expected."""
        first = time.monotonic()
        while True:
            told = self.once(method, path, body, **headers)
            if told is not None:
                assert told.status in (expected or (200,)), (method, path, told)
                told.sent = first
                return told
            assert time.monotonic() < first + self.target.patience, (method, path, self.journal.failures[-3:])
            time.sleep(PAUSE)


def worked(work: Callable[[Client], None], target: Target, journal: Journal | None = None) -> Journal:
    """Do a client's work over and over until the time is up; its journal, which may be read meanwhile."""
    journal = journal or Journal()
    client = Client(target, journal)
    try:
        while time.monotonic() < target.until:
            work(client)
    except Exception as error:
        journal.error = f"{work.__name__}: {type(error).__name__}: {error}"
    return journal


Work = Callable[[Client], None]


def worked_together(works: list[tuple[Work, Target]]) -> list[Journal]:
    """The journals of some clients that share a process."""
    with ThreadPoolExecutor(len(works)) as threads:
        return list(threads.map(lambda one: worked(*one), works))


def reading(client: Client) -> None:
    """Lists of the tenant, all of them answered."""
    base = f"/api/v1/tenants/{client.target.tenant}"
    client.ask(
        "GET", client.random.choice([base, f"{base}/iam/policies?limit=20", f"{base}/api-keys", "/api/v1/tenants"])
    )
    time.sleep(client.random.uniform(0.05, 0.15))


def making_keys(client: Client) -> None:
    """A key under an idempotency key; sometimes it is revoked, and then refused by whichever replica is asked."""
    base, name = (
        f"/api/v1/tenants/{client.target.tenant}/api-keys",
        f"load {client.target.seed} {len(client.journal.done)}",
    )
    once = f"key-{client.target.seed}-{len(client.journal.done)}"
    body = {"name": name, "scopes": ["compute:read"]}
    told = client.ask("POST", base, body, 201, 409, Idempotency_Key=once)
    if told.status == 201:
        made, secret = told.body["apiKey"]["id"], told.body["key"]
    else:
        assert told.body["error"]["code"] == "SECRET_ALREADY_SHOWN", told
        made, secret = told.body["error"]["details"]["apiKeyId"], ""
    revoked = client.random.random() < 0.5
    if secret:
        client.ask("GET", "/api/v1/me", None, 200, secret=secret)
    if revoked:
        client.ask("POST", f"{base}/{made}/revoke", {})
        if secret:
            client.ask("GET", "/api/v1/me", None, 401, secret=secret)
    client.journal.done.append({"id": made, "name": name, "revoked": revoked})
    time.sleep(client.random.uniform(0.1, 0.3))


def editing(client: Client) -> None:
    """One policy, in turn with and without what `deciding` asks for; each change names the version it follows."""
    path = f"/api/v1/tenants/{client.target.tenant}/iam/policies/{client.target.policy}"
    before = client.ask("GET", path)
    version, gives = before.body["version"], "compute:*" not in json.dumps(before.body["document"])
    body = {"document": document(allow("compute:*" if gives else "storage:*"))}
    sent = time.monotonic()
    told = client.once("PATCH", path, body, If_Match=before.headers["etag"])
    if told is None:
        # Whether it was done is seen by who looks.
        now = client.ask("GET", path).body["version"]
        assert now in (version, version + 1), (version, now)
        if now == version:
            return
    else:
        assert (told.status, told.body["version"]) == (200, version + 1), told
    client.journal.done.append({"version": version + 1, "gives": gives, "sent": sent, "known": time.monotonic()})
    time.sleep(client.random.uniform(1, 2.5))


def deciding(client: Client) -> None:
    """Whether a key may do what its policy gives it from time to time."""
    path = f"/api/v1/tenants/{client.target.tenant}/resources/instance?limit=1"
    told = client.once("GET", path, secret=client.target.secret)
    if told is not None:
        assert told.status in (200, 403), told
        if told.status == 403:
            assert told.body["error"]["code"] == "INSUFFICIENT_PERMISSIONS", told
        client.journal.done.append({"permit": told.status == 200, "sent": told.sent, "came": told.came})
    time.sleep(client.random.uniform(0.02, 0.08))


def asking_quota(client: Client) -> None:
    """One less of something, each request under its own idempotency key."""
    number = len(client.journal.done)
    base = f"/api/v1/tenants/{client.target.tenant}"
    limits = client.ask("GET", f"{base}/quotas-report").body["report"]
    current = next(one["limit"] for one in limits["quotas"] if one["resourceType"] == "vcpu")
    wanted = current - 1
    body = {"resourceType": "vcpu", "limit": wanted, "reason": f"load {number}"}
    once = f"quota-{client.target.seed}-{number}"
    told = client.ask("POST", f"{base}/quota-requests", body, 201, Idempotency_Key=once).body["request"]
    assert told["status"] == "approved", told
    client.journal.done.append({"id": told["id"], "limit": wanted})
    time.sleep(client.random.uniform(0.8, 1.5))


def making_tenants(client: Client) -> None:
    """Tenants, whose provisioning goes on through whatever becomes of the replica that began it."""
    number = len(client.journal.done)
    body = {"displayName": f"Load {client.target.seed} {number}"}
    path = f"/api/v1/organizations/{client.target.organization}/tenants"
    told = client.ask("POST", path, body, 200, 201, Idempotency_Key=f"tenant-{client.target.seed}-{number}")
    client.journal.done.append({"id": told.body["id"]})
    time.sleep(client.random.uniform(1, 3))


def applying(client: Client) -> None:
    """A new default tag onto everything, watched to its end: one run at a time, and each ends."""
    base = f"/api/v1/tenants/{client.target.tenant}"
    tag = f"run-{client.target.seed}-{len(client.journal.done)}"
    client.ask("PUT", f"{base}/default-tags", {"tags": {tag: "x"}})
    told = client.ask("POST", f"{base}/default-tags/apply", None, 202, 409)
    # A 409 is of the run that the broken request before it has begun: nobody else applies here.
    run = (told.body if told.status == 202 else told.body["error"])["runId"]
    while client.ask("GET", f"{base}/operations/{run}").body["status"] in ("pending", "running"):
        time.sleep(0.2)
    client.journal.done.append({"run": run, "tag": tag})


def audited_changes(database: Database) -> Counter[tuple[str, str]]:
    """How often each change was written down."""
    with database.read() as connection:
        rows = connection.execute(
            select(audit_log.c.operation, audit_log.c.target).where(audit_log.c.outcome == "done")
        )
        return Counter((row.operation, row.target) for row in rows)


def keys_are_stored_once(database: Database, log: Counter[tuple[str, str]], answered: list[dict[str, Any]]) -> None:
    """Each key that was asked for exists once, under the id that was answered, with one entry for each change."""
    with database.read() as connection:
        keys = {row.id: row for row in connection.execute(select(api_keys).where(api_keys.c.name.startswith("load ")))}
    assert keys.keys() == {one["id"] for one in answered}
    assert len({row.name for row in keys.values()}) == len(keys) == len(answered)
    for one in answered:
        assert (keys[one["id"]].revoked_at is not None) == one["revoked"]
        assert log["api_key.create", f"api_key:{one['id']}"] == 1
        assert log["api_key.revoke", f"api_key:{one['id']}"] == one["revoked"]
