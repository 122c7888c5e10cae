"""Starting an apply or an undo, and waiting until it is over: one run at a time in a tenant.

contract: tenant default-tags apply; checklist L15, L21 to L29, L35
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from client.api.default_tags import IN_PROGRESS
from client.commands import interruption
from client.commands.invocation import Invocation
from client.core import Call
from client.errors import Exit, FrostError
from client.text import safe

Calls = Callable[[str], Call]
"""Makes the request of a tenant that starts a run."""

_UNCHANGED_SECONDS = 30.0
"""How long to wait for another run where the platform shows none but refuses a start: it may show none at all."""


Ended = tuple[str, ...]
"""Which run has ended: its run id, and when it began and ended."""


class Going(NamedTuple):
    """A run that goes on, whoever waits for it, and what has become of the command's own."""

    operation_id: str
    run_id: str
    own: str

    @property
    def named(self) -> str:
        """`operation apply-default-tags-…, run 0192…`, safe for a terminal."""
        run_id = f", run {safe(self.run_id, 60)}" if self.run_id else ""
        return f"operation {safe(self.operation_id, 120)}{run_id}"


def begin(run: Invocation, call: Calls, what: str) -> dict[str, Any]:
    """Start a run, or be told of the one that goes on: its `started` is then False.

    Raises:
        FrostError: It cannot be started, or the run in the way has no name.
    """
    with _interruptible() as going:
        try:
            return {**_started(run, call, what, going), "started": True}
        except FrostError as error:
            there = _in_the_way(error, what)
            names = {"operationId": there.operation_id, "runId": there.run_id}
            return {**{name: value for name, value in names.items() if value}, "status": "running", "started": False}


def finish(run: Invocation, call: Calls, what: str) -> dict[str, Any]:
    """Start a run behind any that goes on, and wait until it is over; the completed operation as it travels.

    A start is sent once for each run that ended, however many runs of others come first.

    Args:
        run: The command.
        call: Starts the run in a tenant.
        what: What it is called, `apply`.

    Raises:
        FrostError: It could not run as a whole, or somebody does not want to wait (exit 130): then it goes on.
    """
    with _interruptible() as going:
        ended: Ended | None = None
        while True:
            try:
                _started(run, call, what, going)
                break
            except FrostError as error:
                going[:] = [_in_the_way(error, what)]
                named = going[0].named
                run.output.note(f"a run goes on already ({named}); waiting for it, then this {what} starts")
                ended = _ended(_waited(run, going[0], ended))
        run.output.note(f"{what} started ({going[0].named})")
        return _succeeded(_waited(run, going[0]), what)


@contextmanager
def _interruptible() -> Iterator[list[Going]]:
    """What an interruption means: nothing is cancelled, and the run that goes on is named (checklist L21, L22)."""
    going: list[Going] = []
    with interruption.ends_waiting():
        try:
            yield going
        except KeyboardInterrupt:
            interruption.from_now_on_ignored()
            if not going:
                raise
            raise FrostError(
                f"not waiting any longer; {going[0].own} ({going[0].named})",
                code="INTERRUPTED",
                hint="frost tenant default-tags history shows how it ends",
                exit_code=Exit.INTERRUPTED,
                details={"operationId": going[0].operation_id, "runId": going[0].run_id},
            ) from None


def _started(run: Invocation, call: Calls, what: str, going: list[Going]) -> dict[str, Any]:
    """The answer to a start, noted in `going` before anything can interrupt.

    Until it has come the run may have been started or not; its operation id is known (facts 2.8).
    """
    operation_id = f"{what}-default-tags-{run.tenant.tenant_id}"
    with interruption.held():
        going[:] = [Going(operation_id, "", f"the {what} may have started")]
        started: dict[str, Any] = run.call_for_tenant(call)
        going[:] = [Going(str(started["operationId"]), str(started.get("runId") or ""), f"the {what} goes on")]
    return started


