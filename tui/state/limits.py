"""Times and sizes of the screens, which tests change."""

from dataclasses import dataclass

from client.operations import REREAD_SECONDS


@dataclass(slots=True)
class Limits:
    """Times in seconds and numbers of records."""

    reread_seconds: float = REREAD_SECONDS
    """Interval between reads of the shown data."""
    save_seconds: float = 10.0
    """How long a save of a policy waits for the response."""
    effect_seconds: float = 4.0
    """How long a review waits for the effect of a policy."""
    newest: int = 400
    """Entries of a log that are read at first. The number doubles on request."""
    page_size: int | None = None
    """Records of a page; None for the maximum."""
