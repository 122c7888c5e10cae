"""A load of HTTP requests, sent in turn by wrk, which checks the status and body of each answer."""

import http.client
import json
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.load import request
from tests.benchmarks.processors import LOAD, on_cores
from tests.benchmarks.settings import settings

NUMBER = "########"
"""In a request's body: replaced by a number that no other request of the run has."""
SCRIPT = Path(__file__).with_name("wrk.lua")
TIMEOUT_SECONDS = 60
MAX_REQUESTS_PER_RUN = 1_000_000


@dataclass(frozen=True)
class Exchange:
    """A request and a check of its answer's JSON."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: str = ""
    is_right: Callable[[Any], bool] = lambda answer: True

    def parts(self) -> list[bytes]:
        """Return the bytes before and after the number, or all bytes if there is none."""
        return request(self.method, self.path, self.headers, self.body.encode()).split(NUMBER.encode())


@dataclass(frozen=True)
class Result:
    """What wrk measured. Times in milliseconds."""

    answered: int
    seconds: float
    p50: float
    p99: float

    @property
    def rate(self) -> float:
        return self.answered / self.seconds


@dataclass
class Load:
    """Requests that are sent in turn.

    Args:
        volatile: text members of the answers that differ between right bodies.
        checks_bodies: False if the right bodies cannot be listed; then only statuses are checked.
    """

    exchanges: Sequence[Exchange]
    volatile: Sequence[str] = ()
    status: int = 200
    checks_bodies: bool = True
    delay_milliseconds: int = 0
    acknowledged: int = 0
    """Right answers so far, those of `prepare` included."""
    cut_off: int = 0
    """The most requests that were sent without an answer, because wrk ends a run without waiting for them."""
    first: int = 0
    bodies: list[bytes] = field(default_factory=list)

    def prepare(self, port: int) -> None:
        """Send each request once and check its answer; keep its body as a right one.

        Raises:
            RuntimeError: an answer is wrong.
        """
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
        self.bodies.clear()
        for exchange in self.exchanges:
            body = exchange.body.replace(NUMBER, "0" * len(NUMBER)) or None
            connection.request(exchange.method, exchange.path, body, dict(exchange.headers))
            answer = connection.getresponse()
            content = answer.read()
            if answer.status != self.status or not exchange.is_right(json.loads(content)):
                raise RuntimeError(f"{exchange.method} {exchange.path}: {answer.status} {content[:500]!r}")
            self.bodies.append(content)
            self.acknowledged += 1
        connection.close()

    def send(self, port: int, connections: int = 8, seconds: float | None = None, *, checks: bool = True) -> Result:
        """Send requests for some seconds.

        Args:
            checks: False sends without any check, to measure the cost of the checks.

        Raises:
            RuntimeError: an answer was wrong or missing.
        """
        duration = max(1, round(seconds or settings.seconds))
        figures, sample = self._run(port, connections, duration, checks)
        while not (figures["requests"] or figures["wrong"] or figures["failures"]) and duration < TIMEOUT_SECONDS:
            # A busy machine; a time without an answer would give no ratio.
            duration *= 2
            figures, sample = self._run(port, connections, duration, checks)
        if figures["wrong"] or figures["failures"]:
            raise RuntimeError(f"{figures['wrong']} wrong answers, {figures['failures']} failures: {sample}")
        if not figures["requests"]:
            raise RuntimeError(f"no answer in {duration} seconds")
        if not checks:
            figures["answered"] = figures["requests"]
        elif self.checks_bodies:
            self._check_counts({int(index): count for index, count in figures["counts"].items()}, connections)
        self.acknowledged += figures["answered"]
        return Result(
            figures["answered"], figures["microseconds"] / 1e6, figures["p50"] / 1_000, figures["p99"] / 1_000
        )

    def _run(self, port: int, connections: int, duration: int, checks: bool) -> tuple[dict[str, Any], str]:
        """Run wrk; return its figures and the first wrong answer."""
        with tempfile.NamedTemporaryFile("w", suffix=".lua", encoding="latin-1") as script:
            script.write(self._table(checks))
            script.flush()
            command = ["wrk", "-t1", f"-c{connections}", f"-d{duration}", f"--timeout={TIMEOUT_SECONDS}"]
            command += ["-s", str(SCRIPT), f"http://127.0.0.1:{port}", "--", script.name]
            with on_cores(LOAD):
                process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            output = process.communicate()[0].decode("utf-8", "replace")
        self.first += MAX_REQUESTS_PER_RUN
        self.cut_off += connections
        if "RESULT " not in output:
            raise RuntimeError(f"wrk failed: {output}")
        return json.loads(output.partition("RESULT ")[2].splitlines()[0]), output.partition("SAMPLE ")[2]

    def _check_counts(self, counts: Mapping[int, int], connections: int) -> None:
        """Check that each body was answered as often as it was asked for, except unfinished requests."""
        normalized = [self._normalized(body) for body in self.bodies]
        last = {body: index for index, body in enumerate(normalized, 1)}
        total = sum(counts.values())
        for body, requests in Counter(normalized).items():
            share = total * requests / len(self.exchanges)
            answers = counts.get(last[body], 0)
            if abs(answers - share) > connections + requests:
                raise RuntimeError(f"{answers} of {total} answers instead of {share:.0f} are {body[:200]!r}")

    @property
    def _patterns(self) -> list[str]:
        """Patterns of the volatile members, with the same meaning in Python and in Lua."""
        return [f'"{member}":"[^"]*"' for member in self.volatile]

    def _normalized(self, body: bytes) -> bytes:
        for pattern in self._patterns:
            body = re.sub(pattern.encode(), b"", body)
        return body

    def _table(self, checks: bool) -> str:
        requests = ",\n".join(f"{{{', '.join(map(_lua_string, exchange.parts()))}}}" for exchange in self.exchanges)
        bodies = ",\n".join(map(_lua_string, self.bodies if self.checks_bodies else ()))
        volatile = ", ".join(_lua_string(pattern.encode()) for pattern in self._patterns)
        return (
            f"return {{ status = {self.status}, first = {self.first}, check = {str(checks).lower()}, "
            f"delay = {self.delay_milliseconds},\nvolatile = {{{volatile}}},\n"
            f"requests = {{{requests}}},\nbodies = {{{bodies}}} }}"
        )


def is_installed() -> bool:
    """Return whether wrk is there; print a line if not."""
    if shutil.which("wrk"):
        return True
    print("skipped: wrk is not installed (Debian's package wrk), so there is no load")
    return False


def _lua_string(content: bytes) -> str:
    return (
        '"'
        + "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03}" for byte in content)
        + '"'
    )
