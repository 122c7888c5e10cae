"""Texts of applies of default tags: summary lines above the list, progress, and table columns.

Each part of a bar has its own sign, so that it is readable without colour.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from textual import events
from textual.content import Content
from textual.widget import Widget

from client.operations import is_undo
from client.tables.columns import UNKNOWN, Column, Kind, Record, fields, id_column, person_text, time_text
from client.tables.default_tags import tags_text
from client.text import cut, safe
from client.texts import apply
from tui.widgets.record_table import Tones

Build = Callable[[int], Sequence[Content]]
"""Returns the lines for a width in cells."""
NARROWEST = 12


class Summary(Widget):
    """Hidden without lines. Repainted only if a line changes."""

    DEFAULT_CSS = """
    Summary { height: auto; padding: 0 1 0 2; margin-bottom: 1; display: none; background: $background; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._build: Build = lambda _: ()
        self._lines: list[Content] = []

    def show(self, build: Build) -> None:
        """Set the function that builds the lines, now and on every resize."""
        self._build = build
        self._rebuild()

    def on_resize(self, event: events.Resize) -> None:
        self._rebuild()

    def _rebuild(self) -> None:
        cells = self.content_size.width or max(NARROWEST, self.app.size.width - 20)
        lines = list(self._build(cells))
        if lines == self._lines:
            return
        if len(lines) != len(self._lines):
            self.styles.height = len(lines)
            self.display = bool(lines)
        self._lines = lines
        self.refresh()

    def render(self) -> Content:
        return Content("\n").join(self._lines)


def wrapped(text: str, cells: int, tone: str = "", hang: str = "") -> list[Content]:
    """Make text safe and wrap it to `cells`. Lines after the first begin with `hang`."""
    parts = textwrap.wrap(safe(text), max(NARROWEST, cells), subsequent_indent=hang, break_on_hyphens=False)
    return [Content.styled(part, tone) if tone else Content(part) for part in parts]


PROGRESS_BAR, LEAST_BAR = 30, 8
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


def failing_resources(operation: Mapping[str, Any]) -> int:
    """Return the number of failing resources. Each type that could not be listed is one failure, but no resource."""
    return apply.summary(operation)["failed"] - len(apply.unlisted_types(operation))


def preview_lines(result: Mapping[str, Any], of: str, cells: int) -> list[Content]:
    """Return the summary lines of a preview.

    Args:
        result: The preview, in the form of an apply result.
        of: The tags, as `the stored tags`.
        cells: Maximum width of a line.
    """
    operation = {"result": result}
    counts = apply.summary(operation)
    changes = f"{counts['updated']:,} would change · {counts['unchanged']:,} unchanged · {counts['skipped']:,} skipped"
    lines = wrapped(f"{changes} · {failing_resources(operation):,} failing", cells)
    lines += wrapped(f"of {counts['examined']:,} resources, for {of}", cells)
    if unlisted := apply.unlisted_text(operation):
        lines += wrapped(f"! {unlisted}", cells, "$text-error")
    lines += wrapped(f"Missing:  {_lacking_text(result)}", cells, "$text-muted", "          ")
    for member, title in (("skipped", "Skipped"), ("failures", "Failing")):
        if reasons := apply.reasons_counted(result.get(member) or ()):
            first = "  (of the first 200)" if result.get(f"{member}Truncated") else ""
            lines += wrapped(f"{title}:  {reasons}{first}", cells, "$text-muted", "          ")
    return lines


def _lacking_text(result: Mapping[str, Any]) -> str:
    """Return how many resources lack each key, over all types."""
    applied = result.get("appliedTags") or {}
    totals = dict.fromkeys(sorted(applied), 0)
    for lacking in (result.get("affected") or {}).values():
        for key, number in lacking.items():
            totals[key] = totals.get(key, 0) + number
    return ", ".join(f"{safe(key)} {number:,}" for key, number in totals.items()) or tags_text({})


def _headline(operation: Mapping[str, Any], cells: int) -> Content:
    """Return the line with state, bar, percent, time and, if there is room, the step."""
    status, running = str(operation.get("status") or "pending"), apply.is_open(operation)
    sign, tone = STATES.get(status, (" ", "$foreground"))
    if status == "completed" and not operation.get("result"):
        sign, tone, status = "!", "$text-error", "ended"
    undo = is_undo(operation)
    names = {"running": "undoing" if undo else "applying", "completed": "undone" if undo else "applied"}
    head = Content.assemble((f"{sign} ", tone), (safe(names.get(status, status)), "bold"))
    percent = float(operation.get("progress") or 0)
    tail = f"{percent:3.0f}%  {apply.elapsed(operation)}" if running else apply.elapsed(operation)
    step = safe(operation.get("currentStep") or "") if running else ""
    if not running:
        return head + Content.styled(f"  in {tail}" if tail else "", "$text-muted")
    # The width does not depend on the step or the elapsed time, so that the bar does not jump.
    width = max(LEAST_BAR, min(PROGRESS_BAR, cells - head.cell_length - LONGEST_TAIL - LONGEST_STEP - 5))
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
    names = {"updated": "lost tags"} if is_undo(operation) else {}
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
        warning = f"! No response: {lost}. This is the last known state; the apply continues on the platform."
        lines += wrapped(warning, cells, "$text-error")
    elif operation.get("stalled") and running:
        lines += wrapped("! No progress for a minute; the platform will resume the apply.", cells, "$text-warning")
    if waits:
        lines += wrapped(
            f"Your apply starts when this one has finished{f' · {key} to cancel' if key else ''}", cells, "$text-accent"
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


BAR = 6
"""Width of the bar in cells."""
SIGNS = {"updated": "━", "unchanged": "─", "skipped": "╌", "failed": "×"}
"""Lines instead of blocks keep the bars of adjacent rows apart."""
LEGEND = (*((sign, name) for name, sign in SIGNS.items()), ("·", "waiting"))


def bar(record: Record) -> str:
    """Return the bar of a type's results, with a sign for each part."""
    state, examined = record.get("state"), int(record.get("examined") or 0)
    if state == "pending":
        return "·" * BAR
    if not examined and not record.get("failed"):
        return "none" if state == "done" else "·" * BAR
    total = max(examined, int(record.get("failed") or 0), int(record.get("total") or 0))
    whole = state == "done" or not record.get("total")
    room = BAR if state == "done" else max(1, min(BAR - 1, round(examined / total * BAR))) if not whole else BAR - 1
    drawn = _parts([int(record.get(name) or 0) for name in SIGNS], room)
    text = "".join(sign * cells for sign, cells in zip(SIGNS.values(), drawn, strict=True))
    return text + "·" * (BAR - len(text))


def _parts(numbers: Sequence[int], room: int) -> list[int]:
    """Distribute `room` cells by largest remainder. A number above 0 gets at least one cell if there is room."""
    total = sum(numbers)
    if not total:
        return [0] * len(numbers)
    cells = [max(1, number * room // total) if number else 0 for number in numbers]
    while sum(cells) > room:
        cells[cells.index(max(cells))] -= 1
    rest = sorted(range(len(numbers)), key=lambda index: -(numbers[index] * room / total - cells[index]))
    for index in rest:
        if sum(cells) < room and numbers[index]:
            cells[index] += 1
    while sum(cells) < room:
        cells[numbers.index(max(numbers))] += 1
    return cells


def type_rows(operation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the types of a run with results and state (done, running, pending), in the order of the response.

    If the response is not in the order of the run, a type is done once resources of it were examined.
    """
    counts = apply.counts(operation)
    by_type = counts.get("byType")
    rows = (
        [{"resourceType": name, **numbers} for name, numbers in by_type.items()] if isinstance(by_type, Mapping) else []
    )
    totals = counts.get("totals")
    at = apply.parse_step(operation.get("currentStep"))
    over = not apply.is_open(operation)
    here = next((index for index, row in enumerate(rows) if at is not None and row["resourceType"] == at[0]), -1)
    ordered = at is not None and here + 1 == at[1]
    for index, row in enumerate(rows):
        passed = index < here if ordered else bool(row.get("examined"))
        row["state"] = "done" if over else "running" if index == here else "done" if passed else "pending"
        row["total"] = totals.get(row["resourceType"], 0) if isinstance(totals, Mapping) else None
    return rows


def _number(key: str, title: str) -> Column:
    def text(record: Record) -> str:
        value = record.get(key)
        if not isinstance(value, int):
            return UNKNOWN
        return f"{value:,}" if value or record.get("state") != "pending" else " "

    return Column(key, title, align="right", cell=text, sort=lambda record: record.get(key))


_TYPE = Column("resourceType", "Type", whole=True)
# Short titles keep every number visible at 80 columns. The summary and the details have the full words.
_APPLY = (
    _TYPE,
    Column("bar", "", cell=bar, sort=lambda record: record.get("examined")),
    _number("updated", "Updated"),
    _number("unchanged", "Unchanged"),
    _number("skipped", "Skipped"),
    _number("failed", "Failed"),
)
APPLY = Kind("type", "types", "resourceType", _APPLY, fields(_APPLY, type="resourceType"), "resourceType")
_PREVIEW = (
    _TYPE,
    _number("updated", "To change"),
    _number("unchanged", "Unchanged"),
    _number("skipped", "Skipped"),
    _number("failed", "Failed"),
    _number("examined", "Total")._replace(wide=True),
)
PREVIEW = APPLY._replace(columns=_PREVIEW, filter_fields=fields(_PREVIEW, type="resourceType"))


def _some(key: str, tone: str) -> Any:
    return lambda record: tone if record.get(key) else "dim"


TONES: Tones = {
    "bar": lambda record: "good" if record.get("updated") else "dim",
    "updated": _some("updated", "good"),
    "unchanged": lambda record: "dim",
    "skipped": _some("skipped", "warning"),
    "failed": _some("failed", "bad"),
}


# --- skips and failures ----------------------------------------------------------------------------------------------


def untouched_rows(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return failures, then skips, each with its outcome as `what` and a unique `key`."""
    rows: list[dict[str, Any]] = []
    for member, outcome in (("failures", "failed"), ("skipped", "skipped")):
        for index, item in enumerate(result.get(member) or ()):
            rows.append({**item, "what": outcome, "key": f"{outcome} {index}"})
    return rows


def resource_text(record: Record) -> str:
    """Return the name or id of a resource. The failure of a whole type has no resource id."""
    if not record.get("resourceId"):
        return "(the whole type)"
    return str(record.get("resourceName") or record["resourceId"])


OUTCOME_SIGNS = {"failed": "×", "skipped": "–"}
_OUTCOME = Column("what", "Outcome", cell=lambda record: f"{record.get('what')}")
_UNTOUCHED = (
    Column("what", "", cell=lambda record: f"{OUTCOME_SIGNS.get(str(record.get('what')), ' ')}"),
    _TYPE,
    Column("resourceName", "Resource", cell=resource_text),
    Column("reason", "Why", cell=lambda record: apply.short_reason(record.get("reason", ""))),
    id_column("resourceId", "ID", wide=True),
)
UNTOUCHED = Kind(
    "resource",
    "resources",
    "key",
    _UNTOUCHED,
    {
        **fields(_UNTOUCHED, type="resourceType", name="resourceName", why="reason", id="resourceId"),
        "what": _OUTCOME,
        "reason": Column("reason", "Reason"),
    },
    "resourceName",
)
UNTOUCHED_TONES: Tones = {
    "what": lambda record: "bad" if record.get("what") == "failed" else "dim",
    "reason": lambda record: "warning" if record.get("what") == "failed" else None,
    "resourceId": lambda record: "dim",
}
