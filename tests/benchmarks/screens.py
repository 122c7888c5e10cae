"""The delays of the screens, measured from outside through a pty."""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.benchmarks.commands import frost_command, started
from tests.benchmarks.ratios import Line, paired
from tests.benchmarks.settings import settings
from tests.terminal import Program, key_bytes

MINIMAL = """
from textual.app import App
from textual.widgets import Static

class Minimal(App):
    count = 0
    def compose(self):
        yield Static("minimal", id="it")
    def on_key(self, event):
        self.count += 1
        self.query_one("#it").update(f"minimal {self.count}")

Minimal().run()
"""

TABLE = """
import sys
from textual.app import App
from client.tables.columns import TENANT, columns
from tui.widgets.record_table import RecordTable

ROWS = [
    {"id": str(n), "displayName": f"row {n}", "slug": f"row-{n}", "status": "active", "organizationName": "Aurora"}
    for n in range(int(sys.argv[1]))
]

class Table(App):
    def on_key(self, event):
        if event.key == "o":
            table = RecordTable(TENANT, columns(TENANT))
            self.mount(table)
            self.call_after_refresh(lambda: (table.show(ROWS), table.focus()))
    def on_mount(self):
        self.sub_title = "READY"
    def compose(self):
        from textual.widgets import Static
        yield Static("READY")

Table().run()
"""


def run() -> Iterator[Line]:
    with started() as home, tempfile.TemporaryDirectory(prefix="frost-") as folder:
        env = home.environment({"COLORTERM": "truecolor"})
        minimal, table = Path(folder) / "minimal.py", Path(folder) / "table.py"
        minimal.write_text(MINIMAL)
        table.write_text(TABLE)
        plain, ours = [sys.executable, str(minimal)], [frost_command()]

        def bare() -> float:
            return frame(plain, "minimal", env)

        _, base, first = paired(lambda: frame(ours, "Tenants", env), bare, runs=settings.load(11, 1))
        yield Line("screens: first frame", first, 1.25, f"minimal Textual app ({base:.0f} ms)")
        _, base, rows = paired(lambda: frame(ours, "Data Lake", env), bare, runs=settings.load(11, 1))
        yield Line("screens: first live rows (one round trip included)", rows, 1.5, "minimal Textual app")

        keys, base_keys = (
            statistics.median(key_times(command, text, ("down", "up"), env))
            for command, text in ((ours, "Data Lake"), (plain, "minimal"))
        )
        yield Line("key to visible change", keys / base_keys, 1.4, "an app that updates one Static")

        large, small = (partial(table_opened, [sys.executable, str(table), count], env) for count in ("100000", "1000"))
        many, few, ratio = paired(large, small, runs=settings.load(7, 1))
        yield Line(f"100,000 rows opened ({many:.0f} ms)", ratio, 1.5, f"1,000 rows ({few:.0f} ms)")

        with opened(ours, env) as program:
            program.wait_for("Data Lake")
            program.until_quiet(1.5, 10)
            idle = measure_idle(program, 5)
        yield Line("idle output", idle, 0, "nothing", "B/s")
        yield Line("tenant switch to its rows", switch(ours, env), 100, "a fixed limit", "ms")


@contextmanager
def opened(command: list[str], env: dict[str, str]) -> Iterator[Program]:
    program = Program(command, env=env, inherit=False)
    try:
        yield program
    finally:
        program.quit()


def frame(command: list[str], wanted: str, env: dict[str, str]) -> float:
    """Milliseconds to the first frame that shows a text."""
    with opened(command, env) as program:
        return measure_startup(program, wanted, 30, 0.35)


def key_times(command: list[str], wanted: str, keys: tuple[str, str], env: dict[str, str]) -> list[float]:
    """Milliseconds from a key to the first visible change, for two keys in turn, so that no key is without effect."""
    with opened(command, env) as program:
        measure_startup(program, wanted, 30, 0.35)
        results = [measure_key(program, key_bytes(keys[number % 2]), 0.06) for number in range(24)][4:]
        times = [result for result in results if result is not None]
        assert len(times) >= 10, f"only {len(times)} keys did anything; the screen was:\n{program.text}"
        return times


