"""Readiness is checked once a second, however often it is requested."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from itertools import count
from typing import cast

import pytest
import uvicorn

from service.http_server.protocol import HttpProtocol
from service.readiness_cache import MAX_AGE_SECONDS, REPEAT_SECONDS, Checks, ReadinessCache
from service.server import Server
from service.start_signals import StartSignals
from tests.service.inside import Inside
from tests.waiting import until


def test_a_result_is_kept_for_a_moment() -> None:
    now, numbers = 0.0, count()
    cache = ReadinessCache(lambda: now)

    def check() -> dict[str, str]:
        return {"number": str(next(numbers))}

    assert [cache.get(check)["number"] for _ in range(3)] == ["0", "0", "0"]
    now += MAX_AGE_SECONDS
    assert cache.get(check) == {"number": "1"}


@pytest.fixture
def go_on() -> Iterator[threading.Event]:
    """Lets checks end that hang; it is set at the end of a test."""
    event = threading.Event()
    yield event
    event.set()


def test_the_first_checks_are_not_waited_for(go_on: threading.Event) -> None:
    began = time.monotonic()
    assert asyncio.run(ReadinessCache().get_soon(lambda: {"went_on": str(go_on.wait(30))})) is None
    assert time.monotonic() - began < 20


def test_an_answer_does_not_wait_for_repeated_checks(go_on: threading.Event) -> None:
    now = 0.0
    cache = ReadinessCache(lambda: now)

    def hang() -> dict[str, str]:
        go_on.wait(60)
        return {"number": "2"}

    async def ask() -> Mapping[str, str] | None:
        """Return the answer of a coroutine that does not wait."""
        with pytest.raises(StopIteration) as end:
            cache.get_soon(hang).send(None)
        return cast("Mapping[str, str] | None", end.value.value)

    assert asyncio.run(cache.get_soon(lambda: {"number": "1"})) == {"number": "1"}
    now = 9.0
    cache.repeat(hang)
    assert asyncio.run(ask()) == {"number": "1"}
    go_on.set()
    until(lambda: asyncio.run(ask()) == {"number": "2"})


def test_checks_are_repeated_while_they_or_the_server_are_used() -> None:
    now, starts = 0.0, []

    class Counted(ReadinessCache):
        def refresh(self, checks: Callable[[], Checks]) -> Future[Checks]:
            starts.append(now)
            return super().refresh(checks)

    cache = Counted(lambda: now)
    cache.repeat(dict)
    assert starts == []
    asyncio.run(cache.get_soon(dict))
    for now in (0.5, 1.0, REPEAT_SECONDS - 0.1, REPEAT_SECONDS):  # noqa: B007 - read by the clock
        cache.repeat(dict)
        cache.get(dict)
    assert starts == [0.0, 1.0, REPEAT_SECONDS - 0.1]
    for now in (REPEAT_SECONDS + 4, REPEAT_SECONDS + 5):  # noqa: B007 - read by the clock
        cache.repeat(dict, is_in_use=True)
    assert starts[3:] == [REPEAT_SECONDS + 5]


def test_a_server_starts_the_checks_and_a_repeated_request_needs_no_statement(inside: Inside) -> None:
    config = uvicorn.Config(inside.app, http=HttpProtocol, lifespan="off", log_config=None)
    state = inside.app.state

    async def start() -> None:
        server = Server(config, inside.platform, state.worker, state.idle_tracker, state.admission, StartSignals())
        config.load()
        server.lifespan = config.lifespan_class(config)
        await server.startup([])
        await asyncio.to_thread(state.worker.stop)

    asyncio.run(start())
    until(lambda: any("audit_head" in statement for statement in inside.statements))
    until(lambda: inside.get("/readyz", {}).status_code == 200)

    def is_repeated_without_a_statement() -> bool:
        inside.forget()
        assert inside.get("/readyz", {}).json()["status"] == "ok"
        return inside.statements == []

    until(is_repeated_without_a_statement)  # a busy machine may repeat the checks between two requests
