"""The time zone of `TZ`. The C library takes an unknown one for UTC without an error."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping

from client.text import safe

_FOLDERS = ("/usr/share/zoneinfo", "/usr/lib/zoneinfo", "/share/zoneinfo", "/etc/zoneinfo")
_NAME = r"([A-Za-z]{3,}|<[A-Za-z0-9+-]{3,}>)"
_RULE = rf"{_NAME}[+-]?[0-9]{{1,3}}(:[0-9]{{2}}){{0,2}}({_NAME}.*)?"
"""A zone with an offset (POSIX 8.3), such as `CET-1CEST,M3.5.0,M10.5.0/3`."""


def unknown_zone_notice(environ: Mapping[str, str] = os.environ) -> str:
    """Return a notice if `TZ` names an unknown time zone; empty otherwise."""
    zone = environ.get("TZ", "").removeprefix(":")
    if not zone or zone in ("UTC", "UTC0", "GMT", "GMT0") or re.fullmatch(_RULE, zone):
        return ""
    folders = (environ.get("TZDIR") or _FOLDERS[0], *_FOLDERS)
    # An absolute name ignores the folder. A zone with an offset is known to the C library from another folder.
    is_known = any(os.path.isfile(os.path.join(folder, zone)) for folder in folders)  # noqa: PTH113, PTH118
    if is_known or time.timezone or time.daylight:
        return ""
    return f"TZ {safe(zone, 60)!r} is not a known time zone: local time is UTC"
