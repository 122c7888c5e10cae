"""A platform under a flood: 900 busy connections, 600 bodies that are never finished, and trailers without an end.

One address floods, then four with reads, changes and previews of one credential, whose connections are all accepted.
Others are measured from another address, and health from both and over the unix socket. The flood runs in a process of
its own (`python -m tests.benchmarks.flood PORT REQUEST SECONDS CONNECTIONS ADDRESSES`). Loopback only.
"""

import asyncio
import http.client
import json
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import cycle
from pathlib import Path

from tests.api import UnixConnection, exchange
from tests.benchmarks.load import answer_of, request
from tests.benchmarks.processors import resident
from tests.benchmarks.ratios import Line
from tests.benchmarks.servers import databases, free_port
from tests.people import OWNER, WEB_SHOP
from tests.service.access import allow, trial
from tests.service.account import Key
from tests.service.running import Executed, Running
from tests.waiting import at_once

SECONDS = 12.0
CONNECTIONS = 900
BODIES = 600
BODY_BYTES = 990_000
TRAILER_BYTES = 150 * 1024 * 1024
FLOODER, OTHER = "127.0.0.1", "127.0.0.2"
# Below the limit of connections per address.
FLOODERS = ("127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6")
PAUSE = 0.2
JSON = {"Content-Type": "application/json"}
CHANGE = b'{"displayName": "Web shop"}'
PREVIEW = json.dumps(trial(allow("*"))).encode()


def run() -> Iterator[Line]:
    for name, url in databases("flood"):
        port = free_port()
        with Executed(url, "demo", "--listen", f"127.0.0.1:{port}") as platform:
            yield from measured(name, platform, port)


def measured(name: str, platform: Running, port: int) -> Iterator[Line]:
    assert platform.process
    pid = platform.process.pid
    flooding, quiet = (Key(platform, "compute:read", rateLimit=60_000) for _ in range(2))
    path = f"/api/v1/tenants/{WEB_SHOP}/resources/instance?limit=20"
    probe = partial(ask, port, path, {"X-API-Key": quiet.secret}, OTHER)
    alone = percentiles(probe, 2.0)
    yield Line(f"another principal, quiet: p99 ({name})", alone[1], 100, f"p50 {alone[0]:.1f} ms", "ms")
    credential = {"X-API-Key": flooding.secret}
    session = {"Authorization": f"Bearer {platform.token(OWNER)}"}
    floods = {
        "reads of an address": (request("GET", path, credential), (FLOODER,)),
        "reads": (request("GET", path, credential), FLOODERS),
        "changes": (request("PATCH", f"/api/v1/tenants/{WEB_SHOP}", session | JSON, CHANGE), FLOODERS),
        "previews": (request("POST", f"/api/v1/tenants/{WEB_SHOP}/iam/simulate", session | JSON, PREVIEW), FLOODERS),
    }
    for kind, (content, sources) in floods.items():
        with flooded(port, content, sources) as counts:
            time.sleep(2)
            probes: dict[str, Callable[[], None]] = {
                "another principal": probe,
                "/healthz": partial(ask, port, "/healthz", {}, OTHER),
                "/healthz of the flooding address": partial(ask, port, "/healthz", {}, sources[0]),
                "/readyz": partial(ask, port, "/readyz", {}, OTHER),
                "/healthz on the unix socket": lambda: succeed(UnixConnection(platform.socket), "/healthz", {}),
            }
            taken = at_once([partial(percentiles, probe, SECONDS - 4) for probe in probes.values()])
            figures = dict(zip(probes, taken, strict=True))
            used = resident(pid)
        if not counts["200"]:
            raise RuntimeError(f"none of the {kind} is answered: {dict(counts)}")
        for what, (p50, p99, failed) in figures.items():
            against = f"p50 {p50:.1f} ms, {failed} failed; flood {dict(counts)}"
            most = 500 if what == "another principal" else 100
            yield Line(f"{what}, {CONNECTIONS} busy with {kind}: p99 ({name})", p99, most, against, "ms")
        yield Line(f"memory, {CONNECTIONS} busy with {kind} ({name})", used, 400, "a fixed limit", "MiB")
    peak, seconds = held_bodies(port, pid)
    what = f"memory, {BODIES} held bodies of {BODY_BYTES:,} ({name})"
    yield Line(what, peak, 400, f"gone after {seconds:.0f} s", "MiB")
    what = f"memory, {TRAILER_BYTES >> 20} MiB of trailers ({name})"
    yield Line(what, trailers(port, pid), 400, "a fixed limit", "MiB")


