"""Requests a second of reads and writes, beside moto's IAM, which authorizes nothing and closes each connection."""

import json
import statistics
from collections.abc import Callable, Iterator
from itertools import count, repeat
from pathlib import Path
from urllib.parse import urlencode

from tests.benchmarks.load import rate, request
from tests.benchmarks.moto import moto
from tests.benchmarks.peers import commands_of
from tests.benchmarks.ratios import Line
from tests.benchmarks.request_path.resource_loads import INSTANCES, JSON, instances
from tests.benchmarks.servers import MAX_KEY_RATE, free_port
from tests.benchmarks.settings import settings
from tests.service.account import Key
from tests.service.postgres import Cluster
from tests.service.running import Executed

# moto reads from the signature which service the request is for. It does not verify it.
SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/iam/aws4_request, Signature=x",
    "Content-Type": "application/x-www-form-urlencoded",
}


def run() -> Iterator[Line]:
    commands = commands_of("moto[server]", "awscli")
    if commands is None:
        return
    yield from compared("SQLite", None, commands)
    with Cluster() as cluster:
        cluster.create("bench")
        yield from compared("PostgreSQL", cluster.url("bench"), commands)


def compared(name: str, url: str | None, commands: Path) -> Iterator[Line]:
    port = free_port()
    with Executed(url, "demo", "--listen", f"127.0.0.1:{port}") as platform, moto(commands) as other:
        credential = {"X-API-Key": Key(platform, "compute:read", "compute:write", rateLimit=MAX_KEY_RATE).secret}
        path = f"{INSTANCES}/{instances(platform, 1)[0]['id']}"
        numbers = count()

        def renames() -> Iterator[bytes]:
            for number in numbers:
                yield request("PATCH", path, {**credential, **JSON}, json.dumps({"name": f"web-{number}"}).encode())

        def reads() -> float:
            return rate(("127.0.0.1", port), repeat(request("GET", path, credential)), settings.seconds)

        def writes() -> float:
            return rate(("127.0.0.1", port), renames(), settings.seconds)

        listing = repeat(request("POST", "/", SIGNED, form("ListGroups")))
        making = (request("POST", "/", SIGNED, form("CreateGroup", GroupName=f"g{n}")) for n in count())
        theirs = {
            "ListGroups": lambda: rate(other, listing, settings.seconds),
            "CreateGroup": lambda: rate(other, making, settings.seconds),
        }
        for what, ours, peer, most in (("read", reads, "ListGroups", 2), ("write", writes, "CreateGroup", 5)):
            yield slower(f"time of a {what} ({name})", ours, theirs[peer], most, f"moto {peer}")


def slower(what: str, ours: Callable[[], float], theirs: Callable[[], float], most: float, against: str) -> Line:
    """Return how many times as long one request takes as one of the other, by rates measured in turn."""
    pairs = [(ours(), theirs()) for _ in range(settings.rounds)]
    mine, other = (statistics.median(pair[side] for pair in pairs) for side in (0, 1))
    ratio = statistics.median(other / mine for mine, other in pairs)
    return Line(f"{what}: {mine:,.0f}/s", ratio, most, f"{against}: {other:,.0f}/s")


def form(action: str, **fields: str) -> bytes:
    return urlencode({"Action": action, "Version": "2010-05-08", **fields}).encode()
