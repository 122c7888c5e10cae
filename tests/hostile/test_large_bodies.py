"""Large bodies and CPU-heavy requests of one caller are bounded; cursors have no state on the platform."""

import asyncio
import gc
import itertools
import json
import socket
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from sqlalchemy import func, select
from starlette.requests import Request

from client.models import strict_json
from service.api import request_body
from service.api.request_body import MAX_VALUES
from service.db.tables import metadata
from service.errors import ApiError
from service.http_server.bodies import MAX_WAITING_BODIES_PER_SENDER, LargeBodyLimiter
from service.http_server.request_metrics import Rejections
from service.iam.policy_documents import split
from tests.hostile.world import IAM, World
from tests.people import OWNER, VIEWER, WEB_SHOP
from tests.service.account import Key
from tests.service.running import Running

KEYS = f"/api/v1/tenants/{WEB_SHOP}/api-keys"
MANY = 200_000


def test_while_eight_large_bodies_are_read_another_caller_is_answered(own: Running) -> None:
    body, answered = b'{"name":"abc","scopes":[' + b"1," * MANY + b"1]}", 0
    headers = {"Authorization": f"Bearer {own.token(VIEWER)}", "Content-Type": "application/json"}
    own.token(OWNER)
    with ThreadPoolExecutor(8) as threads:
        answers = [threads.submit(own.request, "POST", KEYS, headers, body) for _ in range(8)]
        while not all(answer.done() for answer in answers):
            assert own.get("/api/v1/me", as_=OWNER).status == 200
            answered += 1
    assert [answer.result().status for answer in answers] == [400] * 8
    assert answered > 9, "parsed on the event loop, at most one answer comes between two bodies"


def test_a_body_of_too_many_values_is_refused(world: World) -> None:
    headers = {**world.session(VIEWER), "Content-Type": "application/json"}

    async def error_of(content: str) -> Any:
        async with world.client() as client:
            return (await client.post(KEYS, headers=headers, content=content)).json()["error"]

    for element in ("1", '"a"', "[]", "{}", '{"a":1}'):
        values = ",".join([element] * (MAX_VALUES + 1))
        whole = asyncio.run(error_of(f'{{"scopes":[{values}]}}'))
        assert whole["details"] == {"reason": "too_many_values", "max": MAX_VALUES}, element
        broken = f'{{"scopes":[{values},]}}'
        place = f"expected a value (line 1, column {len(broken) - 1}, at $.scopes[{MAX_VALUES + 1}])"
        assert asyncio.run(error_of(broken))["message"] == f"invalid request body: {place}"
    # Commas in texts are not values.
    text = json.dumps({"name": "commas", "description": "," * (2 * MAX_VALUES), "scopes": []})
    assert asyncio.run(error_of(text))["details"].get("reason") != "too_many_values"
    members = ",".join(f'"m{number}":1' for number in range(MAX_VALUES + 1))
    with pytest.raises(ApiError, match="more than"):
        split(f"{{{members}}}")


WAIT_SECONDS = 60


