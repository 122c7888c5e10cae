"""The writes and deletions of draft files, with their threads."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tui.state import drafts


def recorded_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, threading.Thread]]:
    """Record the calls of `drafts.keep` and `drafts.drop`, which still do their work."""
    calls: list[tuple[str, threading.Thread]] = []

    def recording(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            calls.append((name, threading.current_thread()))
            return function(*arguments)

        return call

    for name in ("keep", "drop"):
        monkeypatch.setattr(drafts, name, recording(name, getattr(drafts, name)))
    return calls
