"""The unit level refuses processes and databases."""

import asyncio
import os
import pty
import sqlite3
import subprocess
import sys
from collections.abc import Callable

import pytest


@pytest.mark.parametrize(
    "start",
    [
        lambda: subprocess.run([sys.executable, "-V"]),
        lambda: asyncio.run(asyncio.create_subprocess_exec(sys.executable, "-V")),
        lambda: os.posix_spawn(sys.executable, [sys.executable, "-V"], {}),
        os.fork,
        pty.fork,
        lambda: os.system("true"),
        lambda: sqlite3.connect(":memory:"),
    ],
)
def test_a_unit_test_starts_no_process_and_opens_no_database(start: Callable[[], object]) -> None:
    with pytest.raises(RuntimeError, match=r"test_unit_level.*mark it with pytest\.mark\.process"):
        start()


@pytest.mark.process
def test_another_test_may() -> None:
    assert subprocess.run([sys.executable, "-c", ""], check=True).returncode == 0
    sqlite3.connect(":memory:").close()
