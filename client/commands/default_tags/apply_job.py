"""Start an apply or an undo, wait for its end, and print its result. A tenant has one run at a time."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from client.api.default_tags import IN_PROGRESS
from client.commands import interruption
from client.commands.invocation import Invocation
from client.errors import Exit, FrostError
from client.models.apply_counts import OUTCOMES, separate_unlisted
from client.tables import default_tags
from client.tables.columns import Kind
from client.text import safe
from client.texts import apply as texts
from client.texts.apply import NO_RESULT
from client.transport.call import Call

Calls = Callable[[str], Call[object]]
"""Returns the request that starts a run in a tenant."""

Ended = tuple[str, ...]
"""Identity of a completed run: its id, start and end."""


class Going(NamedTuple):
    """A run in progress, whether of this command or of another, and the state of the command's own run."""

    operation_id: str
    run_id: str
    own: str

    @property
    def named(self) -> str:
        """`operation apply-default-tags-…, run 0192…`, safe for a terminal."""
        run_id = f", run {safe(self.run_id, 60)}" if self.run_id else ""
        return f"operation {safe(self.operation_id, 120)}{run_id}"


def begin(run: Invocation, call: Calls, what: str) -> dict[str, Any]:
    """Start a run, or return the run in progress, with `started` False.

    Raises:
        FrostError: The run cannot be started, or the run in progress has no id.
    """
    with _interruptible() as going:
        try:
            return {**_start(run, call, what, going), "started": True}
        except FrostError as error:
            there = _in_the_way(error, what)
            names = {"operationId": there.operation_id, "runId": there.run_id}
            return {**{name: value for name, value in names.items() if value}, "status": "running", "started": False}


def finish(run: Invocation, call: Calls, what: str) -> dict[str, Any]:
    """Start a run after any run in progress, wait for its end and return the completed operation as JSON.

    The start is repeated only when a run has ended, however many runs of other users come first.

    Args:
        run: The command.
        call: Returns the request that starts the run.
        what: Its name in messages, `apply` or `undo`.

    Raises:
        FrostError: The run failed as a whole, or the user ended the wait (exit 130) and the run continues.
    """
    with _interruptible() as going:
        ended: Ended | None = None
        while True:
            try:
                _start(run, call, what, going)
                break
            except FrostError as error:
                going[:] = [_in_the_way(error, what)]
                label = going[0].named
                run.output.note(f"a run is already in progress ({label}); waiting for it, then this {what} starts")
                ended = _end_of(_wait(run, going[0], ended))
        run.output.note(f"{what} started ({going[0].named})")
        return _require_success(_wait(run, going[0]), what)


@contextmanager
def _interruptible() -> Iterator[list[Going]]:
    """Name the run that continues when the command is interrupted. Nothing is cancelled."""
    going: list[Going] = []
    with interruption.ends_waiting():
        try:
            yield going
        except KeyboardInterrupt:
            interruption.from_now_on_ignored()
            if not going:
                raise
            raise FrostError(
                f"stopped waiting; {going[0].own} ({going[0].named})",
                code="INTERRUPTED",
                hint="frost tenant default-tags history shows the result",
                exit_code=Exit.INTERRUPTED,
                details={"operationId": going[0].operation_id, "runId": going[0].run_id},
            ) from None


def _start(run: Invocation, call: Calls, what: str, going: list[Going]) -> dict[str, Any]:
    """Start a run and return the response. `going` has the run before an interruption can occur.

    Until the response arrives, the run may or may not have started; its operation id is known.
    """
    operation_id = f"{what}-default-tags-{run.tenant.tenant_id}"
    with interruption.deferred():
        going[:] = [Going(operation_id, "", f"the {what} may have started")]
        started: dict[str, Any] = run.call_for_tenant(call)
        going[:] = [Going(str(started["operationId"]), str(started.get("runId") or ""), f"the {what} continues")]
    return started


def _in_the_way(error: FrostError, what: str) -> Going:
    """Return the run that blocks a start. Raises the error if it has another cause or names no run."""
    if error.code != IN_PROGRESS or not (error.operation_id or error.run_id):
        raise error
    return Going(error.operation_id, error.run_id, f"the {what} was not started, the running one continues")


def _end_of(operation: Mapping[str, Any]) -> Ended:
    return tuple(str(operation.get(name)) for name in ("runId", "createdAt", "completedAt"))


def _wait(run: Invocation, going: Going, former: Ended | None = None) -> dict[str, Any]:
    """Wait for the end of an operation, with progress on the terminal, and return it.

    The operation id names the latest run. While the platform still shows the run `former`, which this command has
    followed to its end, wait for the run that blocks this one.
    """
    from client import operations

    progress = Progress(run)
    intervals = run.intervals or operations.Intervals()
    give_up = time.monotonic() + intervals.unchanged

    def is_over(operation: dict[str, Any]) -> bool:
        return operations.is_final(operation) and (_end_of(operation) != former or time.monotonic() >= give_up)

    try:
        return operations.wait(
            run.connection,
            run.tenant.tenant_id,
            going.run_id or going.operation_id,
            progress.reading,
            lost=progress.lost,
            on_reply=run.on_reply,
            is_over=is_over,
            intervals=intervals,
        )
    except FrostError as error:
        error.hint = error.hint or f"{going.named} continues; see frost tenant default-tags history"
        raise
    finally:
        run.output.progress("")
        run.show_notices(run.connection)


