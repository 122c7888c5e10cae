"""A real terminal: a program on its own pty, its output timestamped and emulated.

Output is only read and timestamped while the program runs. The emulation (pyte) replays it afterwards, so that no
measurement includes its cost. The terminal answers the queries that a modern one answers.
"""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyte

from tests.homes import Home

# Other keys are sent as they are; ctrl+x is the control character, and alt+x gets an ESC.
KEYS = {
    "up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D",
    "home": "\x1b[H", "end": "\x1b[F", "pageup": "\x1b[5~", "pagedown": "\x1b[6~",
    "enter": "\r", "tab": "\t", "shift+tab": "\x1b[Z", "escape": "\x1b",
    "space": " ", "backspace": "\x7f", "delete": "\x1b[3~",
    "f1": "\x1bOP", "f2": "\x1bOQ", "f3": "\x1bOR", "f4": "\x1bOS", "f5": "\x1b[15~",
    "f6": "\x1b[17~", "f7": "\x1b[18~", "f8": "\x1b[19~", "f9": "\x1b[20~",
    "f10": "\x1b[21~", "f11": "\x1b[23~", "f12": "\x1b[24~",
    "ctrl+home": "\x1b[1;5H", "ctrl+end": "\x1b[1;5F",
}  # fmt: skip


def key_bytes(name: str) -> bytes:
    lowered = name.lower()
    if lowered in KEYS:
        return KEYS[lowered].encode()
    if lowered.startswith("ctrl+") and len(lowered) == 6:
        return bytes([ord(lowered[5]) & 0x1F])
    if lowered.startswith("alt+") and len(name) == 5:
        return b"\x1b" + name[4].encode()
    return name.encode()


# Sequences pyte 0.8 would misread: private CSI with < = > or an intermediate
# byte, and the OSC / DCS / APC / PM / SOS string sequences.
_STRIP = re.compile(
    rb"\x1b\[[<=>][0-9;:]*[@-~]"
    rb"|\x1b\[\??[0-9;:]*[ !\"#$%&'()*+,\-./]+[@-~]"
    rb"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"
    rb"|\x1b[PX^_][^\x1b]*\x1b\\",
    re.DOTALL,
)
# Around each frame of a program that knows synchronised output; a terminal shows nothing in between.
_FRAME_START, _FRAME_END = b"\x1b[?2026h", b"\x1b[?2026l"
# An escape sequence still open at the end of a chunk, kept for the next one.
_OPEN = re.compile(rb"\x1b(?:\[[0-9;:<=>?]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?)?\Z", re.DOTALL)


class Emulator:
    """A pyte screen fed with raw pty output, tolerant of modern sequences."""

    def __init__(self, columns: int, rows: int) -> None:
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self._pending = b""

    def feed(self, data: bytes) -> None:
        """Draw output; keep an open sequence and an unfinished frame (synchronised output) for the next call."""
        data = self._pending + data
        start = data.rfind(_FRAME_START)
        if start >= 0 and _FRAME_END not in data[start:]:
            end = start
        else:
            match = _OPEN.search(data)
            end = match.start() if match else len(data)
        self._pending = data[end:]
        self.stream.feed(_STRIP.sub(b"", data[:end]))

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def cells(self) -> dict[int, tuple[object, ...]]:
        """Return every cell with its attributes, by line."""
        buffer, width = self.screen.buffer, range(self.screen.columns)
        return {y: tuple(buffer[y][x] for x in width) for y in range(self.screen.lines)}


# Query sent by the program -> answer of the terminal. Order does not matter.
_QUERIES: list[tuple[re.Pattern[bytes], bytes]] = [
    (re.compile(rb"\x1b\[0?c"), b"\x1b[?62;22c"),  # primary device attributes
    (re.compile(rb"\x1b\[\?2026\$p"), b"\x1b[?2026;2$y"),  # synchronised output
    (re.compile(rb"\x1b\[\?2048\$p"), b"\x1b[?2048;0$y"),  # in-band resize: no
    (re.compile(rb"\x1b\[\?u"), b"\x1b[?0u"),  # kitty keyboard protocol
    (re.compile(rb"\x1b\[6n"), b"\x1b[1;1R"),  # cursor position
    (re.compile(rb"\x1b\]10;\?(?:\x07|\x1b\\)"), b"\x1b]10;rgb:d0d0/d0d0/d0d0\x1b\\"),
    (re.compile(rb"\x1b\]11;\?(?:\x07|\x1b\\)"), b"\x1b]11;rgb:1010/1010/1010\x1b\\"),
]


