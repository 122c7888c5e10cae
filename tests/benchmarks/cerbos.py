"""Cerbos, a compiled policy decision point (Go), with policies from files; audit, telemetry and request log are off.

The program is the one that `FROST_BENCHMARK_CERBOS` names, `cerbos` in PATH, or the npm package's, which is kept.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.peers import file_of_npm
from tests.benchmarks.servers import Server, free_port, running

PACKAGE, FILE = "@cerbos/cerbos-linux-x64", "cerbos-linux-x64"
VARIABLE = "FROST_BENCHMARK_CERBOS"


def binary() -> Path | None:
    """Return the path of the program; None, with a line that says so, if it cannot be had."""
    if named := os.environ.get(VARIABLE) or shutil.which("cerbos"):
        return Path(named)
    found = file_of_npm(PACKAGE, FILE)
    if found is None:
        print(f"skipped: no Cerbos; install the npm package {PACKAGE}, or name the program in {VARIABLE}")
    return found


@contextmanager
def cerbos(program: Path, policies: Mapping[str, Any]) -> Iterator[Server]:
    """Run Cerbos with policies by file name, on the server's core."""
    with tempfile.TemporaryDirectory(prefix="frost-") as folder:
        directory, port = Path(folder) / "policies", free_port()
        directory.mkdir()
        for name, policy in policies.items():
            (directory / f"{name}.json").write_text(json.dumps(policy))
        configuration = {
            "server": {"httpListenAddr": f"127.0.0.1:{port}", "grpcListenAddr": f"unix:{folder}/grpc.sock"},
            "storage": {"driver": "disk", "disk": {"directory": str(directory), "watchForChanges": False}},
            "audit": {"enabled": False},
            "telemetry": {"disabled": True},
        }
        path = Path(folder) / "cerbos.yaml"
        path.write_text(json.dumps(configuration))
        with running([str(program), "server", f"--config={path}", "--log-level=error"], port) as server:
            yield server
