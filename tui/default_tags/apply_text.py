"""Texts of applies of default tags: summary lines above the list, progress, and table columns.

Each part of a bar has its own sign, so that it is readable without colour.
"""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual import events
from textual.content import Content
from textual.widget import Widget

from client.models.apply_counts import OUTCOMES
from client.operations import FINAL, is_undo
from client.tables.columns import UNKNOWN, Column, Kind, Record, fields, person_text, time_text
from client.tables.default_tags import tags_text
from client.text import cut, safe
from client.texts import apply
from tui.widgets.record_table import Tones

if TYPE_CHECKING:
    from client.models.default_tags import ApplyOperation, ApplyResult, ApplyRun, Counts, Untouched

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
    operation: "ApplyOperation",
    cells: int,
    entry: "ApplyRun | None" = None,
    *,
    lost: str = "",
    waits: bool = False,
    key: str = "",
) -> list[Content]:
    """Return the summary lines of a run.

    Args:
        operation: The run as last read.
        cells: Maximum width of a line.
        entry: The entry of the run in the list of runs, with its starter; None if it is not listed.
        lost: Reason why an open run is no longer followed; empty while it is.
        waits: Whether another apply starts after this run.
        key: Label of the key that changes `waits`.
    """
    lines = [_headline(operation, cells), *_counts(operation, cells)]
    if unlisted := apply.unlisted_text(operation.wire()):
        lines += wrapped(f"! {unlisted}", cells, "$text-error")
    applied = [one.applied_tags for one in (operation.result, entry) if one is not None and one.applied_tags]
    if applied:
        lines += wrapped(cut(tags_text(applied[0]), LONGEST_TAGS), cells, "$text-muted")
    if entry is not None and (starter := person_text(entry.started_by)):
        lines += wrapped(f"started by {starter} {time_text(operation.created_at)}", cells, "$text-muted")
    return lines + _remarks(operation, cells, lost, waits, key)


def unlisted_fact(counts: "Counts") -> list[tuple[str, str]]:
    """Return the line of a type that could not be listed; none for others."""
    return [("Not listed", "the type could not be listed, so nothing of it was examined")] if counts.unlisted else []


def reasons_text(resources: "Sequence[Untouched]", resource_type: str = "") -> str:
    """Count the reasons of failures or skips, of one resource type if it is given."""
    return apply.reasons_counted(one.wire() for one in resources if resource_type in ("", one.resource_type))


def preview_lines(result: "ApplyResult", of: str, cells: int) -> list[Content]:
    """Return the summary lines of a preview.

    Args:
        result: The preview, in the form of an apply result.
        of: The tags, as `the stored tags`.
        cells: Maximum width of a line.
    """
    counts = result.summary
    changes = f"{counts.updated:,} would change · {counts.unchanged:,} unchanged · {counts.skipped:,} skipped"
    lines = wrapped(f"{changes} · {counts.failed:,} failing", cells)
    lines += wrapped(f"of {counts.examined:,} resources, for {of}", cells)
    if unlisted := apply.unlisted_text({"result": result.wire()}):
        lines += wrapped(f"! {unlisted}", cells, "$text-error")
    lines += wrapped(f"Missing:  {_lacking_text(result)}", cells, "$text-muted", "          ")
    for title, resources, truncated in (
        ("Skipped", result.skipped, result.skipped_truncated),
        ("Failing", result.failures, result.failures_truncated),
    ):
        if reasons := reasons_text(resources):
            first = "  (of the first 200)" if truncated else ""
            lines += wrapped(f"{title}:  {reasons}{first}", cells, "$text-muted", "          ")
    return lines


def _lacking_text(result: "ApplyResult") -> str:
    """Return how many resources lack each key, over all types."""
    totals = dict.fromkeys(sorted(result.applied_tags), 0)
    for lacking in result.affected.values():
        for key, number in lacking.items():
            totals[key] = totals.get(key, 0) + number
    return ", ".join(f"{safe(key)} {number:,}" for key, number in totals.items()) or tags_text({})


def _headline(operation: "ApplyOperation", cells: int) -> Content:
    """Return the line with state, bar, percent, time and, if there is room, the step."""
    status, running = operation.status or "pending", operation.status not in FINAL
    sign, tone = STATES.get(status, (" ", "$foreground"))
    if status == "completed" and operation.result is None:
        sign, tone, status = "!", "$text-error", "ended"
    undo, elapsed = is_undo(operation.wire()), apply.elapsed(operation.wire())
    names = {"running": "undoing" if undo else "applying", "completed": "undone" if undo else "applied"}
    head = Content.assemble((f"{sign} ", tone), (safe(names.get(status, status)), "bold"))
    percent = operation.progress
    tail = f"{percent:3.0f}%  {elapsed}" if running else elapsed
    step = safe(operation.current_step or "") if running else ""
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


def _counts(operation: "ApplyOperation", cells: int) -> list[Content]:
    """Return the counts in one line, or in more if they are wider than `cells`."""
    counts = apply.summary(operation.wire())
    tones = {"updated": "$text-success", "skipped": "$text-warning", "failed": "$text-error"}
    names = {"updated": "lost tags"} if is_undo(operation.wire()) else {}
    lines = [Content("")]
    for name in OUTCOMES:
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


