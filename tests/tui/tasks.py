"""Tasks by name, as the application spawns them."""

import asyncio

from tui.state.event_stream import Work


class Tasks:
    """Run the work of each name in one task; other work, or none, cancels it."""

    def __init__(self) -> None:
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def spawn(self, name: str, work: Work | None) -> None:
        if name in self.tasks:
            self.tasks.pop(name).cancel()
        if work is not None:
            self.tasks[name] = asyncio.ensure_future(work())
