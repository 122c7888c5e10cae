"""Clients that keep several replicas busy, in several processes, and journal their requests and the answers.

A client retries as `exchange.py` does, only longer: a read, or a request with an `Idempotency-Key`, is repeated after a
broken connection, 502 or 503. Any other unexpected answer ends it with an error. Instants are of the machine's
monotonic clock, so that those of different processes can be compared.
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
    """The address, credentials and objects of a client, and its end."""

    port: int
    token: str
    until: float
    seed: int
    tenant: str
    organization: str = ""
    policy: str = ""
    secret: str = ""
    stop: str = ""
    """A file that ends the client when it exists."""
    socket: str = ""
    """The platform's socket; the port is used without it."""
    patience: float = PATIENCE
    """Seconds after which a request without an answer ends the client."""


@dataclass
class Journal:
    """The results of a client: `failures` as (from, to, reason), `done` as its work needs."""

    failures: list[tuple[float, float, str]] = field(default_factory=list)
    done: list[dict[str, Any]] = field(default_factory=list)
    requests: int = 0
    error: str = ""


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: Any
    sent: float
    came: float


class Client:
    def __init__(self, target: Target, journal: Journal) -> None:
        self.target, self.journal, self.random = target, journal, random.Random(target.seed)

    def once(self, method: str, path: str, body: Any = None, secret: str = "", **headers: str) -> Reply | None:
        """Send a request; None if it broke, with a line in the journal."""
        sent = time.monotonic()
        fields = {"X-API-Key": secret} if secret else {"Authorization": f"Bearer {self.target.token}"}
        fields |= {} if body is None else {"Content-Type": "application/json"}
        fields |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection: http.client.HTTPConnection
        if self.target.socket:
            connection = UnixConnection(Path(self.target.socket))
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.target.port, timeout=30)
        self.journal.requests += 1
        try:
            connection.request(method, path, None if body is None else json.dumps(body), fields)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.journal.failures.append((sent, time.monotonic(), type(error).__name__))
            return None
        finally:
            connection.close()
        came = time.monotonic()
        if answer.status in (502, 503):
            self.journal.failures.append((sent, came, f"{answer.status} {content.decode()[:200]}"))
            return None
        received = {name.lower(): value for name, value in answer.getheaders()}
        return Reply(answer.status, received, json.loads(content) if content else None, sent, came)

    def ask(self, method: str, path: str, body: Any = None, *expected: int, **headers: str) -> Reply:
        """Repeat a request until there is an answer, whose status must be one of those expected."""
        first = time.monotonic()
        while True:
            reply = self.once(method, path, body, **headers)
            if reply is not None:
                assert reply.status in (expected or (200,)), (method, path, reply)
                reply.sent = first
                return reply
            assert time.monotonic() < first + self.target.patience, (method, path, self.journal.failures[-3:])
            time.sleep(PAUSE)


def worked(work: Callable[[Client], None], target: Target, journal: Journal | None = None) -> Journal:
    """Repeat a client's work until its end; return its journal, which may be read before."""
    journal = journal or Journal()
    client = Client(target, journal)
    try:
        while time.monotonic() < target.until and not (target.stop and Path(target.stop).exists()):
            work(client)
    except Exception as error:
        journal.error = f"{work.__name__}: {type(error).__name__}: {error}"
    return journal


Work = Callable[[Client], None]


def worked_together(works: list[tuple[Work, Target]]) -> list[Journal]:
    with ThreadPoolExecutor(len(works)) as threads:
        return list(threads.map(lambda one: worked(*one), works))


def reading(client: Client) -> None:
    base = f"/api/v1/tenants/{client.target.tenant}"
    paths = [base, f"{base}/iam/policies?limit=20", f"{base}/api-keys", "/api/v1/tenants"]
    client.ask("GET", client.random.choice(paths))
    time.sleep(client.random.uniform(0.05, 0.15))


def making_keys(client: Client) -> None:
    """Create a key under an idempotency key; sometimes revoke it, and then every replica must refuse it."""
    base = f"/api/v1/tenants/{client.target.tenant}/api-keys"
    number = f"{client.target.seed} {len(client.journal.done)}"
    name, once = f"load {number}", f"key-{number.replace(' ', '-')}"
    body = {"name": name, "scopes": ["compute:read"]}
    reply = client.ask("POST", base, body, 201, 409, Idempotency_Key=once)
    if reply.status == 201:
        key_id, secret = reply.body["apiKey"]["id"], reply.body["key"]
    else:
        assert reply.body["error"]["code"] == "SECRET_ALREADY_SHOWN", reply
        key_id, secret = reply.body["error"]["details"]["apiKeyId"], ""
    revoked = client.random.random() < 0.5
    if secret:
        client.ask("GET", "/api/v1/me", None, 200, secret=secret)
    if revoked:
        client.ask("POST", f"{base}/{key_id}/revoke", {})
        if secret:
            client.ask("GET", "/api/v1/me", None, 401, secret=secret)
    client.journal.done.append({"id": key_id, "name": name, "revoked": revoked})
    time.sleep(client.random.uniform(0.1, 0.3))


