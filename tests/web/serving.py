"""`frost web` as a person runs it, and the processes of its tabs."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.homes import Home


class Serving:
    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self.address = address
        """The one with the token."""
        self.origin = address.partition("/enter/")[0]
        self.host = self.origin.removeprefix("http://")

    def tabs(self) -> list[int]:
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(pid) for pid in listed]

    def until_tabs(self, wanted: int, seconds: float = 60) -> list[int]:
        """Wait until there are so many."""
        until = time.monotonic() + seconds
        while len(found := self.tabs()) != wanted:
            assert time.monotonic() < until, f"{len(found)} tabs, not {wanted}"
            time.sleep(0.05)
        return found

    def stop(self, number: int = signal.SIGINT) -> int:
        """End it by a signal; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(60)


def gone(pids: list[int], seconds: float = 30) -> bool:
    """Whether all these processes end within so long."""
    until = time.monotonic() + seconds
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


@contextlib.contextmanager
def serving(home: Home, *words: str, opens: bool = False, **env: str) -> Iterator[Serving]:
    """`frost web`, without a browser unless it `opens` one, ended by force if a test leaves it running."""
    # The screens would begin where the last ones ended.
    (home.path / ".cli" / "state.json").unlink(missing_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "tui", "web", *([] if opens else ["--no-open"]), *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=home.environment(env), start_new_session=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address, process.communicate()[1]
        yield Serving(process, address)
    finally:
        if process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.terminate()
                process.wait(60)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
