"""What a command costs from start to end: a plain read on a warm platform."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.ratios import Line, paired, seconds
from tests.homes import Home


def frost_command() -> str:
    """The installed entry point beside this interpreter: what a user runs."""
    return str(Path(sys.executable).with_name("frost"))


def run() -> Iterator[Line]:
    home = Home()
    try:
        home.start()
        env = home.environment()
        read = [frost_command(), "tenant", "list", "-o", "json"]
        _, floor, ratio = paired(
            lambda: seconds(read, env), lambda: seconds([sys.executable, "-c", "pass"], env), runs=25
        )
        yield Line("frost tenant list -o json, platform warm", ratio, 8, f"python -c pass ({floor * 1000:.0f} ms)")
        aws = shutil.which("aws")
        if aws is None:
            print("skipped: no aws command on this machine, so nothing to compare with")
            return
        with moto() as endpoint:
            their_env = {
                "PATH": os.environ["PATH"],
                "HOME": env["HOME"],
                "AWS_ACCESS_KEY_ID": "x",
                "AWS_SECRET_ACCESS_KEY": "x",
                "AWS_DEFAULT_REGION": "us-east-1",
            }
            command = [aws, "iam", "list-groups", "--endpoint-url", endpoint]
            _, theirs, ratio = paired(lambda: seconds(read, env), lambda: seconds(command, their_env), runs=7)
            yield Line("the same", ratio, 0.25, f"aws iam list-groups on moto ({theirs * 1000:.0f} ms)")
    finally:
        home.remove()


@contextmanager
def moto() -> Iterator[str]:
    """moto's server on a free port of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        ["moto_server", "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()
