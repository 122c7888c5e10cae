"""Sets of small integers as bit masks, boxes of masks, and a work budget.

A box has a mask for each dimension and contains the points with all coordinates in the masks. Loops over pairs consume
the budget, because a document of 256 KB has too many pairs.
"""

from collections.abc import Iterable, Iterator

MAX_WORK_UNITS = 4_000_000
"""Units of about 0.25 µs: test an atom, compare two masks, read one dimension of a box."""


class OutOfBudget(Exception):
    """The budget is used up."""


class Budget:
    def __init__(self, limit: int = MAX_WORK_UNITS) -> None:
        self.remaining = limit

    def consume(self, units: int) -> None:
        """Consume units before the work. Raises `OutOfBudget`."""
        self.remaining -= units
        if self.remaining < 0:
            raise OutOfBudget


def indices(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def mask_from(positions: Iterable[int], length: int) -> int:
    """Return the mask of positions. A byte array avoids copying a long integer for each bit."""
    data = bytearray(length // 8 + 1)
    for position in positions:
        data[position >> 3] |= 1 << (position & 7)
    return int.from_bytes(data, "little")


Box = tuple[int, ...]


def intersection(left: Box, right: Box) -> Box | None:
    """Return the intersection of two boxes; None if it is empty."""
    result = tuple(mask & other for mask, other in zip(left, right, strict=True))
    return result if all(result) else None


def difference(box: Box, cover: Box) -> Iterator[Box]:
    """Yield disjoint boxes whose union is `box` without `cover`."""
    remainder = list(box)
    for axis, (mask, cover_mask) in enumerate(zip(box, cover, strict=True)):
        outside = mask & ~cover_mask
        if outside:
            yield (*remainder[:axis], outside, *remainder[axis + 1 :])
            remainder[axis] = mask & cover_mask


def merge_boxes(boxes: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Join boxes that differ in one dimension only."""
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
    """Boxes to subtract. A set of boxes is a mask: bit i is box i.

    The boxes have few different masks in each dimension. For each mask, the boxes that overlap or contain it are
    computed once; those of a whole box are the intersection over its dimensions.
    """

    def __init__(self, boxes: Iterable[Box], dimensions: int, budget: Budget) -> None:
        self.budget = budget
        # A large box may end a search that small boxes only split.
        self.boxes = sorted(set(boxes), key=_volume, reverse=True)
        self.all = (1 << len(self.boxes)) - 1
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
    size = 1
    for mask in box:
        size *= mask.bit_count()
    return size
