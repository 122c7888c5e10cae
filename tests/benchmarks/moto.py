"""moto's IAM on this machine, with requests of the protocol of AWS."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.servers import free_port


@contextmanager
def moto(commands: Path) -> Iterator[tuple[str, int]]:
    """Host and port of moto's server; `commands` is the folder its command is in."""
    port = free_port()
    server = subprocess.Popen(
        [str(commands / "moto_server"), "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield "127.0.0.1", port
    finally:
        server.terminate()
        server.wait()
