"""Sets of places as integers: bit i of a mask is place i."""

from collections.abc import Iterable, Iterator


def places_in(mask: int) -> Iterator[int]:
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