def _require_success(operation: dict[str, Any], what: str) -> dict[str, Any]:
    """Return an operation that completed with a result. Raises FrostError for any other."""
    label = safe(operation.get("operationId"), 120)
    status = safe(operation.get("status"), 40)
    if status != "completed":
        code = safe(operation.get("errorCode") or "", 80)
        reason = safe(operation.get("error") or "no reason given", 600)
        raise FrostError(
            f"operation {label} {status}{f' [{code}]' if code else ''}: {reason}",
            code=code or "OPERATION_FAILED",
            details={"operationId": operation.get("operationId"), "runId": operation.get("runId")},
        )
    result = operation.get("result")
    if not isinstance(result, Mapping) or not isinstance(result.get("summary"), Mapping):
        raise FrostError(
            f"operation {label} {NO_RESULT}",
            code="RESULT_UNKNOWN",
            hint="repeat the command; repeating is safe",
            details={"operationId": operation.get("operationId"), "runId": operation.get("runId")},
        )
    return operation


class Progress:
    """Output during a wait: a line of progress, and one message when the platform becomes unreachable."""

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
        numbers = separate_unlisted(summary)
        line += ": " + ", ".join(f"{count(numbers.get(name))} {name}" for name in OUTCOMES)
        if numbers.get("unlisted"):
            line += f", {count(numbers['unlisted'])} not listed"
    return line


def count(value: object) -> str:
    """Return an integer with thousands separators, `1,204`, and any other value as text, `0` if it is empty."""
    return f"{value:,}" if isinstance(value, int) else str(value or 0)


MOST_LISTED = 200
"""Maximum number of failed and of skipped resources to list. The numbers include all."""


def show(run: Invocation, result: Mapping[str, Any], *, would: str = "") -> None:
    """Print a result: its numbers by type, and the resources that failed or were skipped.

    Args:
        run: The command.
        result: The JSON document of the result.
        would: The heading of the first count in a preview: `Would change`.
    """
    summary = _summary(result)
    kind = default_tags.COUNTS
    if would:
        first, second, *others = kind.columns
        kind = kind._replace(columns=(first, second._replace(title=would), *others))
    run.output.records(kind, [*default_tags.by_type(result), {"resourceType": "total", **summary}])
    if types := texts.type_failures({"result": result}):
        run.output.lines(["", "not examined, because the type could not be listed:"])
        for one in types:
            parts = [safe(one.get(name) or "", 300) for name in ("resourceType", "reason", "message")]
            run.output.lines(["  " + "  ".join(word for word in parts if word)])
    _show_list(
        run, default_tags.FAILED, {**result, "failures": failed_resources(result)}, "failures", "failed", summary
    )
    _show_list(run, default_tags.SKIPPED, result, "skipped", "skipped", summary)


def failed_resources(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the failures of single resources."""
    return [one for one in _items(result, "failures") if one.get("resourceId")]


def _show_list(
    run: Invocation, kind: Kind, result: Mapping[str, Any], member: str, word: str, summary: Mapping[str, Any]
) -> None:
    items = _items(result, member)
    if not items:
        return
    cut = bool(result.get(f"{member}Truncated")) or len(items) > MOST_LISTED
    items = items[:MOST_LISTED]
    head = f"{word}, the first {len(items)} of {count(summary.get(word))}:" if cut else f"{word}:"
    run.output.lines(["", head])
    run.output.records(kind, items)


def sentence(operation: Mapping[str, Any]) -> str:
    """Return `120 of 3,011 resources updated; 4 failed; run the command again to retry them`."""
    numbers = texts.summary(operation)
    retry = "; run the command again to retry them" if numbers["failed"] or numbers["unlisted"] else ""
    return texts.result_sentence(operation) + retry


def preview_lines(result: Mapping[str, Any], verb: str = "would change") -> list[str]:
    """Return a line for each type with changes, skips or failures: their numbers, and the reasons."""
    return [
        f"  {safe(one.name, 60)}: {one.numbers}{f' ({safe(one.reasons, 300)})' if one.reasons else ''}"
        for one in texts.preview_by_type(result, verb)
    ]


def would_change(result: Mapping[str, Any]) -> str:
    """Return `120 of 3,011 resources`."""
    summary = _summary(result)
    return f"{count(summary.get('updated'))} of {count(summary.get('examined'))} resources"


def _summary(result: Mapping[str, Any]) -> Mapping[str, Any]:
    summary = result.get("summary")
    return separate_unlisted(summary) if isinstance(summary, Mapping) else {}


def _items(result: Mapping[str, Any], member: str) -> Sequence[Mapping[str, Any]]:
    items = result.get(member)
    return [one for one in items if isinstance(one, Mapping)] if isinstance(items, list) else []
