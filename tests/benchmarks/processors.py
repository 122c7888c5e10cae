"""Cores for processes, and the processor time and context switches of processes, from /proc (Linux)."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CORES = tuple(sorted(os.sched_getaffinity(0)))
SERVER, LOAD = frozenset(CORES[:1]), frozenset(CORES[1:2] or CORES[:1])
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@contextmanager
def on_cores(cores: Iterable[int]) -> Iterator[None]:
    """Pin the processes that this thread starts in the context."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def pin(pid: int, cores: Iterable[int]) -> None:
    """Move all threads of a running process."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), cores)


def cpu_seconds(pid: int) -> float:
    fields = _stat(Path(f"/proc/{pid}/stat"))
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def cpu_seconds_with_children(pid: int) -> float:
    """Return the processor time of a process and its children, ended ones included."""
    ticks = sum(int(field) for field in _stat(Path(f"/proc/{pid}/stat"))[11:15])
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = _stat(path)
            if int(fields[1]) == pid:
                ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_PER_SECOND


def memory(path: str, name: str) -> float:
    """Return a figure of a file of /proc in MiB."""
    line = next(line for line in Path(path).read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def resident(pid: int) -> float:
    """Return the memory of a process in MiB."""
    return memory(f"/proc/{pid}/status", "VmRSS")


def context_switches(pid: int) -> tuple[int, int]:
    """Return the voluntary and the involuntary context switches of all threads of a process."""
    voluntary = involuntary = 0
    for path in Path(f"/proc/{pid}/task").glob("*/status"):
        with suppress(OSError):
            lines = dict(line.split(":\t") for line in path.read_text().splitlines() if "ctxt_switches" in line)
            voluntary += int(lines["voluntary_ctxt_switches"])
            involuntary += int(lines["nonvoluntary_ctxt_switches"])
    return voluntary, involuntary


def _stat(path: Path) -> list[str]:
    """Return the fields of a `stat` file from the state on."""
    return path.read_text().rpartition(")")[2].split()
