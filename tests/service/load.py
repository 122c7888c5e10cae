"""Clients that keep platforms busy while they are killed, and journal their requests and the answers.

A client retries as `exchange.py` does, only longer: a read, or a request with an `Idempotency-Key`, is repeated after a
broken connection, 429, 502 or 503. Any other unexpected answer ends it with an error.
"""

import http.client
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from service.catalogue.operations import roles
from service.catalogue.resource_types import default_limits
from service.db.engine import Database
from service.db.tables import (
    api_keys,
    audit_log,
    billing_accounts,
    isolation_projects,
    operations,
    resources,
    tenant_quotas,
    tenant_roles,
    tenants,
)
from tests.api import UnixConnection, exchange

PATIENCE_SECONDS = 600
"""After this time a request without an answer ends its client. It may meet many kills."""
PAUSE = 0.15
PARTS = {isolation_projects: 1, tenant_roles: len(roles()), tenant_quotas: len(default_limits()), billing_accounts: 1}
"""The rows of a provisioned tenant."""


@dataclass
class Target:
    token: str
    seed: int
    tenant: str
    organization: str = ""
    socket: str = ""
    port: int = 0
    """The platform's port; used without a socket."""


@dataclass
class Journal:
    """The results of a client: `failures` as (from, to, reason), `results` as its work needs."""

    failures: list[tuple[float, float, str]] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""


@dataclass
class Reply:
    status: int
    body: Any


class Client:
    def __init__(self, target: Target, journal: Journal) -> None:
        self.target, self.journal, self.random = target, journal, random.Random(target.seed)

    def once(self, method: str, path: str, body: Any = None, secret: str = "", **headers: str) -> Reply | None:
        """Send a request; None if it broke, with a line in the journal."""
        sent = time.monotonic()
        fields = {"X-API-Key": secret} if secret else {"Authorization": f"Bearer {self.target.token}"}
        fields |= {} if body is None else {"Content-Type": "application/json"}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        unix, port = self.target.socket, self.target.port
        connection = UnixConnection(Path(unix)) if unix else http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            answer = exchange(connection, method, path, fields, None if body is None else json.dumps(body).encode())
        except (OSError, http.client.HTTPException) as error:
            self.journal.failures.append((sent, time.monotonic(), type(error).__name__))
            return None
        if answer.status in (502, 503):
            self.journal.failures.append((sent, time.monotonic(), f"{answer.status} {answer.body.decode()[:200]}"))
            return None
        return Reply(answer.status, json.loads(answer.body) if answer.body else None)

    def ask(self, method: str, path: str, body: Any = None, *expected: int, **headers: str) -> Reply:
        """Repeat a request until there is an answer, whose status must be one of those expected."""
        first = time.monotonic()
        while True:
            reply = self.once(method, path, body, **headers)
            if reply is not None and reply.status == 429:  # refused keys of many clients reach the limit of an address
                time.sleep(reply.body["retry_after"])
            elif reply is not None:
                assert reply.status in (expected or (200,)), (method, path, reply)
                return reply
            assert time.monotonic() < first + PATIENCE_SECONDS, (method, path, self.journal.failures[-3:])
            time.sleep(PAUSE)


Work = Callable[[Client], None]


class Load:
    """Clients in threads, whose journals grow while they work.

    Args:
        tasks: the work of each client, and its members of `Target`.
        common: the members of `Target` that all clients have.
    """

    def __init__(self, tasks: list[tuple[Work, dict[str, str]]], seed: int, **common: Any) -> None:
        self.works, self.stopped = [work for work, _ in tasks], threading.Event()
        self.journals = [Journal() for _ in tasks]
        targets = [Target(**common, **members, seed=seed + number) for number, (_, members) in enumerate(tasks)]
        self.threads = ThreadPoolExecutor(len(tasks))
        self.ends = list(map(self.threads.submit, [self._repeat] * len(tasks), self.works, targets, self.journals))

    def _repeat(self, work: Work, target: Target, journal: Journal) -> None:
        client = Client(target, journal)
        try:
            while not self.stopped.is_set():
                work(client)
        except Exception as error:
            journal.error = f"{work.__name__}: {type(error).__name__}: {error}"

    def stop(self) -> None:
        self.stopped.set()
        for end in self.ends:
            end.result(PATIENCE_SECONDS)
        self.threads.shutdown()

    def results(self, *works: Work) -> list[dict[str, Any]]:
        """Return the results of some works, or of all."""
        journals = zip(self.works, self.journals, strict=True)
        return [one for work, journal in journals if work in (works or self.works) for one in journal.results]

    def failures(self) -> list[tuple[float, float, str]]:
        """Return the requests that broke; no client may have ended."""
        errors = [journal.error for journal in self.journals if journal.error]
        assert not errors, errors
        return [failure for journal in self.journals for failure in journal.failures]