class Gate:
    """Replaces a function: its calls wait until `opened` is set. `most` is the largest number of calls at a time."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.inside = self.most = 0
        self.is_full, self.opened, self._lock = threading.Event(), threading.Event(), threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        self._enter(1)
        self.is_full.set()
        self.opened.wait(WAIT_SECONDS)
        self._enter(-1)
        return self.function(*arguments)

    def _enter(self, step: int) -> None:
        with self._lock:
            self.inside += step
            self.most = max(self.most, self.inside)


def test_of_a_body_with_many_errors_the_first_is_reported() -> None:
    class Field:
        def validate(self, value: Any, *, loc: tuple[int | str, ...]) -> tuple[Any, list[Any]]:
            assert threading.current_thread() is not threading.main_thread()
            return None, [{"loc": (*loc, "scopes", number), "type": "x", "msg": "x"} for number in range(3)]

    body = b'{"scopes":[' + b"1," * request_body.MAX_VALUES_ON_EVENT_LOOP + b"1]}"

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = [(b"content-type", b"application/json")]
    request = Request({"type": "http", "method": "POST", "headers": headers}, receive)
    with pytest.raises(RequestValidationError) as caught:
        asyncio.run(request_body.read_body(request, Field()))
    assert [error["loc"] for error in caught.value.errors()] == [("body", "scopes", 0)]


def test_large_bodies_are_parsed_one_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, description = Gate(strict_json.loads), "x" * (request_body.LARGE_BODY_BYTES + 1)
    body = json.dumps({"name": "n", "description": description, "scopes": ["compute:read"]})
    owner, viewer = ({**world.session(email), "Content-Type": "application/json"} for email in (OWNER, VIEWER))

    async def scene() -> tuple[list[int], int]:
        async with world.client() as client:
            sent = [
                asyncio.create_task(client.post(KEYS, headers=owner, content=body))
                for _ in range(1 + MAX_WAITING_BODIES_PER_SENDER + 3)
            ]
            sent.append(asyncio.create_task(client.post(KEYS, headers=viewer, content=body)))
            await asyncio.to_thread(gate.is_full.wait, WAIT_SECONDS)
            small = await client.get("/api/v1/me", headers=viewer)
            for refused in itertools.islice(asyncio.as_completed(sent), 3):
                await refused
            gate.opened.set()
            return [answer.status_code for answer in await asyncio.gather(*sent)], small.status_code

    monkeypatch.setattr(strict_json, "loads", gate)
    statuses, small = asyncio.run(scene())
    assert small == 200
    assert Counter(statuses) == {400: 2 + MAX_WAITING_BODIES_PER_SENDER, 503: 3}
    assert gate.most == 1


def test_after_a_large_body_the_next_waits_as_long_as_it_took() -> None:
    now, slept = [0.0], []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    async def scene() -> None:
        bodies = LargeBodyLimiter(Rejections(), clock=lambda: now[0], sleep=sleep)
        for _ in range(2):
            async with bodies.slot("k"):
                now[0] += 3.0

    asyncio.run(scene())
    assert slept == [0.0, 3.0]


async def test_anonymous_large_bodies_take_turns_by_network(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    names, slot = list[str](), world.platform.large_bodies.slot
    monkeypatch.setattr(world.platform.large_bodies, "slot", lambda name: (names.append(name), slot(name))[1])

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"x" * (request_body.LARGE_BODY_BYTES + 1), "more_body": False}

    for address in ("2001:db8::1", "2001:db8::2", "192.0.2.1"):
        scope = {"type": "http", "method": "POST", "headers": [], "app": world.app, "client": (address, 1)}
        await request_body.parse_body(Request(scope, receive), len)
    assert names == ["2001:db8::", "2001:db8::", "192.0.2.1"]


@contextmanager
def half_a_body(platform: Running, path: str, credential: dict[str, str]) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(str(platform.socket))
        head = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": "1000", **credential}
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", '{"a":']
        connection.sendall("\r\n".join(lines).encode())
        yield connection


def test_a_body_that_does_not_arrive_takes_no_turn(own: Running) -> None:
    owner = {"Authorization": f"Bearer {own.token(OWNER)}"}
    paths = dict.fromkeys((f"{IAM}/simulate", f"{IAM}/groups", f"{IAM}/policies"), owner)
    paths["/access/v1/search/action"] = {"X-API-Key": Key(own, "decisions:evaluate").secret}
    with ExitStack() as halves:
        for path, credential in [*paths.items()] * 3:
            halves.enter_context(half_a_body(own, path, credential))
        time.sleep(0.5)  # A turn was taken within milliseconds.
        for path, credential in paths.items():
            headers = {**credential, "Content-Type": "application/json"}
            assert own.request("POST", path, headers, b"{}").status == 400, path


@pytest.mark.slow
def test_a_thousand_open_cursors_leave_nothing_behind(world: World) -> None:
    owner = world.session(OWNER)
    for number in range(3):
        assert world.ask("POST", f"{IAM}/groups", owner, {"name": f"page {number}"}).status_code == 201

    def rows() -> dict[str, int | None]:
        with world.platform.database.read() as connection:
            tables = metadata.sorted_tables
            return {table.name: connection.scalar(select(func.count()).select_from(table)) for table in tables}

    async def open_many(number: int) -> set[str]:
        async with world.client() as client:
            return {
                (await client.get(f"{IAM}/groups?limit={1 + count % 2}", headers=owner)).json()["nextCursor"]
                for count in range(number)
            }

    asyncio.run(open_many(50))
    before, growth, cursors = rows(), [], set[str]()
    tracemalloc.start()
    try:
        # What is made once, such as the statement that notes a session's use each minute, falls into one round alone.
        for _ in range(4):
            start = tracemalloc.get_traced_memory()[0]
            cursors |= asyncio.run(open_many(250))
            gc.collect()
            growth.append(tracemalloc.get_traced_memory()[0] - start)
    finally:
        tracemalloc.stop()
    assert rows() == before
    assert min(growth) < 16 * 1024, growth  # 250 cursors of a hundred bytes are more
    for cursor in cursors:
        assert world.get(f"{IAM}/groups?limit=1&cursor={cursor}", owner).json()["groups"]
