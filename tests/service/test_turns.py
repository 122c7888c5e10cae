"""The order in which requests start, without a server."""

import asyncio
import gc
import weakref
from collections.abc import Callable

import pytest

from service.http_server.turns import MAX_PIPELINED, SHARED_SECONDS, STARTS, STARTS_ALONE, Kind, Lane, Turn, Turns


def nothing() -> None:
    """The answer to a request that did not start, for tests in which all start."""


class Start:
    """Adds requests that note their start."""

    def __init__(self) -> None:
        self.now = 0.0
        self.turns = Turns(lambda: self.now)
        self.started: list[str] = []
        self.added: list[Turn] = []

    def add(self, kind: Kind, key: str, number: int = 1) -> None:
        for _ in range(number):
            turn = Turn(self.turns, Lane(kind, key), lambda: self.started.append(key), nothing)
            self.added.append(turn)
            self.turns.add(turn)


async def iterations(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def test_a_client_with_many_connections_does_not_delay_the_first_request_of_another() -> None:
    start = Start()
    start.add(Kind.ACCEPTED, "flood", 100)
    start.add(Kind.ACCEPTED, "other")
    assert start.started == ["flood", "other"]
    start.add(Kind.ACCEPTED, "other", 2)
    await iterations(1)
    # The lanes take turns.
    assert start.started[2:] == ["flood", "other"][: STARTS[Kind.ACCEPTED].waiting]
    await iterations(100)
    assert (start.started.count("flood"), start.started.count("other"), len(start.turns)) == (100, 3, 0)


async def test_requests_of_lost_connections_keep_nothing_and_use_no_start() -> None:
    start = Start()
    start.add(Kind.UNKNOWN, "network", 1_000)
    for turn in start.added[1:]:
        turn.withdraw()
        turn.end()
    start.add(Kind.UNKNOWN, "network")
    start.add(Kind.PIPELINED, "person", MAX_PIPELINED + 2)
    for turn in start.added[-2:]:  # these wait for the others of the person
        turn.withdraw()
        turn.end()
    await iterations(MAX_PIPELINED + 2)
    assert start.started.count("network") == 2
    assert (start.started.count("person"), len(start.turns)) == (MAX_PIPELINED, 2)
    start.added[0].withdraw()  # a request that has started goes on
    assert start.started.count("network") == 2


async def test_a_client_that_is_alone_starts_many_requests_in_an_iteration() -> None:
    start = Start()
    start.add(Kind.ACCEPTED, "only")
    start.now = SHARED_SECONDS
    await iterations(1)
    # Health checks do not count.
    start.add(Kind.RESERVED, "health")
    start.add(Kind.ACCEPTED, "only", 3 * STARTS_ALONE)
    assert start.started.count("only") == 1 + STARTS_ALONE
    await iterations(1)
    assert start.started.count("only") == 1 + 2 * STARTS_ALONE
    start.add(Kind.ACCEPTED, "other")
    await iterations(1)
    assert start.started.count("only") == 1 + 2 * STARTS_ALONE + STARTS[Kind.ACCEPTED].waiting


async def test_accepted_credentials_start_before_unknown_clients_of_many_networks() -> None:
    start = Start()
    for number in range(50):
        start.add(Kind.UNKNOWN, f"network {number}", 5)
    start.add(Kind.RESERVED, "sign-in")
    start.add(Kind.ACCEPTED, "known")
    assert start.started == ["network 0", "sign-in", "known"]
    before = len(start.started)
    start.add(Kind.ACCEPTED, "known", 4)
    await iterations(2)
    assert start.started[before:].count("known") == 4
    assert sum(key.startswith("network") for key in start.started[before:]) == 2


async def test_pipelined_requests_of_a_person_leave_places_to_the_others() -> None:
    start = Start()
    start.add(Kind.PIPELINED, "ada", 40)
    await iterations(60)
    assert start.started == ["ada"] * MAX_PIPELINED
    start.add(Kind.PIPELINED, "bob")
    start.add(Kind.ACCEPTED, "ada")
    await iterations(5)
    assert start.started[MAX_PIPELINED:] == ["bob", "ada"]
    for turn in start.added:
        turn.end()
        turn.end()
        await iterations(3)
    assert (start.started.count("ada"), len(start.turns)) == (41, 0)
    assert not start.turns._pipelined


@pytest.mark.parametrize("kind", list(Kind))
async def test_a_request_that_cannot_start_is_answered_and_the_later_ones_of_its_lane_start(kind: Kind) -> None:
    start, answered = Start(), []

    def fail() -> None:
        raise RuntimeError("no task")

    def refuse(action: Callable[[], None]) -> None:
        start.turns.add(Turn(start.turns, Lane(kind, "ada"), fail, action))

    refuse(lambda: answered.append(1))
    refuse(lambda: answered.append(2))
    start.add(kind, "ada")
    # Even if it cannot be answered.
    refuse(fail)
    start.add(kind, "ada")
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    await iterations(20)
    assert (answered, start.started, len(start.turns)) == ([1, 2], ["ada", "ada"], 0)


class Request:
    """A request whose scope refers to its turn."""

    def __init__(self, turns: Turns, lane: Lane) -> None:
        self.turn = Turn(turns, lane, self.start, self.start)

    def start(self) -> None:
        pass


@pytest.mark.parametrize("kind", list(Kind))
async def test_a_request_that_has_started_is_freed_without_the_garbage_collector(kind: Kind) -> None:
    turns = Turns()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        request = Request(turns, Lane(kind, "ada"))
        turns.add(request.turn)
        request.turn.end()
        reference = weakref.ref(request)
        del request
        assert reference() is None
    finally:
        if was_enabled:
            gc.enable()