@dataclass
class Program:
    """A command running on its own pty, with every output chunk timestamped."""

    argv: list[str]
    columns: int = 120
    rows: int = 40
    env: dict[str, str] = field(default_factory=dict)
    inherit: bool = True

    def __post_init__(self) -> None:
        self.chunks: list[tuple[float, bytes]] = []
        self.emulator = Emulator(self.columns, self.rows)
        self._replayed = 0
        self._tail = b""
        self.alive = True
        environment = dict(os.environ) if self.inherit else {}
        environment |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        environment |= {"COLUMNS": str(self.columns), "LINES": str(self.rows), **self.env}
        self.started = time.perf_counter()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:  # the child
            try:
                os.execvpe(self.argv[0], self.argv, environment)
            except OSError as error:
                os.write(2, f"exec failed: {error}\n".encode())
                os._exit(127)
        self._set_size()

    def _set_size(self) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", self.rows, self.columns, 0, 0))

    def write(self, data: bytes) -> float:
        """Write to the program's input; returns the moment just before."""
        now = time.perf_counter()
        os.write(self.fd, data)
        return now

    def pump(self, timeout: float) -> bool:
        """Read one chunk if there is one within ``timeout``; False otherwise."""
        ready, _, _ = select.select([self.fd], [], [], max(timeout, 0))
        if not ready:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # EIO: the program closed its side
            data = b""
        now = time.perf_counter()
        if not data:
            self.alive = False
            return False
        self.chunks.append((now, data))
        self._answer(data)
        return True

    def _answer(self, data: bytes) -> None:
        window = self._tail + data
        for pattern, reply in _QUERIES:
            for match in pattern.finditer(window):
                if match.end() > len(self._tail):
                    os.write(self.fd, reply)
        self._tail = window[-32:]

    def until_quiet(self, quiet: float, timeout: float) -> None:
        """Read until there was no output for ``quiet`` seconds."""
        deadline = time.perf_counter() + timeout
        while self.alive and time.perf_counter() < deadline:
            if not self.pump(quiet) and self.alive:
                return

    @property
    def text(self) -> str:
        self.replay()
        return self.emulator.text

    def press(self, *names: str) -> None:
        """Type keys by name, a moment apart as a person would."""
        for name in names:
            self.write(key_bytes(name))
            self.until_quiet(0.05, 1)

    def wait_for(self, wanted: str, timeout: float = 60) -> str:
        """Read until the screen has a text; return the screen."""
        self.wait_until(lambda: wanted in self.text, repr(wanted), timeout)
        return self.text

    def wait_until(self, holds: Callable[[], bool], what: str, timeout: float = 60) -> None:
        """Read until a condition is met; otherwise fail with the screen."""
        deadline = time.perf_counter() + timeout
        while not holds():
            if not self.alive or time.perf_counter() > deadline:
                raise AssertionError(f"{what} never came; the screen was:\n{self.text}")
            self.pump(0.1)

    def agree(self, question: str, timeout: float = 60) -> None:
        """Answer a question with yes until it disappears, because early keys are lost."""
        self.wait_for(question)
        deadline = time.perf_counter() + timeout
        while question in self.text:
            assert time.perf_counter() < deadline, f"no key was read; the screen was:\n{self.text}"
            self.press("y")
            self.until_quiet(0.3, 1)

    def raw(self) -> bytes:
        return b"".join(data for _, data in self.chunks)

    def wait_end(self, timeout: float = 60) -> int:
        """Read until the program ends; return its exit code, negative for a signal."""
        deadline = time.perf_counter() + timeout
        while time.perf_counter() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                with contextlib.suppress(OSError):
                    while self.pump(0.05):
                        pass
                os.close(self.fd)
                self.alive = False
                return os.waitstatus_to_exitcode(status)
            self.pump(0.05) if self.alive else time.sleep(0.05)
        raise AssertionError(f"still running; the screen was:\n{self.text}")

    def replay(self) -> None:
        for _, data in self.chunks[self._replayed :]:
            self.emulator.feed(data)
        self._replayed = len(self.chunks)

    def quit(self) -> None:
        """End the program by its key, or by signals if it does not read the key."""
        with contextlib.suppress(OSError):
            self.write(key_bytes("ctrl+q"))
        self.close()

    def close(self) -> None:
        """End the program by signals."""
        for sig in (0, signal.SIGTERM, signal.SIGKILL):
            if sig:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, sig)
            deadline = time.perf_counter() + 1.0
            while time.perf_counter() < deadline:
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    os.close(self.fd)
                    return
                if self.alive:
                    self.pump(0.02)
                else:
                    time.sleep(0.02)


def on_terminal(home: Home, *words: str, columns: int = 120, rows: int = 36, **env: str) -> Program:
    """Start a command of a home on a terminal."""
    return Program([sys.executable, "-m", "tui", *words], columns, rows, home.environment(env), inherit=False)


@contextlib.contextmanager
def screens(home: Home, *words: str, columns: int = 120, rows: int = 36, **env: str) -> Iterator[Program]:
    """The application, ended by force if a test leaves it open."""
    env = {"COLORTERM": "truecolor", **env}
    program = on_terminal(home, *words, columns=columns, rows=rows, **env)
    try:
        yield program
    finally:
        if program.alive:
            program.close()


@contextlib.contextmanager
def policy_editor(home: Home, key: str, **env: str) -> Iterator[Program]:
    """The application with the editor open: `enter` on the first policy, `n` on a new one of the first template."""
    with screens(home, columns=120, rows=36, **env) as program:
        program.wait_for("Web Shop")
        program.press("2")
        program.wait_for("deployments")
        program.press(key)
        program.wait_for("within your permissions")
        yield program