def create_keys(client: Client) -> None:
    """Create a key under an idempotency key; sometimes revoke it, and then every replica must refuse it."""
    base = f"/api/v1/tenants/{client.target.tenant}/api-keys"
    number = f"{client.target.seed} {len(client.journal.results)}"
    name, once = f"load {number}", f"key-{number.replace(' ', '-')}"
    # A replica that is killed takes its share of a low limit with it.
    body = {"name": name, "scopes": ["compute:read"], "rateLimit": 60_000}
    reply = client.ask("POST", base, body, 201, 409, Idempotency_Key=once)
    if reply.status == 201:
        key_id, secret = reply.body["apiKey"]["id"], reply.body["key"]
    else:
        assert reply.body["error"]["code"] == "SECRET_ALREADY_SHOWN", reply
        key_id, secret = reply.body["error"]["details"]["apiKeyId"], ""
    revoked = client.random.random() < 0.1
    if secret:
        client.ask("GET", "/api/v1/me", None, 200, secret=secret)
    if revoked:
        client.ask("POST", f"{base}/{key_id}/revoke", {})
        if secret:
            client.ask("GET", "/api/v1/me", None, 401, secret=secret)
    client.journal.results.append({"id": key_id, "name": name, "revoked": revoked})
    time.sleep(client.random.uniform(0.1, 0.3))


def create_tenants(client: Client) -> None:
    """Create tenants, whose provisioning continues after their replica is killed."""
    number = len(client.journal.results)
    body = {"displayName": f"Load {client.target.seed} {number}"}
    path = f"/api/v1/organizations/{client.target.organization}/tenants"
    reply = client.ask("POST", path, body, 200, 201, Idempotency_Key=f"tenant-{client.target.seed}-{number}")
    client.journal.results.append({"id": reply.body["id"]})
    time.sleep(client.random.uniform(1, 3))


def apply_tags(client: Client) -> None:
    """Apply a new default tag to all resources, one run at a time, and wait for its end."""
    base = f"/api/v1/tenants/{client.target.tenant}"
    tag = f"run-{client.target.seed}-{len(client.journal.results)}"
    client.ask("PUT", f"{base}/default-tags", {"tags": {tag: "x"}})
    reply = client.ask("POST", f"{base}/default-tags/apply", None, 202, 409)
    # A 409 is of the run that a broken request before it has started: no other client applies here.
    run = (reply.body if reply.status == 202 else reply.body["error"])["runId"]
    while client.ask("GET", f"{base}/operations/{run}").body["status"] in ("pending", "running"):
        time.sleep(0.2)
    client.journal.results.append({"run": run})


def require_counted(database: Database, clients: Load) -> None:
    """Check that the counts of all runs of a tag are the resources that have it."""
    with database.read() as connection:
        applies = operations.c.kind == "apply_default_tags"
        runs = {row.run_id: row for row in connection.execute(select(operations).where(applies))}
        tags = connection.execute(select(resources.c.tenant_id, resources.c.tags))
        stored = Counter((row.tenant_id, tag) for row in tags for tag in row.tags if tag.startswith("run-"))
    assert {result["run"] for result in clients.results(apply_tags)} <= runs.keys()
    updated: Counter[tuple[str, str]] = Counter()
    for row in runs.values():
        (tag,) = row.snapshot["tags"]
        updated[row.tenant_id, tag] += row.result["summary"]["updated"]
    assert updated == stored


def require_stored_once(database: Database, clients: Load) -> None:
    """Check that each key and tenant exists once, under the id of the answer, with one entry for each change."""
    answered = clients.results(create_keys)
    with database.read() as connection:
        entries = select(audit_log.c.operation, audit_log.c.target).where(audit_log.c.outcome == "done")
        log = Counter((row.operation, row.target) for row in connection.execute(entries))
        keys = {row.id: row for row in connection.execute(select(api_keys).where(api_keys.c.name.startswith("load ")))}
        stored = connection.execute(select(tenants).where(tenants.c.display_name.startswith("Load "))).all()
        for table, number in PARTS.items():
            counts = select(table.c.tenant_id, func.count()).group_by(table.c.tenant_id)
            parts = {row[0]: row[1] for row in connection.execute(counts)}
            assert {parts.get(row.id) for row in stored} == {number}, table.name
        assert set(connection.scalars(select(operations.c.status))) == {"completed"}
        runs = select(operations.c.steps).where(operations.c.tenant_id.in_([row.id for row in stored]))
        assert {step["attempts"] for steps in connection.scalars(runs) for step in steps} == {1}
    assert keys.keys() == {one["id"] for one in answered}
    assert len({row.name for row in keys.values()}) == len(keys) == len(answered)
    for one in answered:
        assert (keys[one["id"]].revoked_at is not None) == one["revoked"]
        assert log["api_key.create", f"api_key:{one['id']}"] == 1
        assert log["api_key.revoke", f"api_key:{one['id']}"] == one["revoked"]
    created = clients.results(create_tenants)
    assert {row.id for row in stored} == {one["id"] for one in created}
    assert len({row.display_name for row in stored}) == len(created)
    assert {row.status for row in stored} == {"active"}
    for name in ("tenant.create", "tenant.provision"):
        assert {log[name, f"tenant:{row.id}"] for row in stored} == {1}
