"""Memory of platform and screens over the requests and keys of an hour, compressed to minutes."""

import itertools
import time
from collections.abc import Iterator

from tests.benchmarks.commands import started
from tests.benchmarks.many_screens import opened
from tests.benchmarks.processors import resident
from tests.benchmarks.ratios import Line
from tests.benchmarks.settings import settings
from tests.people import OWNER, WEB_SHOP
from tests.service.access import allow, document_text
from tests.service.account import Key
from tests.service.running import Executed, Running
from tests.terminal import Program, key_bytes

PRESSES = 1_800
REQUESTS = 100_000
# Caches fill in the first part; from then on nothing may pile up.
FIRST = 0.2
FLAT = 1.05
# Through the lists with a filter, the details, the help and the switcher; two tenants in turn.
ROUND = (
    *("1", "down", "d", "up", "d", "2", "down", "enter", "escape", "3", "down", "4", "/", "c", "escape", "g", "6"),
    *("down", "7", "8", "9", "down", "?", "escape", "-", "r", ":", "escape", "ctrl+t", "n", "escape", "1"),
)


def run() -> Iterator[Line]:
    total, presses = settings.load(REQUESTS, 40), settings.load(PRESSES, 40)
    with Executed() as platform:
        assert platform.process
        pid, asked = platform.process.pid, requests(platform)
        used = [after(pid, asked, count) for count in (int(total * FIRST), int(total * (1 - FIRST)))]
        yield ratio(f"the platform's memory after {total:,} requests", *used)
    with started() as home:
        program = opened(home.environment({"COLORTERM": "truecolor"}))
        keys = itertools.cycle(ROUND)
        used = [pressed(program, keys, count) for count in (int(presses * FIRST), int(presses * (1 - FIRST)))]
        program.quit()
    yield ratio(f"the screens' memory after {presses:,} keys", *used)


def ratio(what: str, first: float, last: float) -> Line:
    return Line(what, last / first, FLAT, f"after a fifth of them ({first:.0f} MiB)")


def after(pid: int, asked: Iterator[None], count: int) -> float:
    """MiB after so many more."""
    for _ in itertools.islice(asked, count):
        pass
    return resident(pid)


def requests(platform: Running) -> Iterator[None]:
    """Yield requests and changes by people and keys, of everything the screens read, endlessly."""
    key = Key(platform, "compute:read", "compute:write", rateLimit=60_000)
    base = f"/api/v1/tenants/{WEB_SHOP}"
    one = platform.get(f"{base}/resources/instance?limit=1", as_=OWNER).json()["resources"][0]["id"]
    tried = {"operation": "compute:instances:read", "target": "*", "facts": {}}
    reads = ("", "/quotas-report", "/api-keys", "/iam/groups", "/iam/policies", "/default-tags", "/operations")
    for number in itertools.count():
        # A new document, so that the cache of compiled ones is replaced.
        text = document_text(allow("compute:*") | {"name": f"r{number}"})
        answers = [
            platform.get(base + reads[number % len(reads)], as_=OWNER),
            platform.get(f"{base}/resources/instance/{one}", headers={"X-API-Key": key.secret}),
            platform.ask("POST", f"{base}/iam/simulate", as_=OWNER, body=tried | {"documentText": text}),
            key.use("PATCH", f"{base}/resources/instance/{one}", {"name": f"n{number}"}),
        ]
        for answer in answers:
            assert answer.status == 200, answer
            yield


def pressed(program: Program, keys: Iterator[str], count: int) -> float:
    """MiB after so many more keys, each answered before the next."""
    for name in itertools.islice(keys, count):
        program.write(key_bytes(name))
        program.until_quiet(0.06, 1)
        # Earlier output is not needed, and large.
        program.chunks.clear()
        program._replayed = 0
    assert program.alive
    time.sleep(0.5)
    return resident(program.pid)
