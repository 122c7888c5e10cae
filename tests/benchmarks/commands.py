"""The cost of a command from start to end: a read on a running platform."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.peers import commands_of, moto
from tests.benchmarks.ratios import Line, paired, seconds
from tests.homes import Home


def frost_command() -> str:
    """The installed entry point beside this interpreter, as a user runs it."""
    return str(Path(sys.executable).with_name("frost"))


@contextmanager
def started(**variables: str) -> Iterator[Home]:
    home = Home(forked=False, **variables)
    try:
        home.start()
        yield home
    finally:
        home.remove()


def run() -> Iterator[Line]:
    with started() as home:
        env = home.environment()
        read = [frost_command(), "tenant", "list", "-o", "json"]
        bare = [sys.executable, "-c", "pass"]
        _, floor, ratio = paired(lambda: seconds(read, env), lambda: seconds(bare, env), runs=25)
        yield Line("frost tenant list -o json, platform warm", ratio, 5.5, f"python -c pass ({floor * 1000:.0f} ms)")
        commands = commands_of("moto[server]", "awscli")
        if commands is None:
            return
        with moto(commands) as port:
            their_env = {"PATH": os.environ["PATH"], "HOME": env["HOME"], "AWS_DEFAULT_REGION": "us-east-1"}
            their_env |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
            command = [str(commands / "aws"), "iam", "list-groups", "--endpoint-url", f"http://127.0.0.1:{port}"]
            _, theirs, ratio = paired(lambda: seconds(read, env), lambda: seconds(command, their_env), runs=7)
            yield Line("the same", ratio, 0.15, f"aws iam list-groups on moto ({theirs * 1000:.0f} ms)")
