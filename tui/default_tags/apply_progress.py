"""Summary lines above an apply: progress, results, starter, tags and errors."""

from collections.abc import Mapping
from typing import Any

from textual.content import Content

from client.tables.columns import time_text
from client.tables.default_tags import person_text, tags_text
from client.text import cut, safe
from client.texts import apply
from tui.default_tags.summary import wrapped

BAR, LEAST_BAR = 30, 8
LONGEST_STEP, LONGEST_TAIL = 26, 11  # cells of `kubernetes_cluster (38/44)` and `100%  59:59`
HALVES = " ▏▎▍▌▋▊▉█"
LONGEST_TAGS = 200
STATES = {
    "pending": ("◐", "$text-accent"),
    "running": ("◐", "$text-accent"),
    "completed": ("✓", "$text-success"),
    "failed": ("×", "$text-error"),
    "cancelled": ("×", "$text-error"),
}


def progress_lines(
    operation: Mapping[str, Any],
    cells: int,
    entry: Mapping[str, Any],
    *,
    lost: str = "",
    waits: bool = False,
    key: str = "",
) -> list[Content]:
    """Return the summary lines of a run.

    Args:
        operation: The run as last read.
        cells: Maximum width of a line.
        entry: The entry of the run in the list of runs, with its starter.
        lost: Reason why an open run is no longer followed; empty while it is.
        waits: Whether another apply starts after this run.
        key: Label of the key that changes `waits`.
    """
    lines = [_headline(operation, cells), *_counts(operation, cells)]
    if unlisted := apply.unlisted_text(operation):
        lines += wrapped(f"! {unlisted}", cells, "$text-error")
    result = apply.counts(operation)
    tags = result.get("appliedTags") or entry.get("appliedTags")
    if tags:
        lines += wrapped(cut(tags_text(tags), LONGEST_TAGS), cells, "$text-muted")
    if starter := person_text(entry.get("startedBy")):
        lines += wrapped(f"started by {starter} {time_text(operation.get('createdAt'))}", cells, "$text-muted")
    return lines + _remarks(operation, cells, lost, waits, key)


def _headline(operation: Mapping[str, Any], cells: int) -> Content:
    """Return the line with state, bar, percent, time and, if there is room, the step."""
    status, running = str(operation.get("status") or "pending"), apply.is_open(operation)
    sign, tone = STATES.get(status, (" ", "$foreground"))
    if status == "completed" and not operation.get("result"):
        sign, tone, status = "!", "$text-error", "over"
    undo = apply.is_undo(operation)
    names = {"running": "undoing" if undo else "applying", "completed": "undone" if undo else "applied"}
    head = Content.assemble((f"{sign} ", tone), (safe(names.get(status, status)), "bold"))
    percent = float(operation.get("progress") or 0)
    tail = f"{percent:3.0f}%  {apply.elapsed(operation)}" if running else apply.elapsed(operation)
    step = safe(operation.get("currentStep") or "") if running else ""
    if not running:
        return head + Content.styled(f"  in {tail}" if tail else "", "$text-muted")
    # The width does not depend on the step or the elapsed time, so that the bar does not jump.
    width = max(LEAST_BAR, min(BAR, cells - head.cell_length - LONGEST_TAIL - LONGEST_STEP - 5))
    line = head + "  " + Content.styled(filled(percent / 100, width), "$text-success on $foreground 15%") + f" {tail}"
    room = cells - line.cell_length - 2
    return line + Content.styled("  " + cut(step, room), "$text-muted") if step and room > 0 else line


def filled(share: float, width: int) -> str:
    """Return a bar of `width` cells, drawn in eighths of a cell. `share` is 0 to 1."""
    eighths = max(0, min(width * 8, round(share * width * 8)))
    whole, rest = divmod(eighths, 8)
    return ("█" * whole + (HALVES[rest] if rest else "")).ljust(width)


def _counts(operation: Mapping[str, Any], cells: int) -> list[Content]:
    """Return the counts in one line, or in more if they are wider than `cells`."""
    counts = apply.summary(operation)
    tones = {"updated": "$text-success", "skipped": "$text-warning", "failed": "$text-error"}
    names = {"updated": "lost tags"} if apply.is_undo(operation) else {}
    lines = [Content("")]
    for name in apply.COUNTED:
        tone = tones.get(name, "$text-muted") if counts[name] else "$text-muted"
        _append(lines, Content.styled(f"{counts[name]:,} {names.get(name, name)}", tone), " · ", cells)
    _append(lines, Content.styled(f"of {counts['examined']:,}", "$text-muted"), "  ", cells)
    return lines


def _append(lines: list[Content], part: Content, between: str, cells: int) -> None:
    if not lines[-1].cell_length:
        lines[-1] = part
    elif lines[-1].cell_length + len(between) + part.cell_length <= cells:
        lines[-1] = lines[-1] + Content(between) + part
    else:
        lines.append(part)


def _remarks(operation: Mapping[str, Any], cells: int, lost: str, waits: bool, key: str) -> list[Content]:
    lines: list[Content] = []
    running = apply.is_open(operation)
    if lost and running:
        warning = f"! No answer: {lost}. Shown as it was read last; the apply is the platform's, nothing of it is lost."
        lines += wrapped(warning, cells, "$text-error")
    elif operation.get("stalled") and running:
        lines += wrapped(
            "! It has not moved for a minute; the platform takes it up again by itself.", cells, "$text-warning"
        )
    if waits:
        lines += wrapped(
            f"Yours begins when this one is over{f' · {key} changes that' if key else ''}", cells, "$text-accent"
        )
    if running:
        return lines
    if operation.get("status") != "completed":
        code = f" [{operation['errorCode']}]" if operation.get("errorCode") else ""
        lines += wrapped(f"! {operation.get('error') or 'no reason given'}{code}", cells, "$text-error")
        lines += wrapped(apply.failure_hint(operation), cells)
    elif not operation.get("result"):
        lines += wrapped(f"! {apply.NO_RESULT}", cells, "$text-error")
    return lines
