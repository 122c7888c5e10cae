"""What the platform says of the draft while it is typed. The newest text wins, always.

One question at a time: each change gets the next number, ends the question before, waits a little in case more
is being typed, and asks. An answer that comes under an older number is dropped, of whichever panel it is, so
that a slow one never stands over a newer one.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, Protocol

from client.errors import FrostError
from tui.editor.request import Request
from tui.workspace import Workspace

SHORTEST, LONGEST = 0.015, 0.1
"""Bounds of the wait before a question, in seconds. In between it is a quarter of what the last answer took."""
LARGEST = 256 * 1024
"""Bytes of a document the platform reads (checklist O36); a larger one is not sent with every key."""


class Answer(NamedTuple):
    """What was said about the draft of a number. Kinds: verdict, coverage, check, problems, failure."""

    number: int
    kind: str
    content: Any


class Spawn(Protocol):
    """Runs a question in place of the one before, which may not even have begun."""

    def __call__(self, work: Callable[[], Coroutine[None, None, None]], /) -> None: ...


class Live:
    """Asks about drafts.

    Args:
        tell: Called with each answer to the newest draft, in the event loop.
        spawn: Runs a question and ends the one before.
    """

    def __init__(
        self,
        workspace: Workspace,
        tenant_id: str,
        policy_id: str,
        version: int,
        *,
        tell: Callable[[Answer], None],
        spawn: Spawn,
    ) -> None:
        self.workspace = workspace
        self.tenant_id = tenant_id
        self.policy_id = policy_id
        self.version = version
        """What drafts are compared with: a version of a stored policy, or of none."""
        self.number = 0
        """Of the newest draft."""
        self.took = 0.0
        """Seconds the last verdict took."""
        self._tell = tell
        self._spawn = spawn

    def ask(self, text: str, request: Request, *, at_once: bool = False) -> int:
        """Ask about a draft; its number."""
        self.number += 1
        self._spawn(partial(self._ask, self.number, text, request, 0.0 if at_once else self.pause))
        return self.number

    @property
    def pause(self) -> float:
        """Seconds to wait for more typing: longer where answers take longer."""
        return min(max(self.took / 4, SHORTEST), LONGEST)

    async def _ask(self, number: int, text: str, request: Request, pause: float) -> None:
        await asyncio.sleep(pause)
        size = len(text.encode(errors="replace"))
        if size > LARGEST:
            reason = f"{size:,} bytes are too many: a policy document has at most {LARGEST:,}"
            self._told(number, "problems", [{"path": "$", "line": 1, "column": 1, "reason": reason}])
            return
        begun = time.monotonic()
        tenant, facts = self.tenant_id, request.facts
        try:
            if request.operation:
                verdict = await self.workspace.ask(
                    lambda client: client.trials.simulate(
                        tenant, text, request.operation, request.target, facts, as_author=request.as_author
                    )
                )
                self.took = time.monotonic() - begun
                self._told(number, "verdict", verdict)
        except FrostError as error:
            self._told(number, "failure", error)
            if error.code == "INVALID_POLICY_DOCUMENT" or not error.status:
                return
        # A request that cannot be tried is no reason to say nothing about the document.
        await asyncio.gather(self._map(number, text), self._check(number, text))

    async def _map(self, number: int, text: str) -> None:
        """What the draft gives whatever the request is: one made up for a trial says nothing of what saving changes."""
        compare = {"policyId": self.policy_id, "version": self.version} if self.policy_id else None
        try:
            answer = await self.workspace.ask(
                lambda client: client.trials.coverage(
                    self.tenant_id, text, facts={"currentTime": None}, compare=compare
                )
            )
            self._told(number, "coverage", answer)
        except FrostError as error:
            self._told(number, "failure", error)

    async def _check(self, number: int, text: str) -> None:
        try:
            answer = await self.workspace.ask(lambda client: client.trials.check(self.tenant_id, text))
            self._told(number, "check", answer)
        except FrostError as error:
            self._told(number, "failure", error)

    def _told(self, number: int, kind: str, content: Any) -> None:
        if number == self.number:
            self._tell(Answer(number, kind, content))
