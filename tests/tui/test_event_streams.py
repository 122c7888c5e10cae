"""Event streams and requests of the program, counted at its client while it runs on a real platform."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from client.transport.async_client import AsyncClient, Stream
from client.transport.request import Request
from tests.acceptance.people import WEB_SHOP
from tests.conftest import opened as home_of
from tests.homes import Home
from tests.tui.screens import Ui, opened
from tui.shell.app import FrostApp


@pytest.fixture
def paced(demo_platform: object) -> Iterator[Home]:
    """A platform whose applies last as long as a test."""
    home = home_of(demo_platform, FROST_PLATFORM_PROVISIONING_PACE="600", FROST_PLATFORM_APPLY_PACE="5")
    home.sign_in()
    yield home
    home.remove()


class Streams:
    """The open event streams by path, and the largest number that was open at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open: Counter[str] = Counter()
        self.most = 0
        stream = AsyncClient.stream

        @asynccontextmanager
        async def counted(client: AsyncClient, request: Request) -> AsyncIterator[Stream]:
            async with stream(client, request) as opened:
                self.open[request.path] += 1
                self.most = max(self.most, self.open.total())
                try:
                    yield opened
                finally:
                    self.open[request.path] -= 1

        monkeypatch.setattr(AsyncClient, "stream", counted)


def start_apply(home: Home, tenant: str) -> str:
    answer = home.request("POST", f"/api/v1/tenants/{tenant}/default-tags/apply", token=home.token(), body={})
    assert answer.status == 202, answer
    return str(answer.json()["runId"])


def app_of(ui: Ui) -> FrostApp:
    return ui.app


async def test_three_followed_runs_of_the_tenant_in_use_share_its_stream(
    paced: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = Streams(monkeypatch)
    async with opened(paced, monkeypatch) as ui:
        await ui.expect_head("Web Shop")
        await ui.until(lambda: streams.open.total() == 1, "the stream of the tenant")
        run = await asyncio.to_thread(start_apply, paced, WEB_SHOP)
        workspace = ui.app.workspace
        workspace.applies.follow(WEB_SHOP, run, {})
        workspace.provisioning.noticed([{"id": WEB_SHOP, "status": "provisioning", "runId": run}])
        await ui.until(lambda: workspace.provisioning.of(WEB_SHOP).get("runId") == run, "the run read")
        await ui.pilot.pause(1)
        print("MOST", streams.most, streams.open)
        assert streams.most == 1
