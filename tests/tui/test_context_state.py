"""The state of the connection, without screens and without a platform.

Answers come when a test delivers them (a fake for time only).
"""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from client.errors import Exit, FrostError
from tui.state.context_state import ContextRequests

REFUSED = FrostError("the session has expired or been revoked", code="SESSION_REVOKED", exit_code=Exit.NOT_SIGNED_IN)


class Client:
    """A client with one request, which a test answers."""

    latency_ms = 10.0

    def __init__(self) -> None:
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def ask(self, _call: object) -> str:
        return await self.answer


class Requests(ContextRequests):
    def __init__(self) -> None:
        super().__init__()
        self.refusals: list[FrostError] = []
        self.use()

    def use(self) -> Client:
        """Enter a context with its own client."""
        self.enter(cast("Any", SimpleNamespace()))
        client = Client()
        self._client = cast("Any", client)
        return client

    def link_changed(self) -> None: ...

    def connection_lost(self) -> None: ...

    def session_refused(self, error: FrostError) -> None:
        self.refusals.append(error)

    async def begin(self) -> "asyncio.Task[str]":
        """Begin a request."""
        request: asyncio.Task[str] = asyncio.create_task(self.ask(cast("Any", None)))
        await asyncio.sleep(0)
        return request


async def refuse(client: Client, request: "asyncio.Task[str]") -> None:
    client.answer.set_exception(REFUSED)
    with pytest.raises(FrostError):
        await request


@pytest.mark.parametrize("refused", [True, False])
async def test_an_answer_of_a_context_that_was_left_changes_nothing(refused: bool) -> None:
    requests = Requests()
    former = requests.use()
    request = await requests.begin()
    requests.use()
    if refused:
        await refuse(former, request)
    else:
        former.answer.set_result("late")
        assert await request == "late"
    assert (requests.link.state, requests.refusals) == ("opening", [])


async def test_refusals_are_expected_only_while_the_user_ends_the_session() -> None:
    requests = Requests()
    client = requests.use()
    with requests.ending_session():
        await refuse(client, await requests.begin())
    assert (requests.link.state, requests.refusals) == ("opening", [])
    client = requests.use()
    await refuse(client, await requests.begin())
    assert requests.refusals == [REFUSED]


async def test_a_refusal_of_the_change_itself_ends_the_session() -> None:
    requests = Requests()
    client = requests.use()
    client.answer.set_exception(REFUSED)
    with pytest.raises(FrostError), requests.ending_session():
        await requests.ask(cast("Any", None))
    assert (requests.link.state, requests.refusals) == ("signed_out", [REFUSED])


async def test_a_session_that_ends_in_another_context_is_not_expected() -> None:
    requests = Requests()
    requests.use()
    with requests.ending_session():
        client = requests.use()
        await refuse(client, await requests.begin())
    assert requests.refusals == [REFUSED]
