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
        self.left = limit

    def spend(self, units: int) -> None:
        """Raises `OutOfBudget`; called before the work, so that nothing large is begun."""
        self.left -= units
        if self.left < 0:
            raise OutOfBudget


def indices(mask: int) -> Iterator[int]:
    """The places of a mask, in order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def mask_from(places: Iterable[int], length: int) -> int:
    """The mask of some of `length` places; through bytes, as setting bits of a long integer copies it each time."""
    data = bytearray(length // 8 + 1)
    for place in places:
        data[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(data, "little")


Box = tuple[int, ...]


def intersection(one: Box, other: Box) -> Box | None:
    both = tuple(mine & theirs for mine, theirs in zip(one, other, strict=True))
    return both if all(both) else None


def difference(box: Box, cover: Box) -> Iterator[Box]:
    """Box minus cover: one coordinate at a time, the pieces do not overlap."""
    rest = list(box)
    for place, (mine, other) in enumerate(zip(box, cover, strict=True)):
        outside = mine & ~other
        if outside:
            yield (*rest[:place], outside, *rest[place + 1 :])
            rest[place] = mine & other


def merge_boxes(boxes: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Join boxes that differ in one coordinate only, the last one first: fewer boxes, the same union."""
    found = list(dict.fromkeys(boxes))
    if len(found) < 2:
        return found
    for place in reversed(range(len(found[0]))):
        joined: dict[tuple[int, ...], int] = {}
        for box in found:
            key = box[:place] + box[place + 1 :]
            joined[key] = joined.get(key, 0) | box[place]
        found = [(*key[:place], mask, *key[place:]) for key, mask in joined.items()]
    return found


class BoxIndex:
    """Boxes to subtract, widest first, asked as sets: bit i of a set is box i.

    Every coordinate has few different masks, so that what meets or holds a box is one set for each of its masks,
    found once and kept, and the answer for the whole box their intersection.
    """

    def __init__(self, boxes: Iterable[Box], coordinates: int, work: Budget) -> None:
        self.work = work
        # Widest first: one wide cover ends a search that many narrow ones would only split.
        self.boxes = sorted(set(boxes), key=_size, reverse=True)
        self.all = (1 << len(self.boxes)) - 1
        # A set of boxes is as long as there are boxes.
        self.cost = 1 + len(self.boxes) // 1_024
        work.spend(len(self.boxes) * coordinates * self.cost)
        self._by_mask: list[dict[int, int]] = [{} for _ in range(coordinates)]
        for number, box in enumerate(self.boxes):
            for place, mask in enumerate(box):
                masks = self._by_mask[place]
                masks[mask] = masks.get(mask, 0) | 1 << number
        self._meeting: list[dict[int, int]] = [{} for _ in range(coordinates)]
        self._holding: list[dict[int, int]] = [{} for _ in range(coordinates)]

    def meeting(self, box: Box, among: int) -> int:
        """Those that share a point with the box."""
        for place, mask in enumerate(box):
            kept = self._meeting[place]
            if (found := kept.get(mask)) is None:
                self.work.spend(len(self._by_mask[place]) * self.cost)
                found = kept[mask] = union(covers for other, covers in self._by_mask[place].items() if other & mask)
            among &= found
            if not among:
                break
        return among

    def holding(self, box: Box, among: int) -> int:
        """Those that hold all of the box."""
        for place, mask in enumerate(box):
            kept = self._holding[place]
            if (found := kept.get(mask)) is None:
                self.work.spend(len(self._by_mask[place]) * self.cost)
                found = kept[mask] = union(
                    covers for other, covers in self._by_mask[place].items() if other & mask == mask
                )
            among &= found
            if not among:
                break
        return among


def union(sets: Iterable[int]) -> int:
    found = 0
    for one in sets:
        found |= one
    return found


def _size(box: Box) -> int:
    """How many points a box holds."""
    size = 1
    for mask in box:
        size *= mask.bit_count()
    return size
