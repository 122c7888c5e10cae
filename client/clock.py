"""The client's clock: the system's, or the instant that `FROST_CLOCK` names (pictures and tests)."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from client.errors import usage


def now() -> datetime:
    """The present as an aware UTC time; with `FROST_CLOCK` (RFC 3339) set, time stands still there."""
    fixed = os.environ.get("FROST_CLOCK")
    if not fixed:
        return datetime.now(UTC)
    try:
        instant = datetime.fromisoformat(fixed)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise usage(f"FROST_CLOCK is not an RFC 3339 instant: {fixed!r}")
    return instant.astimezone(UTC)
