"""The cost of 200 open screens of as many people for them, for one platform, and for other requests."""

import select
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from tests.benchmarks.commands import frost_command, started
from tests.benchmarks.processors import cpu_seconds, memory, resident
from tests.benchmarks.ratios import Line, milliseconds
from tests.homes import Home
from tests.people import WEB_SHOP
from tests.terminal import Program, key_bytes

SCREENS = 200
AT_ONCE = 4  # started together: more would only wait for the cores
SCREEN_MIB = 110
IDLE_SECONDS = 5.0
RENAMES = 5
ASKED = 2000  # some seconds of them: a burst of the screens' own reading is then a part and not the whole


def run() -> Iterator[Line]:
    available = memory("/proc/meminfo", "MemAvailable")
    if available < SCREENS * SCREEN_MIB:
        print(f"skipped: {SCREENS} screens take {SCREENS * SCREEN_MIB:,} MiB, this machine has {available:,.0f}")
        return
    programs: list[Program] = []
    with started() as home, ExitStack() as stack:
        stack.callback(close, programs)
        platform = int((home.platform_dir / "platform.lock").read_text())
        env = home.environment({"COLORTERM": "truecolor"})
        programs.append(opened(env))
        alone, alone_ms = statistics.median(renamed(home, programs, turn) for turn in range(RENAMES)), asked(home)
        used = resident(platform)
        while len(programs) < SCREENS:
            some = [start(env) for _ in range(min(AT_ONCE, SCREENS - len(programs)))]
            for program in some:
                program.wait_for("Data Lake", 60)
            programs += some
            drain(programs, 0)
        drain(programs, 3)
        pids = [program.pid for program in programs]
        own, theirs = used_cpu([platform]), used_cpu(pids)
        drain(programs, IDLE_SECONDS)
        own, theirs = (
            (now - then) / IDLE_SECONDS * 100 for now, then in ((used_cpu([platform]), own), (used_cpu(pids), theirs))
        )
        yield Line(f"the platform, {SCREENS} screens idle", own, 20, "one core", "%")
        yield Line(f"all {SCREENS} screens together, idle", theirs, 50, "one core", "%")
        ratio = asked(home) / alone_ms
        yield Line(f"a request of another client, {SCREENS} screens idle", ratio, 1.5, "with one screen open")
        everywhere = statistics.median(renamed(home, programs, turn) for turn in range(RENAMES))
        told = f"one screen alone ({alone * 1000:.0f} ms), {SCREENS} times"
        yield Line(f"a change on the last of {SCREENS} screens", everywhere / alone / SCREENS, 1, told)
        more = (resident(platform) - used) / SCREENS
        yield Line("the platform's memory for each screen", more, 1, "a fixed limit", "MiB")


def close(programs: Sequence[Program]) -> None:
    for program in programs:
        program.write(key_bytes("ctrl+q"))
    for program in programs:
        program.close()


def used_cpu(pids: Sequence[int]) -> float:
    return sum(map(cpu_seconds, pids))


def start(env: dict[str, str]) -> Program:
    return Program([frost_command()], env=env, inherit=False)


def opened(env: dict[str, str]) -> Program:
    program = start(env)
    program.wait_for("Data Lake", 60)
    program.until_quiet(1.5, 10)
    return program


def drain(programs: Sequence[Program], seconds: float, until: bytes = b"") -> int:
    """Read the output of the screens, for some seconds or until each has written a text; return how many have."""
    by_fd = {program.fd: program for program in programs}
    waiting, deadline = set(by_fd) if until else set(), time.perf_counter() + seconds
    while True:
        left = deadline - time.perf_counter()
        if until and not waiting:
            break
        ready, _, _ = select.select(list(by_fd), [], [], max(0, min(left, 0.2)))
        for fd in ready:
            by_fd[fd].pump(0)
            written = by_fd[fd].chunks
            if until and until in b"".join(data for _, data in written[-2:]):
                waiting.discard(fd)
            # Earlier output is not needed, and large.
            del written[:-1]
        if left <= 0 and not ready:
            break
    return len(programs) - len(waiting)


def renamed(home: Home, programs: Sequence[Program], turn: int) -> float:
    """Seconds from asking for another name of a tenant to the last screen that shows it."""
    name = f"Shop{len(programs)}x{turn}"
    began = time.perf_counter()
    answer = home.request("PATCH", f"/api/v1/tenants/{WEB_SHOP}", token=home.token(), body={"displayName": name})
    assert answer.status == 200, answer
    shown = drain(programs, 60, name.encode())
    assert shown == len(programs), f"{shown} of {len(programs)} screens showed {name}"
    return time.perf_counter() - began


def asked(home: Home) -> float:
    """Milliseconds of a plain request, the median of many."""
    token = home.token()

    def ask() -> None:
        assert home.request("GET", "/api/v1/me", token=token).status == 200

    return statistics.median(milliseconds(ask) for _ in range(ASKED))
