"""Requests a second of reads and writes, beside moto's IAM, which authorizes nothing and closes each connection."""

import json
from collections.abc import Iterator
from functools import partial
from itertools import count, repeat
from pathlib import Path
from urllib.parse import urlencode

from tests.benchmarks.load import rate, request
from tests.benchmarks.peers import commands_of, moto
from tests.benchmarks.ratios import Line, paired
from tests.benchmarks.request_path.resource_loads import INSTANCES, JSON, instances
from tests.benchmarks.servers import MAX_KEY_RATE, databases, free_port
from tests.benchmarks.settings import settings
from tests.service.account import Key
from tests.service.running import Executed

# moto reads from the signature which service the request is for. It does not verify it.
SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/iam/aws4_request, Signature=x",
    "Content-Type": "application/x-www-form-urlencoded",
}


def run() -> Iterator[Line]:
    commands = commands_of("moto[server]", "awscli")
    if commands is not None:
        for name, url in databases("bench"):
            yield from compared(name, url, commands)


def compared(name: str, url: str | None, commands: Path) -> Iterator[Line]:
    port = free_port()
    with Executed(url, "demo", "--listen", f"127.0.0.1:{port}") as platform, moto(commands) as moto_port:
        credential = {"X-API-Key": Key(platform, "compute:read", "compute:write", rateLimit=MAX_KEY_RATE).secret}
        path = f"{INSTANCES}/{instances(platform, 1)[0]['id']}"
        numbers = count()

        def renames() -> Iterator[bytes]:
            for number in numbers:
                yield request("PATCH", path, {**credential, **JSON}, json.dumps({"name": f"web-{number}"}).encode())

        reads = repeat(request("GET", path, credential))
        listing = repeat(request("POST", "/", SIGNED, form("ListGroups")))
        making = (request("POST", "/", SIGNED, form("CreateGroup", GroupName=f"g{n}")) for n in count())
        for what, ours, action, theirs, most in (
            ("read", reads, "ListGroups", listing, 2),
            ("write", renames(), "CreateGroup", making, 5),
        ):
            # One request takes so many times as long as one of the other.
            other, mine, ratio = paired(
                partial(rate, ("127.0.0.1", moto_port), theirs, settings.seconds),
                partial(rate, ("127.0.0.1", port), ours, settings.seconds),
                settings.rounds,
            )
            against = f"moto {action}: {other:,.0f}/s"
            yield Line(f"time of a {what} ({name}): {mine:,.0f}/s", ratio, most, against)


def form(action: str, **fields: str) -> bytes:
    return urlencode({"Action": action, "Version": "2010-05-08", **fields}).encode()
