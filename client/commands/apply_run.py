"""Starting an apply or an undo, and waiting until it is over: one run at a time in a tenant.

contract: tenant default-tags apply; checklist L15, L21 to L29, L35
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from client.api.default_tags import IN_PROGRESS
from client.commands import interruption
from client.commands.invocation import Invocation
from client.core import Call
from client.errors import Exit, FrostError
from client.text import safe

_BETWEEN = 0.2
"""Seconds before starting again behind a run that has just ended: nobody gains by being told of it once more."""


def begin(run: Invocation, call: Callable[[str], Call]) -> dict[str, Any]:
    """Start a run, or be told of the one that goes on: its `started` is then False.

    Raises:
        FrostError: It cannot be started, or the run in the way has no name.
    """
    with interruption.ends_waiting():
        try:
            return {**_started(run, call), "started": True}
        except FrostError as error:
            if not _in_the_way(error):
                raise
            names = {"operationId": error.operation_id, "runId": error.run_id}
            return {**{name: value for name, value in names.items() if value}, "status": "running", "started": False}


def finish(run: Invocation, call: Callable[[str], Call], what: str) -> dict[str, Any]:
    """Start a run behind any that goes on, and wait until it is over; the completed operation as it travels.

    Args:
        run: The command.
        call: Starts the run in a tenant.
        what: What it is called, `apply`.

    Raises:
        FrostError: It could not run as a whole, or somebody does not want to wait (exit 130): then it goes on.
    """
    with interruption.ends_waiting():
        while True:
            try:
                started = _started(run, call)
                break
            except FrostError as error:
                if not _in_the_way(error):
                    raise
                named = safe(error.operation_id, 120)
                run.output.note(f"a run goes on already (operation {named}); waiting for it, then this {what} starts")
                _waited(run, error.operation_id, error.run_id, f"the {what} was not started")
                time.sleep(_BETWEEN)
        operation_id, run_id = str(started["operationId"]), str(started.get("runId") or "")
        run.output.note(f"{what} started (operation {safe(operation_id, 120)})")
        return _succeeded(_waited(run, operation_id, run_id, f"the {what} goes on"), what)


def _started(run: Invocation, call: Callable[[str], Call]) -> dict[str, Any]:
    """The answer to a start. When Ctrl-C comes on the way, what it was answered with is told before it ends."""
    started: dict[str, Any] = {}
    try:
        with interruption.held():
            started = run.call_for_tenant(call)
    except KeyboardInterrupt:
        if started:
            raise _interrupted(str(started["operationId"]), str(started.get("runId") or ""), "it goes on") from None
        raise
    return started


def _in_the_way(error: FrostError) -> bool:
    """Whether another run is in the way that can be waited for."""
    return error.code == IN_PROGRESS and bool(error.operation_id or error.run_id)


def _waited(run: Invocation, operation_id: str, run_id: str, then: str) -> dict[str, Any]:
    """The operation when it is over, with progress on the terminal until then."""
    from client import waiting

    told = Told(run)
    try:
        return waiting.wait(
            run.connection,
            run.tenant.tenant_id,
            run_id or operation_id,
            told.reading,
            lost=told.lost,
            on_reply=run.on_reply,
        )
    except KeyboardInterrupt:
        raise _interrupted(operation_id, run_id, then) from None
    except FrostError as error:
        error.hint = error.hint or f"operation {safe(operation_id, 120)} goes on; see frost platform operations"
        raise
    finally:
        run.output.progress("")
        run.tell_notices(run.connection)


def _interrupted(operation_id: str, run_id: str, then: str) -> FrostError:
    interruption.from_now_on_ignored()
    named = safe(operation_id, 120) + (f", run {safe(run_id, 60)}" if run_id else "")
    return FrostError(
        f"not waiting any longer; {then} (operation {named})",
        code="INTERRUPTED",
        hint="frost tenant default-tags history shows how it ends",
        exit_code=Exit.INTERRUPTED,
        details={"operationId": operation_id, "runId": run_id},
    )


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
