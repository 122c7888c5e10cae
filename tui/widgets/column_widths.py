"""How wide the columns of a list are: made for the texts there are and the space there is."""

from typing import Any

from client.records import Column
from client.text import safe, width
from tui.record_view import RecordView

SAMPLE = 200  # records whose texts decide how wide a column is
GAP = 2  # blanks between columns
NARROWEST = 8  # a column that must give way keeps this many cells
READABLE = 12  # cells below which a cut column says too little to be kept beside others
LONGEST_FIRST = 24  # cells the first column may take even where that is more than its share
FEWEST = 2  # columns that stay whatever the width


def fitted(view: RecordView, space: int) -> list[tuple[Column, int]]:
    """Columns and widths for the space there is: the widest give way first, then the last ones go."""
    if space <= 0:
        return []
    wanted = _wanted(view)
    # One very long name must not push everything else out, unless it is of no use when cut.
    if not wanted[0][0].whole:
        wanted[0][1] = min(wanted[0][1], max(LONGEST_FIRST, space * 2 // 5))
    while wanted and sum(min(cells, NARROWEST) + GAP for _, cells in wanted) - GAP > space:
        wanted.pop()
    # A column of the wide kind is shown only where every other column has its full width.
    while len(wanted) > 1 and wanted[-1][0].wide and sum(cells + GAP for _, cells in wanted) - GAP > space:
        wanted.pop()
    while (over := sum(cells + GAP for _, cells in wanted) - GAP - space) > 0:
        # A time or an id says nothing when it is cut: other columns give way.
        giving = [pair for pair in wanted[1:] if not pair[0].whole and pair[1] > READABLE]
        giving = giving or [pair for pair in wanted[1:] if pair[0].yields and pair[1] > NARROWEST]
        # The first column says which record it is: it is cut only when the others have nothing left to give.
        if not giving and len(wanted) > FEWEST:
            wanted.pop()
            continue
        widest = max(giving or wanted[1:], key=lambda pair: pair[1], default=wanted[0])
        # One that is of no use when cut (the name of an operation) is cut only when the last other one is at its end.
        kept = wanted[0][0].whole and widest is not wanted[0] and widest[1] > NARROWEST
        if not giving and not kept and wanted[0][1] > NARROWEST:
            widest = wanted[0]
        widest[1] = max(NARROWEST, widest[1] - min(over, max(1, widest[1] // 8)))
    return [(column, cells) for column, cells in wanted]


def _wanted(view: RecordView) -> list[list[Any]]:
    """Each column with the cells it would like, by a sample of the records."""
    sample = range(min(len(view), SAMPLE))
    wanted: list[list[Any]] = []
    for place, column in enumerate(view.columns):
        # A column that says nothing takes no room; the first one names the record, and the order must show its column.
        if place and column is not view.sort_column and view.is_unknown(column):
            continue
        texts = (width(safe(column.text(view[position]))) for position in sample)
        wanted.append([column, max(width(column.title) + 2, *texts) if len(sample) else width(column.title) + 2])
    return wanted