def editing(client: Client) -> None:
    """Edit a policy, in turn with and without the operations of `deciding`, each edit with the version before it."""
    path = f"/api/v1/tenants/{client.target.tenant}/iam/policies/{client.target.policy}"
    before = client.ask("GET", path)
    version, gives = before.body["version"], "compute:*" not in json.dumps(before.body["document"])
    body = {"document": document(allow("compute:*" if gives else "storage:*"))}
    sent = time.monotonic()
    reply = client.once("PATCH", path, body, If_Match=before.headers["etag"])
    if reply is None:
        # The stored version shows whether the edit was done.
        now = client.ask("GET", path).body["version"]
        assert now in (version, version + 1), (version, now)
        if now == version:
            return
    else:
        assert (reply.status, reply.body["version"]) == (200, version + 1), reply
    client.journal.done.append({"version": version + 1, "gives": gives, "sent": sent, "known": time.monotonic()})
    time.sleep(client.random.uniform(1, 2.5))


def deciding(client: Client) -> None:
    """Use a key whose policy allows the request from time to time."""
    path = f"/api/v1/tenants/{client.target.tenant}/resources/instance?limit=1"
    reply = client.once("GET", path, secret=client.target.secret)
    if reply is not None:
        assert reply.status in (200, 403), reply
        if reply.status == 403:
            assert reply.body["error"]["code"] == "INSUFFICIENT_PERMISSIONS", reply
        client.journal.done.append({"permit": reply.status == 200, "sent": reply.sent, "came": reply.came})
    time.sleep(client.random.uniform(0.02, 0.08))


def asking_quota(client: Client) -> None:
    """Lower a limit by one, each request under its own idempotency key."""
    number = len(client.journal.done)
    base = f"/api/v1/tenants/{client.target.tenant}"
    report = client.ask("GET", f"{base}/quotas-report").body["report"]
    current = next(one["limit"] for one in report["quotas"] if one["resourceType"] == "vcpu")
    limit = current - 1
    body = {"resourceType": "vcpu", "limit": limit, "reason": f"load {number}"}
    once = f"quota-{client.target.seed}-{number}"
    reply = client.ask("POST", f"{base}/quota-requests", body, 201, Idempotency_Key=once).body["request"]
    assert reply["status"] == "approved", reply
    client.journal.done.append({"id": reply["id"], "limit": limit})
    time.sleep(client.random.uniform(0.8, 1.5))


def making_tenants(client: Client) -> None:
    """Create tenants, whose provisioning continues after their replica is killed."""
    number = len(client.journal.done)
    body = {"displayName": f"Load {client.target.seed} {number}"}
    path = f"/api/v1/organizations/{client.target.organization}/tenants"
    reply = client.ask("POST", path, body, 200, 201, Idempotency_Key=f"tenant-{client.target.seed}-{number}")
    client.journal.done.append({"id": reply.body["id"]})
    time.sleep(client.random.uniform(1, 3))


def applying(client: Client) -> None:
    """Apply a new default tag to all resources, one run at a time, and wait for its end."""
    base = f"/api/v1/tenants/{client.target.tenant}"
    tag = f"run-{client.target.seed}-{len(client.journal.done)}"
    client.ask("PUT", f"{base}/default-tags", {"tags": {tag: "x"}})
    reply = client.ask("POST", f"{base}/default-tags/apply", None, 202, 409)
    # A 409 is of the run that a broken request before it has started: no other client applies here.
    run = (reply.body if reply.status == 202 else reply.body["error"])["runId"]
    while client.ask("GET", f"{base}/operations/{run}").body["status"] in ("pending", "running"):
        time.sleep(0.2)
    client.journal.done.append({"run": run, "tag": tag})


def audited_changes(database: Database) -> Counter[tuple[str, str]]:
    """Return how many audit entries each change has."""
    with database.read() as connection:
        entries = select(audit_log.c.operation, audit_log.c.target).where(audit_log.c.outcome == "done")
        return Counter((row.operation, row.target) for row in connection.execute(entries))


def keys_are_stored_once(database: Database, log: Counter[tuple[str, str]], answered: list[dict[str, Any]]) -> None:
    """Check that each key exists once, under the id of the answer, with one entry for each change."""
    with database.read() as connection:
        keys = {row.id: row for row in connection.execute(select(api_keys).where(api_keys.c.name.startswith("load ")))}
    assert keys.keys() == {one["id"] for one in answered}
    assert len({row.name for row in keys.values()}) == len(keys) == len(answered)
    for one in answered:
        assert (keys[one["id"]].revoked_at is not None) == one["revoked"]
        assert log["api_key.create", f"api_key:{one['id']}"] == 1
        assert log["api_key.revoke", f"api_key:{one['id']}"] == one["revoked"]