def table_opened(command: list[str], env: dict[str, str]) -> float:
    """Milliseconds from the key that opens a table to its rows on the screen."""
    with opened(command, {**env, "PYTHONPATH": str(Path.cwd())}) as program:
        program.wait_for("READY")
        program.until_quiet(0.4, 5)
        start = program.write(b"o")
        mark = len(program.chunks)
        program.wait_for("row 5")
        for moment, data in program.chunks[mark:]:
            if b"row 5" in data:
                return (moment - start) * 1000
        return (time.perf_counter() - start) * 1000


def switch(command: list[str], env: dict[str, str]) -> float:
    """Milliseconds from Enter in the switcher to the new tenant in the header; the median of several."""
    with opened(command, env) as program:
        program.wait_for("Data Lake")
        program.until_quiet(0.5, 5)
        times = []
        for name in ("newsroom", "data lake", "newsroom", "data lake", "newsroom"):
            program.press("ctrl+t")
            for letter in name:
                program.write(letter.encode())
            program.until_quiet(0.2, 3)
            program.replay()
            mark = len(program.chunks)
            start = program.write(b"\r")
            program.until_quiet(0.25, 3)
            times.append((_header_names(program, name, mark) - start) * 1000)
        return statistics.median(times)


def _header_names(program: Program, name: str, mark: int) -> float:
    """When the header first showed a tenant, after the chunk `mark`."""
    try:
        for moment, data in program.chunks[mark:]:
            program.emulator.feed(data)
            if name in program.emulator.text.splitlines()[0].casefold():
                return moment
    finally:
        program._replayed = len(program.chunks)
    raise AssertionError(f"the header never named {name}:\n{program.text}")


# A program on a pty


def measure_startup(program: Program, wait_text: str, timeout: float, settle: float) -> float:
    """Return the milliseconds from exec to the first frame that shows ``wait_text``."""
    deadline = program.started + timeout
    while True:
        # in slices: a blinking cursor or a spinner never lets go quiet
        program.until_quiet(settle, min(2.0, max(deadline - time.perf_counter(), 0)))
        for number, (moment, data) in enumerate(program.chunks[program._replayed :], program._replayed + 1):
            program.emulator.feed(data)
            program._replayed = number
            if wait_text in program.emulator.text:
                program.replay()
                return (moment - program.started) * 1000
        if not program.alive or time.perf_counter() >= deadline:
            raise RuntimeError(f"{wait_text!r} never appeared; the screen was:\n{program.emulator.text}")


def measure_key(program: Program, key: bytes, quiet: float, timeout: float = 2.0) -> float | None:
    """Return the milliseconds from a key to a visible change, or None if there is no change."""
    program.until_quiet(quiet, timeout)
    program.replay()
    before = program.emulator.cells()
    pressed = program.write(key)
    # wait for the first output, then for the end of the burst
    while not program.pump(pressed + timeout - time.perf_counter()):
        if not program.alive or time.perf_counter() >= pressed + timeout:
            return None
    program.until_quiet(quiet, timeout)
    visible = None
    for moment, data in program.chunks[program._replayed :]:
        program.emulator.feed(data)
        if visible is None and program.emulator.cells() != before:
            visible = moment
    program._replayed = len(program.chunks)
    return None if visible is None else (visible - pressed) * 1000


def measure_idle(program: Program, seconds: float) -> float:
    """Return the bytes a second that a program writes while nothing happens."""
    mark, start = len(program.chunks), time.perf_counter()
    while program.alive and (left := start + seconds - time.perf_counter()) > 0:
        program.pump(left)
    return sum(len(data) for _, data in program.chunks[mark:]) / (time.perf_counter() - start)