def _in_the_way(error: FrostError, what: str) -> Going:
    """The other run that a start was refused for. Raises the error when it is another one, or names no run."""
    if error.code != IN_PROGRESS or not (error.operation_id or error.run_id):
        raise error
    return Going(error.operation_id, error.run_id, f"the {what} was not started, the running one goes on")


def _ended(operation: Mapping[str, Any]) -> Ended:
    return tuple(str(operation.get(name)) for name in ("runId", "createdAt", "completedAt"))


def _waited(run: Invocation, going: Going, former: Ended | None = None) -> dict[str, Any]:
    """The operation when it is over, with progress on the terminal until then.

    The operation id names the latest run. While the platform still shows the `former` run, which this command has
    followed to its end, wait for the run that blocks this one.
    """
    from client import waiting

    told = Told(run)
    give_up = time.monotonic() + _UNCHANGED_SECONDS

    def is_over(operation: dict[str, Any]) -> bool:
        return waiting.is_final(operation) and (_ended(operation) != former or time.monotonic() >= give_up)

    try:
        return waiting.wait(
            run.connection,
            run.tenant.tenant_id,
            going.run_id or going.operation_id,
            told.reading,
            lost=told.lost,
            on_reply=run.on_reply,
            is_over=is_over,
        )
    except FrostError as error:
        error.hint = error.hint or f"{going.named} goes on; see frost tenant default-tags history"
        raise
    finally:
        run.output.progress("")
        run.tell_notices(run.connection)


def _succeeded(operation: dict[str, Any], what: str) -> dict[str, Any]:
    """The operation, when it completed with a result: nothing else is a success (checklist L20, L35)."""
    named = safe(operation.get("operationId"), 120)
    status = safe(operation.get("status"), 40)
    if status != "completed":
        code = safe(operation.get("errorCode") or "", 80)
        reason = safe(operation.get("error") or "no reason was given", 600)
        raise FrostError(
            f"operation {named} {status}{f' [{code}]' if code else ''}: {reason}",
            code=code or "OPERATION_FAILED",
            details={"operationId": operation.get("operationId"), "runId": operation.get("runId")},
        )
    result = operation.get("result")
    if not isinstance(result, Mapping) or not isinstance(result.get("summary"), Mapping):
        raise FrostError(
            f"operation {named} completed without a result: what the {what} did is not known",
            code="RESULT_UNKNOWN",
            hint="it is safe to repeat",
            details={"operationId": operation.get("operationId"), "runId": operation.get("runId")},
        )
    return operation


class Told:
    """What is told while waiting: a line of progress, and once that the platform is out of reach."""

    def __init__(self, run: Invocation) -> None:
        self._output = run.output
        self._lost = False

    def reading(self, operation: dict[str, Any]) -> None:
        self._lost = False
        self._output.progress(progress_line(operation))

    def lost(self, error: FrostError) -> None:
        if not self._lost:
            self._output.progress("")
            self._output.note(f"{error.message}; still waiting")
        self._lost = True


def progress_line(operation: Mapping[str, Any]) -> str:
    """`42%, instance (8/14): 120 updated, 80 unchanged, 3 skipped, 0 failed`."""
    percent = operation.get("progress")
    parts = [f"{percent:.0f}%" if isinstance(percent, int | float) else str(operation.get("status") or "")]
    if step := operation.get("currentStep"):
        parts.append(str(step))
    counts = operation.get("counts")
    summary = counts.get("summary") if isinstance(counts, Mapping) else None
    line = ", ".join(parts)
    if isinstance(summary, Mapping):
        told = ("updated", "unchanged", "skipped", "failed")
        line += ": " + ", ".join(f"{count(summary.get(name))} {name}" for name in told)
    return line


def count(value: object) -> str:
    """A number as people read it, `1,204`; anything else as sent."""
    return f"{value:,}" if isinstance(value, int) else str(value or 0)
