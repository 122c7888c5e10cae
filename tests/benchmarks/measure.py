"""Figures of a program on a pty: start, key to visible change, idle. Milliseconds and bytes."""

import time

from tests.terminal import Program


def measure_startup(program: Program, wait_text: str, timeout: float, settle: float) -> dict[str, float]:
    """Times from exec; ``frame`` is the first frame that shows ``wait_text``."""
    first_glyph = frame = None
    deadline = program.started + timeout
    while True:
        # in slices: a blinking cursor or a spinner never lets go quiet
        program.until_quiet(settle, min(2.0, max(deadline - time.perf_counter(), 0)))
        for moment, data in program.chunks[program._replayed :]:
            program.emulator.feed(data)
            text = program.emulator.text
            if first_glyph is None and text.strip():
                first_glyph = moment
            if frame is None and wait_text in text:
                frame = moment
        program._replayed = len(program.chunks)
        if frame or not program.alive or time.perf_counter() >= deadline:
            break
    if frame is None:
        raise RuntimeError(f"{wait_text!r} never appeared; the screen was:\n{program.emulator.text}")
    start = program.started
    return {
        "first_byte_ms": (program.chunks[0][0] - start) * 1000,
        "first_glyph_ms": ((first_glyph or frame) - start) * 1000,
        "frame_ms": (frame - start) * 1000,
        "quiet_ms": (program.chunks[-1][0] - start) * 1000,
        "startup_bytes": float(sum(len(data) for _, data in program.chunks)),
    }


def measure_key(program: Program, key: bytes, quiet: float, timeout: float = 2.0) -> tuple[float, float, int] | None:
    """(ms to visible change, ms to end of repaint, bytes), or None if no change."""
    program.until_quiet(quiet, timeout)
    program.replay()
    before = program.emulator.cells()
    mark = len(program.chunks)
    pressed = program.write(key)
    deadline = pressed + timeout
    # wait for the first output, then for the end of the burst
    while not program.pump(deadline - time.perf_counter()):
        if not program.alive or time.perf_counter() >= deadline:
            return None
    program.until_quiet(quiet, timeout)
    visible = None
    for moment, data in program.chunks[mark:]:
        program.emulator.feed(data)
        if visible is None and program.emulator.cells() != before:
            visible = moment
    program._replayed = len(program.chunks)
    if visible is None:
        return None
    settled = (program.chunks[-1][0] - pressed) * 1000
    written = sum(len(data) for _, data in program.chunks[mark:])
    return (visible - pressed) * 1000, settled, written


def measure_idle(program: Program, seconds: float) -> dict[str, float]:
    """What the program costs while nothing happens."""
    mark, cpu = len(program.chunks), program.cpu_ticks()
    start = time.perf_counter()
    while program.alive and (left := start + seconds - time.perf_counter()) > 0:
        program.pump(left)
    elapsed = time.perf_counter() - start
    written = sum(len(data) for _, data in program.chunks[mark:])
    return {
        "idle_cpu_percent": (program.cpu_ticks() - cpu) / elapsed * 100,
        "idle_bytes_per_s": written / elapsed,
    }
