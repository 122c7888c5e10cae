"""The start of the platform to its first response, beside a FastAPI application with as many empty routes."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.api import UnixConnection
from tests.benchmarks.commands import started
from tests.benchmarks.ratios import Line, paired

EMPTY = """
import sys
from fastapi import FastAPI
import uvicorn

app = FastAPI(openapi_url=None)
for number in range(int(sys.argv[2])):
    app.add_api_route(f"/route/{number}/{{item}}", lambda item: {"item": item})
app.add_api_route("/healthz", lambda: {"status": "ok"})
uvicorn.run(app, uds=sys.argv[1], log_level="error", loop="uvloop", http="httptools")
"""


def run() -> Iterator[Line]:
    with started() as home, tempfile.TemporaryDirectory(prefix="frost-") as folder:
        paths = home.request("GET", "/api/openapi.json").json()["paths"]
        routes = sum(len(operations) for operations in paths.values())
        assert home.frost("platform", "stop").code == 0
        env = home.environment()
        program, sock = Path(folder) / "empty.py", Path(folder) / "s"
        program.write_text(EMPTY)
        ours = [sys.executable, "-m", "service", "--data-dir", str(home.platform_dir), "--socket", str(home.socket)]
        empty = [sys.executable, str(program), str(sock), str(routes)]
        _, theirs, ratio = paired(
            lambda: first_answer(ours, home.socket, env), lambda: first_answer(empty, sock, env), runs=9
        )
        yield Line("platform from start to first answer", ratio, 1.3, f"{routes} empty routes ({theirs * 1000:.0f} ms)")


def first_answer(command: Sequence[str], path: Path, env: dict[str, str]) -> float:
    """Seconds until /healthz answers 200."""
    path.unlink(missing_ok=True)
    start = time.perf_counter()
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                connection = UnixConnection(path)
                connection.request("GET", "/healthz")
                if connection.getresponse().status == 200:
                    return time.perf_counter() - start
            except OSError:
                assert process.poll() is None, f"{command} ended with {process.returncode}"
                assert time.perf_counter() - start < 60
                time.sleep(0.002)
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.wait()
