"""Sets of places as integers: bit i of a mask is place i.

Boxes in a space of atoms: a mask for each coordinate. They are met, split, joined, and subtracted as sets.

A bound on the work of one author check: whoever exceeds it gets "undecided", never an endless wait.

A document may be a quarter of a megabyte, and what is cheap for each of its parts is not for each pair of them.
"""

from collections.abc import Iterable, Iterator

MAX_WORK_UNITS = 4_000_000
"""Units of about a quarter of a microsecond: one atom tried, one mask compared, one place of a box looked at."""


class OutOfBudget(Exception):
    """Too much work."""


class Budget:
    """What was spent so far."""

    def __init__(self, limit: int = MAX_WORK_UNITS) -> None:
        self.remaining = limit

    def consume(self, units: int) -> None:
        """Raises `OutOfBudget`; called before the work, so that nothing large is begun."""
        self.remaining -= units
        if self.remaining < 0:
            raise OutOfBudget


def indices(mask: int) -> Iterator[int]:
    """The places of a mask, in order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def mask_from(positions: Iterable[int], length: int) -> int:
    """The mask of some of `length` places; through bytes, as setting bits of a long integer copies it each time."""
    data = bytearray(length // 8 + 1)
    for position in positions:
        data[position >> 3] |= 1 << (position & 7)
    return int.from_bytes(data, "little")


Box = tuple[int, ...]


def intersection(left: Box, right: Box) -> Box | None:
    result = tuple(mask & other for mask, other in zip(left, right, strict=True))
    return result if all(result) else None


def difference(box: Box, cover: Box) -> Iterator[Box]:
    """Box minus cover: one coordinate at a time, the pieces do not overlap."""
    remainder = list(box)
    for axis, (mask, covered) in enumerate(zip(box, cover, strict=True)):
        outside = mask & ~covered
        if outside:
            yield (*remainder[:axis], outside, *remainder[axis + 1 :])
            remainder[axis] = mask & covered


def merge_boxes(boxes: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Join boxes that differ in one coordinate only, the last one first: fewer boxes, the same union."""
    result = list(dict.fromkeys(boxes))
    if len(result) < 2:
        return result
    for axis in reversed(range(len(result[0]))):
        joined: dict[tuple[int, ...], int] = {}
        for box in result:
            key = box[:axis] + box[axis + 1 :]
            joined[key] = joined.get(key, 0) | box[axis]
        result = [(*key[:axis], mask, *key[axis:]) for key, mask in joined.items()]
    return result


class BoxIndex:
    """Boxes to subtract, widest first, asked as sets: bit i of a set is box i.

    Every coordinate has few different masks, so that what meets or holds a box is one set for each of its masks,
    found once and kept, and the answer for the whole box their intersection.
    """

    def __init__(self, boxes: Iterable[Box], dimensions: int, budget: Budget) -> None:
        self.budget = budget
        # Widest first: one wide cover ends a search that many narrow ones would only split.
        self.boxes = sorted(set(boxes), key=_volume, reverse=True)
        self.all = (1 << len(self.boxes)) - 1
        # A set of boxes is as long as there are boxes.
        self.cost = 1 + len(self.boxes) // 1_024
        budget.consume(len(self.boxes) * dimensions * self.cost)
        self._by_mask: list[dict[int, int]] = [{} for _ in range(dimensions)]
        for number, box in enumerate(self.boxes):
            for axis, mask in enumerate(box):
                masks = self._by_mask[axis]
                masks[mask] = masks.get(mask, 0) | 1 << number
        self._overlapping: list[dict[int, int]] = [{} for _ in range(dimensions)]
        self._containing: list[dict[int, int]] = [{} for _ in range(dimensions)]

    def overlapping(self, box: Box, candidates: int) -> int:
        """Those that share a point with the box."""
        for axis, mask in enumerate(box):
            cache = self._overlapping[axis]
            if (matches := cache.get(mask)) is None:
                self.budget.consume(len(self._by_mask[axis]) * self.cost)
                matches = cache[mask] = union(numbers for other, numbers in self._by_mask[axis].items() if other & mask)
            candidates &= matches
            if not candidates:
                break
        return candidates

    def containing(self, box: Box, candidates: int) -> int:
        """Those that hold all of the box."""
        for axis, mask in enumerate(box):
            cache = self._containing[axis]
            if (matches := cache.get(mask)) is None:
                self.budget.consume(len(self._by_mask[axis]) * self.cost)
                matches = cache[mask] = union(
                    numbers for other, numbers in self._by_mask[axis].items() if other & mask == mask
                )
            candidates &= matches
            if not candidates:
                break
        return candidates


def union(sets: Iterable[int]) -> int:
    result = 0
    for bits in sets:
        result |= bits
    return result


def _volume(box: Box) -> int:
    """How many points a box holds."""
    size = 1
    for mask in box:
        size *= mask.bit_count()
    return size
