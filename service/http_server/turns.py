"""The order in which requests start. Event loop only.

A request costs the event loop more than its arrival, so a client with many connections would delay all others. Each
request therefore has a lane, and the lanes take turns:

| kind | lane | starts in an iteration of the event loop: at once, after waiting |
| --- | --- | --- |
| reserved: health, discovery, sign-in | network | 4, 2 |
| accepted: a credential that was accepted recently; the unix socket | person or workload; peer process | 16, 2 |
| pipelined: the same, behind another request of the connection | person or workload | 1, 1 |
| unknown: other requests | network | 1, 1 |

A request starts at once if its lane has started none in the iteration. Requests of an accepted lane that has been alone
for a second start by `STARTS_ALONE`, because more requests in an iteration cost less each. A lane runs at most
`MAX_PIPELINED` pipelined requests, which so leave the queues of work to the other requests of the same person.
"""

import asyncio
import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping
from enum import StrEnum
from typing import NamedTuple

logger = logging.getLogger(__name__)

MAX_PIPELINED = 4
SHARED_SECONDS = 1.0
STARTS_ALONE = 16


class Kind(StrEnum):
    RESERVED = "reserved"
    ACCEPTED = "accepted"
    PIPELINED = "pipelined"
    UNKNOWN = "unknown"


class Starts(NamedTuple):
    """Requests that may start in an iteration of the event loop."""

    at_once: int
    waiting: int


STARTS: Mapping[Kind, Starts] = {
    Kind.RESERVED: Starts(4, 2),
    Kind.ACCEPTED: Starts(16, 2),
    Kind.PIPELINED: Starts(1, 1),
    Kind.UNKNOWN: Starts(1, 1),
}


class Lane(NamedTuple):
    kind: Kind
    key: Hashable
    """A person, a workload, a network or a process."""


class Turn:
    """The start of a request.

    Args:
        start: starts the request.
        fail: answers the request if `start` raises.
    """

    __slots__ = ("_fail", "_start", "_turns", "lane")

    def __init__(self, turns: "Turns", lane: Lane, start: Callable[[], None], fail: Callable[[], None]) -> None:
        self.lane = lane
        self._turns: Turns | None = turns
        self._start: Callable[[], None] | None = start
        self._fail: Callable[[], None] | None = fail

    def run(self) -> None:
        """Start the request, once. An exception must stop neither the lane nor the event loop."""
        # The scope of the request refers to its turn: the turn must not refer to the request afterwards.
        start, self._start = self._start, None
        fail, self._fail = self._fail, None
        assert start is not None
        assert fail is not None
        try:
            start()
        except Exception:
            logger.exception("a request could not be started")
            self.end()
            fail()

    @property
    def is_withdrawn(self) -> bool:
        return self._start is None

    def withdraw(self) -> None:
        """Drop a request whose connection was lost while it waited. Nothing happens once it has started."""
        if self._start is not None:
            self._start = self._fail = self._turns = None

    def end(self) -> None:
        """Let the lane go on after a pipelined request. Idempotent."""
        turns, self._turns = self._turns, None
        if turns is not None:
            turns.end(self.lane)


class Turns:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._latest: Lane | None = None
        self._shared_until = 0.0
        self._waiting: Mapping[Kind, OrderedDict[Hashable, deque[Turn]]] = {kind: OrderedDict() for kind in Kind}
        """By lane, least recently served first."""
        self._started: Mapping[Kind, Counter[Hashable]] = {kind: Counter() for kind in Kind}
        """The requests of each lane that have started at once in this iteration."""
        self._pipelined: Counter[Hashable] = Counter()
        self._is_scheduled = False

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return sum(len(queue) for lanes in self._waiting.values() for queue in lanes.values())

    def add(self, turn: Turn) -> None:
        """Start a request at once or in turn. The caller ends the turn of a pipelined request."""
        lane = turn.lane
        started, waiting = self._started[lane.kind], self._waiting[lane.kind]
        if lane != self._latest and lane.kind is not Kind.RESERVED:
            self._latest, self._shared_until = lane, self._clock() + SHARED_SECONDS
        most = STARTS_ALONE if self._is_alone(lane.kind) else 1
        is_first = lane.key not in waiting and started[lane.key] < most
        self._schedule()
        if is_first and len(started) < STARTS[lane.kind].at_once and self._may_run(lane):
            started[lane.key] += 1
            self._run(turn)
        else:
            waiting.setdefault(lane.key, deque()).append(turn)

    def end(self, lane: Lane) -> None:
        if lane.kind is Kind.PIPELINED:
            self._pipelined[lane.key] -= 1
            if not self._pipelined[lane.key]:
                del self._pipelined[lane.key]
            self._schedule()

    def _is_alone(self, kind: Kind) -> bool:
        return kind is Kind.ACCEPTED and self._clock() >= self._shared_until

    def _may_run(self, lane: Lane) -> bool:
        return lane.kind is not Kind.PIPELINED or self._pipelined[lane.key] < MAX_PIPELINED

    def _run(self, turn: Turn) -> None:
        if turn.lane.kind is Kind.PIPELINED:
            self._pipelined[turn.lane.key] += 1
        turn.run()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin_iteration)

    def _begin_iteration(self) -> None:
        self._is_scheduled = False
        for started in self._started.values():
            started.clear()
        try:
            for kind, starts in STARTS.items():
                for _ in range(STARTS_ALONE if self._is_alone(kind) else starts.waiting):
                    self._start_waiting(kind)
        finally:
            if any(self._next(kind) is not None for kind in Kind):
                self._schedule()

    def _start_waiting(self, kind: Kind) -> None:
        """Start the next request. Withdrawn ones do not count, so that lost connections delay nobody."""
        lanes = self._waiting[kind]
        while (key := self._next(kind)) is not None:
            turn = lanes[key].popleft()
            lanes.move_to_end(key)
            if not lanes[key]:
                del lanes[key]
            if not turn.is_withdrawn:
                self._run(turn)
                return

    def _next(self, kind: Kind) -> Hashable:
        """Return the lane whose turn it is. Lanes with enough pipelined requests have none until one of these ends."""
        return next((key for key in self._waiting[kind] if self._may_run(Lane(kind, key))), None)
