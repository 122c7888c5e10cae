"""Figures of a program on a pty: start, key to visible change, idle."""

import time

from tests.terminal import Program


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