# Probes


def ask(port: int, path: str, headers: dict[str, str], source: str) -> None:
    """Send a request, which succeeds, on a new connection from an address."""
    succeed(http.client.HTTPConnection("127.0.0.1", port, timeout=60, source_address=(source, 0)), path, headers)


def succeed(connection: http.client.HTTPConnection, path: str, headers: dict[str, str]) -> None:
    answer = exchange(connection, "GET", path, headers, None)
    if answer.status != 200:
        raise RuntimeError(f"{path} answers {answer.status}")


def percentiles(probe: Callable[[], None], seconds: float) -> tuple[float, float, int]:
    """p50 and p99 in milliseconds of a probe 20 times a second, and how many failed."""
    times, failed, end = [0.0], 0, time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        try:
            probe()
            times.append((time.monotonic() - began) * 1000)
        except (OSError, RuntimeError, http.client.HTTPException):
            failed += 1
        time.sleep(max(0.0, began + 0.05 - time.monotonic()))
    return statistics.median(times), statistics.quantiles(times, n=100, method="inclusive")[98], failed


@contextmanager
def flooded(port: int, content: bytes, sources: Sequence[str]) -> Iterator[Counter[str]]:
    """A flood of requests while the context is open; afterwards, how they were answered."""
    counts: Counter[str] = Counter()
    arguments = [str(port), content.hex(), str(SECONDS), str(CONNECTIONS), *sources]
    command = [sys.executable, "-m", "tests.benchmarks.flood", *arguments]
    root = Path(__file__).parent.parent.parent
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root)
    assert process.stdout
    process.stdout.readline()
    try:
        yield counts
    finally:
        output, _ = process.communicate(timeout=SECONDS + 60)
        counts.update(json.loads(output))


async def flood(port: int, content: bytes, seconds: float, connections: int, sources: Sequence[str]) -> Counter[str]:
    """Send requests on many connections, the next one after each response; return the counts of the responses."""
    print("started", flush=True)
    counts: Counter[str] = Counter()
    end = time.monotonic() + seconds

    async def one(source: str) -> None:
        while time.monotonic() < end:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
            except OSError:
                counts["not connected"] += 1
                await asyncio.sleep(PAUSE)
                continue
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                while time.monotonic() < end:
                    writer.write(content)
                    status, closes = await answer_of(reader)
                    counts[status] += 1
                    if closes:
                        break
            writer.close()
            await asyncio.sleep(PAUSE)

    tasks = [asyncio.create_task(one(source)) for _, source in zip(range(connections), cycle(sources), strict=False)]
    await asyncio.wait(tasks, timeout=seconds + 5)
    for task in tasks:
        task.cancel()
    return counts


def held_bodies(port: int, pid: int) -> tuple[float, float]:
    """Peak memory in MiB with bodies that lack their last bytes, and the seconds until no connection is left."""
    head = b"POST /api/v1/auth/workload-token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    content = head + b"Content-Length: %d\r\n\r\n" % (BODY_BYTES + 10) + b" " * BODY_BYTES
    peak = 0.0

    async def hold() -> float:
        nonlocal peak
        began = time.monotonic()

        async def one() -> None:
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(content)
                with suppress(OSError):
                    await writer.drain()
                await reader.read()
                writer.close()

        tasks = [asyncio.create_task(one()) for _ in range(BODIES)]
        while not all(task.done() for task in tasks) and time.monotonic() < began + 45:
            await asyncio.sleep(0.2)
            peak = max(peak, resident(pid))
        seconds = time.monotonic() - began
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return seconds

    seconds = asyncio.run(hold())
    return peak, seconds


def trailers(port: int, pid: int) -> float:
    """Peak memory in MiB while one connection sends trailers as long as it may."""
    peak = resident(pid)
    line = b"X-Trailer: " + b"a" * 8_000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection, suppress(OSError):
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
        for number in range(TRAILER_BYTES // len(line)):
            connection.sendall(line)
            if number % 500 == 0:
                peak = max(peak, resident(pid))
    return max(peak, resident(pid))


if __name__ == "__main__":
    port, content, seconds, connections, *sources = sys.argv[1:]
    counts = flood(int(port), bytes.fromhex(content), float(seconds), int(connections), sources)
    print(json.dumps(asyncio.run(counts)))
