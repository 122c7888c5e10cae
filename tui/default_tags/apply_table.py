"""Table columns of applies, skips and failures.

Each part of a bar has its own sign, so that it is readable without colour.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from client.tables.columns import UNKNOWN, Column, Kind, Record, fields, id_column
from client.texts import apply
from tui.widgets.record_table import Tones

BAR = 6
"""Width of the bar in cells."""
SIGNS = {"updated": "━", "unchanged": "─", "skipped": "╌", "failed": "×"}
"""Lines instead of blocks keep the bars of adjacent rows apart."""
LEGEND = (*((sign, name) for name, sign in SIGNS.items()), ("·", "to come"))


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
    _number("unchanged", "Same"),
    _number("skipped", "Skip"),
    _number("failed", "Fail"),
)
APPLY = Kind("type", "types", "resourceType", _APPLY, fields(_APPLY, type="resourceType"), "resourceType")
_PREVIEW = (
    _TYPE,
    _number("updated", "Change"),
    _number("unchanged", "Same"),
    _number("skipped", "Skip"),
    _number("failed", "Fail"),
    _number("examined", "Of")._replace(wide=True),
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
_OUTCOME = Column("what", "What", cell=lambda record: f"{record.get('what')}")
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
