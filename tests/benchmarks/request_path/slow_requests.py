"""The 99th percentile of quick reads while slow requests run, beside the same reads alone."""

import http.client
import json
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from tests.benchmarks import wrk
from tests.benchmarks.growth import World
from tests.benchmarks.policy import text_of
from tests.benchmarks.processors import LOAD, on_cores
from tests.benchmarks.ratios import Line
from tests.benchmarks.request_path.resource_loads import JSON, reads
from tests.benchmarks.samples import warm_up
from tests.benchmarks.servers import Platform, platforms
from tests.benchmarks.settings import settings
from tests.people import OWNER, WEB_SHOP
from tests.service.access import Iam, allow
from tests.service.running import ask_on

MAX_DELAY_MILLISECONDS = 5
PAUSE_MILLISECONDS, CONNECTIONS = 5, 2
LIST_SIZE, RULES, PRINCIPALS = 10_000, 500, 20
IAM = f"/api/v1/tenants/{WEB_SHOP}/iam"
Request = Callable[[], tuple[str, str, str | None]]
"""Returns the method, path and body of the next slow request."""


def run() -> Iterator[Line]:
    for name, platform in platforms():
        load = reads(platform)
        load.delay_milliseconds = PAUSE_MILLISECONDS
        slow = slow_requests(platform)
        warm_up(load, platform.server)
        for what, request in slow.items():
            yield delayed(f"quick reads beside {what}: added delay at p99 ({name})", platform, load, request)


def delayed(what: str, platform: Platform, load: wrk.Load, request: Request) -> Line:
    delays, alone = [], []
    times: list[float] = []
    for _ in range(settings.rounds):
        quiet = load.send(platform.port, CONNECTIONS)
        with repeated(platform, request, times):
            busy = load.send(platform.port, CONNECTIONS)
        delays.append(busy.p99 - quiet.p99)
        alone.append(quiet.p99)
    spread = f"{min(delays):.1f} to {max(delays):.1f} ms"
    against = (
        f"alone ({statistics.median(alone):.1f} ms); {len(times)} slow requests of {statistics.median(times):.0f} ms"
    )
    return Line(what, statistics.median(delays), MAX_DELAY_MILLISECONDS, f"{against}; {spread}", "ms")


def slow_requests(platform: Platform) -> dict[str, Request]:
    """Create the records that the slow requests need; return the requests by name."""
    chance, numbers, iam = random.Random(1), count(), Iam(platform)
    tenant = World(platform, LIST_SIZE).tenant
    document = json.loads(text_of(chance, RULES))
    policy, group = iam.policy("benchmark preview", allow("compute:instances:read")), iam.group("benchmark preview")
    assert iam.done(iam.attach(policy, "group", group))
    for number in range(PRINCIPALS):
        assert iam.done(iam.add(group, "workload_identity", iam.binding(f"preview-{number}")))

    def new_text() -> str:
        """Return a document that no cache has."""
        document["rules"][0]["name"] = f"rule of request {next(numbers)}"
        return json.dumps(document)

    def preview() -> tuple[str, str, str]:
        body = {"change": "updatePolicy", "policyId": policy, "documentText": new_text()}
        return "POST", f"{IAM}/preview", json.dumps(body)

    return {
        f"a list of {LIST_SIZE:,}": lambda: ("GET", f"/api/v1/tenants/{tenant}/api-keys", None),
        f"a preview for {PRINCIPALS} identities": preview,
        f"an author check of {RULES} rules": lambda: ("POST", f"{IAM}/check", json.dumps({"documentText": new_text()})),
    }


@contextmanager
def repeated(platform: Platform, request: Request, times: list[float]) -> Iterator[None]:
    """Send a slow request again and again while the context is open; add its milliseconds to `times`."""
    headers = {"Authorization": f"Bearer {platform.token(OWNER)}", **JSON}
    over, failures = threading.Event(), []

    def send() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", platform.port, timeout=60)
        while not over.is_set():
            method, path, body = request()
            began = time.perf_counter()
            answer = ask_on(connection, method, path, headers.items(), body.encode() if body else None)
            if answer.status != 200:
                failures.append(f"{method} {path}: {answer}")
                return
            times.append((time.perf_counter() - began) * 1_000)
        connection.close()

    with on_cores(LOAD):
        thread = threading.Thread(target=send)
        thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if failures:
        raise RuntimeError(failures[0])
