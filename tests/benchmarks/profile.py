"""Where the processor time of a read, a write and a decision goes, sampled by py-spy in the running platform.

Samples are of the thread that holds the interpreter lock, because py-spy may take waiting threads for running ones. So
statements of SQLite, which run without the lock, and waits for PostgreSQL are not included. A sample belongs to the
innermost of its frames that is of a group; time inside a C function is that of its caller.
"""

import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.benchmarks.peers import commands_of
from tests.benchmarks.ratios import Line
from tests.benchmarks.request_path.decisions import decision_load
from tests.benchmarks.request_path.resource_loads import reads, renames
from tests.benchmarks.samples import warm_up
from tests.benchmarks.servers import Platform, platforms
from tests.benchmarks.settings import settings
from tests.benchmarks.wrk import Load

SAMPLES_PER_SECOND = 200
# The first that matches `function (file` counts.
GROUPS = {
    "database driver": r"/psycopg|^do_(execute|executemany|commit|rollback|begin|ping) |^_begin \(.*/service/db/",
    "SQLAlchemy": r"/sqlalchemy/",
    "log": r"/logging/|/service/(logs|request_metrics)\.py",
    "audit entries": r"/service/audit/",
    "authentication, rate limit": r"/service/authn/|/service/api/authentication\.py",
    "authorization": r"/service/(authz|principals)/|/service/api/(authorization|enforcement|protected_route)\.py",
    "policy engine": r"/client/policy/",
    "transactions": r"/service/db/|/service/api/changes\.py",
    "JSON": r"/json/|/service/json_response\.py|orjson",
    "middleware": r"/service/api/|/service/http_server/admission\.py",
    "endpoint": r"/service/(?!http_server|server|__main__|app)",
    "FastAPI, pydantic": r"/fastapi/|/pydantic",
    "Starlette": r"/starlette/",
    "threads": r"/anyio/|/concurrent/futures/|/threading\.py|/queue\.py",
    "uvicorn, HTTP": r"/uvicorn/|/service/http_server/",
    "event loop": r"/asyncio/|/uvloop/",
}
PATTERNS = {group: re.compile(pattern) for group, pattern in GROUPS.items()}


def run() -> Iterator[Line]:
    """Print the tables. There is no goal, hence no line."""
    commands = commands_of("py-spy")
    if commands is None:
        return
    for name, platform in platforms():
        loads = {
            "a read": reads(platform),
            "a write": renames(platform),
            "a decision": decision_load(platform, 1),
            "50 decisions": decision_load(platform, 50),
        }
        print_table(name, {what: sampled(load, platform, commands / "py-spy") for what, load in loads.items()})
    yield from ()


def sampled(load: Load, platform: Platform, program: Path) -> Counter[str]:
    """Return the numbers of samples of a platform under load, by group."""
    server = platform.server
    warm_up(load, server)
    seconds = max(1, round(settings.seconds))
    with tempfile.TemporaryDirectory(prefix="frost-") as folder, ThreadPoolExecutor(1) as thread:
        path = Path(folder) / "stacks"
        sending = thread.submit(load.send, server.port, seconds=seconds + 2)
        command = [str(program), "record", "--pid", str(server.pid), "--duration", str(seconds), "-o", str(path)]
        command += ["--rate", str(SAMPLES_PER_SECOND), "--format", "raw", "--full-filenames", "--gil"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        sending.result()
        lines = path.read_text().splitlines()
    counts: Counter[str] = Counter()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        counts[group_of(stack)] += int(count)
    return counts


def group_of(stack: str) -> str:
    for frame in reversed(stack.split(";")):
        for group, pattern in PATTERNS.items():
            if pattern.search(frame):
                return group
    return "other"


def print_table(name: str, columns: dict[str, Counter[str]]) -> None:
    print(f"\n| {name}: processor time in % | {' | '.join(columns)} |")
    print(f"| --- |{' ---: |' * len(columns)}")
    totals = {what: counts.total() for what, counts in columns.items()}
    for group in sorted({*GROUPS, "other"}, key=lambda group: -sum(c[group] / totals[w] for w, c in columns.items())):
        shares = [counts[group] / totals[what] * 100 for what, counts in columns.items()]
        print(f"| {group} | {' | '.join(f'{share:.0f}' for share in shares)} |")