def _remarks(operation: "ApplyOperation", cells: int, lost: str, waits: bool, key: str) -> list[Content]:
    lines: list[Content] = []
    running = operation.status not in FINAL
    if lost and running:
        warning = f"! No response: {lost}. This is the last known state; the apply continues on the platform."
        lines += wrapped(warning, cells, "$text-error")
    elif operation.stalled and running:
        lines += wrapped("! No progress for a minute; the platform will resume the apply.", cells, "$text-warning")
    if waits:
        lines += wrapped(
            f"Your apply starts when this one has finished{f' · {key} to cancel' if key else ''}", cells, "$text-accent"
        )
    if running:
        return lines
    if operation.status != "completed":
        code = f" [{operation.error_code}]" if operation.error_code else ""
        lines += wrapped(f"! {operation.error or 'no reason given'}{code}", cells, "$text-error")
        lines += wrapped(apply.failure_hint(operation.wire()), cells)
    elif operation.result is None:
        lines += wrapped(f"! {apply.NO_RESULT}", cells, "$text-error")
    return lines


BAR = 6
"""Width of the bar in cells."""
SIGNS = {"updated": "━", "unchanged": "─", "skipped": "╌", "failed": "×"}
"""Lines instead of blocks keep the bars of adjacent rows apart."""
UNLISTED = "!"
LEGEND = (*((sign, name) for name, sign in SIGNS.items()), (UNLISTED, "not listed"), ("·", "waiting"))


def bar(record: Record) -> str:
    """Return the bar of a type's results, with a sign for each part."""
    state, examined = record.get("state"), int(record.get("examined") or 0)
    if state == "pending":
        return "·" * BAR
    if record.get("unlisted"):
        return UNLISTED * BAR
    if not examined:
        return "none" if state == "done" else "·" * BAR
    total = max(examined, int(record.get("total") or 0))
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


@dataclass(frozen=True)
class TypeRow:
    """The numbers of a run or a preview for one resource type."""

    resource_type: str
    counts: "Counts"
    state: str = "done"
    """`done`, `running` or `pending`."""
    total: int | None = None
    """Number of resources to examine; None if unknown."""

    def wire(self) -> Record:
        """Return the JSON object, which the columns read."""
        return {"resourceType": self.resource_type, **self.counts.wire(), "state": self.state, "total": self.total}


def type_rows(operation: "ApplyOperation") -> list[TypeRow]:
    """Return the types of a run with results and state, in the order of the response.

    If the response is not in the order of the run, a type is done once resources of it were examined, or could not
    be listed.
    """
    by_type = operation.numbers.by_type if operation.numbers is not None else {}
    totals = operation.counts.totals if operation.counts is not None and operation.result is None else {}
    at = apply.parse_step(operation.current_step)
    here = next((index for index, name in enumerate(by_type) if at is not None and name == at[0]), -1)
    ordered = at is not None and here + 1 == at[1]

    def state(index: int, counts: "Counts") -> str:
        passed = index < here if ordered else bool(counts.examined or counts.unlisted)
        return "running" if index == here else "done" if passed else "pending"

    return [
        TypeRow(
            name,
            counts,
            "done" if operation.status in FINAL else state(index, counts),
            totals.get(name, 0) if totals else None,
        )
        for index, (name, counts) in enumerate(by_type.items())
    ]


def preview_rows(result: "ApplyResult") -> list[TypeRow]:
    """Return the types of a preview, in the order of the response."""
    return [TypeRow(name, counts) for name, counts in result.by_type.items()]


def _number(key: str, title: str) -> Column:
    def text(record: Record) -> str:
        value = record.get(key)
        if not isinstance(value, int):
            return UNKNOWN
        return f"{value:,}" if value or record.get("state") != "pending" else " "

    return Column(key, title, align="right", cell=text, sort=lambda record: record.get(key))


TYPE = Column("resourceType", "Type", whole=True)
# On a narrow screen the last columns are hidden: failures matter more than unchanged resources.
_APPLY = (
    TYPE,
    Column("bar", "", cell=bar, sort=lambda record: record.get("examined")),
    _number("updated", "Updated"),
    _number("skipped", "Skipped"),
    _number("failed", "Failed"),
    _number("unchanged", "Unchanged"),
)
APPLY = Kind("type", "types", "resourceType", _APPLY, fields(_APPLY, type="resourceType"), "resourceType")
_PREVIEW = (
    TYPE,
    _number("updated", "Would change"),
    _number("skipped", "Skipped"),
    _number("failed", "Failing"),
    _number("unchanged", "Unchanged"),
    _number("examined", "Examined")._replace(wide=True),
)
PREVIEW = APPLY._replace(columns=_PREVIEW, filter_fields=fields(_PREVIEW, type="resourceType"))


def _some(key: str, tone: str) -> Any:
    return lambda record: tone if record.get(key) else "dim"


TONES: Tones = {
    "bar": lambda record: "bad" if record.get("unlisted") else "good" if record.get("updated") else "dim",
    "updated": _some("updated", "good"),
    "unchanged": lambda record: "dim",
    "skipped": _some("skipped", "warning"),
    "failed": _some("failed", "bad"),
}
