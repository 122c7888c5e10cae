"""Requests a second of reads and writes, against a bare FastAPI route and against moto's IAM on the same machine.

A read of ours is decided (credential, scope, role, policies, rate limit) and comes from the database; a write has its
audit entry. The bare route answers the same JSON from memory and asks nobody; moto keeps its groups in memory.
"""

import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, repeat
from pathlib import Path
from urllib.parse import urlencode

from tests.benchmarks.load import rate, request
from tests.benchmarks.moto import moto
from tests.benchmarks.peers import commands_of
from tests.benchmarks.ratios import Line
from tests.service.account import Key
from tests.service.postgres import Cluster
from tests.service.running import OWNER, WEB_SHOP, Executed

SECONDS = 4.0
TURNS = 3
BARE = """
import json, sys
from fastapi import FastAPI
import uvicorn

app = FastAPI(openapi_url=None)
answer = json.loads(sys.argv[2])

@app.get("/read")
def read():
    return answer

@app.patch("/write")
def write(body: dict):
    return {**answer, **body}

uvicorn.run(app, port=int(sys.argv[1]), log_level="error", loop="uvloop", http="httptools")
"""
# What moto reads from the signature of a request: which service is meant. It does not check it.
SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/iam/aws4_request, Signature=x",
    "Content-Type": "application/x-www-form-urlencoded",
}
JSON = {"Content-Type": "application/json"}


def run() -> Iterator[Line]:
    commands = commands_of("moto[server]", "awscli")
    yield from compared("SQLite", None, commands)
    with Cluster() as cluster:
        cluster.create("bench")
        yield from compared("PostgreSQL", cluster.url("bench"), commands)


def compared(name: str, url: str | None, commands: Path | None) -> Iterator[Line]:
    port = free_port()
    with Executed(url, "demo", "--listen", f"127.0.0.1:{port}") as platform:
        key = Key(platform, "compute:read", "compute:write", rateLimit=60_000)
        credential = {"X-API-Key": key.secret}
        path = f"/api/v1/tenants/{WEB_SHOP}/resources/instance"
        one = platform.get(f"{path}?limit=1", as_=OWNER).json()["resources"][0]
        numbers = count()

        def renames() -> Iterator[bytes]:
            for number in numbers:
                body = json.dumps({"name": f"web-{number}"}).encode()
                yield request("PATCH", f"{path}/{one['id']}", {**credential, **JSON}, body)

        def reads() -> float:
            return rate(("127.0.0.1", port), repeat(request("GET", f"{path}/{one['id']}", credential)), SECONDS)

        def writes() -> float:
            return rate(("127.0.0.1", port), renames(), SECONDS)

        with bare(one) as theirs:
            read, write = repeat(request("GET", "/read", {})), repeat(request("PATCH", "/write", JSON, b'{"name":"x"}'))
            yield slower(f"reads a second ({name})", reads, lambda: rate(theirs, read, SECONDS), 20, "a bare route")
            yield slower(f"writes a second ({name})", writes, lambda: rate(theirs, write, SECONDS), 30, "a bare route")
        if commands is None:
            return
        with moto(commands) as other:
            listing = repeat(request("POST", "/", SIGNED, form("ListGroups")))
            making = (request("POST", "/", SIGNED, form("CreateGroup", GroupName=f"g{n}")) for n in count())
            yield slower(f"reads a second ({name})", reads, lambda: rate(other, listing, SECONDS), 2, "moto ListGroups")
            yield slower(
                f"writes a second ({name})", writes, lambda: rate(other, making, SECONDS), 5, "moto CreateGroup"
            )


def slower(what: str, ours: Callable[[], float], theirs: Callable[[], float], most: float, against: str) -> Line:
    """How many times as long one request takes as one of the others, by rates taken in turn."""
    pairs = [(ours(), theirs()) for _ in range(TURNS)]
    mine, other = (statistics.median(pair[side] for pair in pairs) for side in (0, 1))
    ratio = statistics.median(other / mine for mine, other in pairs)
    return Line(f"{what}: {mine:,.0f}", ratio, most, f"{against} ({other:,.0f})")


def form(action: str, **fields: str) -> bytes:
    return urlencode({"Action": action, "Version": "2010-05-08", **fields}).encode()


@contextmanager
def bare(answer: object) -> Iterator[tuple[str, int]]:
    """A FastAPI application with one read and one write, on the same server as ours."""
    with tempfile.TemporaryDirectory(prefix="frost-") as folder:
        program, port = Path(folder) / "bare.py", free_port()
        program.write_text(BARE)
        server = subprocess.Popen([sys.executable, str(program), str(port), json.dumps(answer)])
        try:
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield "127.0.0.1", port
        finally:
            server.terminate()
            server.wait()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
