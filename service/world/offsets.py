"""Times of a world are written relative to the instant it is loaded, so that a fresh world looks alive."""

import re
from datetime import timedelta
from functools import cache

OFFSET = re.compile(r"([+-])(?=\d)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)


@cache
def offset(text: str) -> timedelta:
    """The distance `-40d`, `-2h30m` or `+300d` names; `now` is none.

    Raises ValueError for any other text, also for one that leaves the range of a date.
    """
    if text == "now":
        return timedelta()
    found = OFFSET.fullmatch(text)
    if not found:
        raise ValueError(f"not an offset like -40d or +2h30m: {text!r}")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
    try:
        distance = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError as error:
        raise ValueError(f"offset is too far: {text!r}") from error
    return -distance if found[1] == "-" else distance
