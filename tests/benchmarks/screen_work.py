"""The work behind keys and signals: files that run, requests and event streams. These counts do not depend on time."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from client.models.default_tags import ApplyStarted
from client.models.tenants import Tenant
from service.jobs.routes import KEEPALIVE_SECONDS
from tests.benchmarks.commands import started
from tests.benchmarks.ratios import Line
from tests.homes import Home
from tests.people import WEB_SHOP
from tests.tui.editing import editing
from tests.tui.relay import EVENTS, Relay, settle, signal, start_apply
from tests.tui.screens import SIGNALS_ONLY, Ui, opened
from tui.shell.remote_list_screen import RemoteListScreen
from tui.state.refresh import APPLY

ROOT = Path(__file__).parent.parent.parent
PACKAGES = tuple(str(ROOT / name) for name in ("client", "tui"))
FRAME_SECONDS = 0.05
SIGNALS, SIGNAL_SECONDS = 80, 0.1
UNRELATED = ("database", "instance", "volume", "bucket")
DOCUMENT = """{
  "schemaVersion": "1",
  "rules": [{"access": "allow", "operations": ["compute:instances:read"], "targets": ["*"]}]
}"""


@contextmanager
def run_files() -> Iterator[set[str]]:
    """Collect the files of `client` and `tui` whose functions or modules run."""
    files: set[str] = set()

    def called(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGES):
            files.add(str(Path(frame.f_code.co_filename).relative_to(ROOT)))

    sys.setprofile(called)
    try:
        yield files
    finally:
        sys.setprofile(None)


def run() -> Iterator[Line]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        for measure, variables in ((_screens, {}), (_streams, {"FROST_PLATFORM_APPLY_PACE": "30"})):
            with started(FROST_PLATFORM_PROVISIONING_PACE="600", **variables) as home:
                home.json("tenant", "use", "web shop")
                with closing(Relay(home, KEEPALIVE_SECONDS)) as relay:
                    yield from asyncio.run(measure(home, relay, monkeypatch))


async def _screens(home: Home, relay: Relay, monkeypatch: pytest.MonkeyPatch) -> list[Line]:
    async with opened(home, monkeypatch, limits=SIGNALS_ONLY) as ui:
        await ui.expect_head("Web Shop")
        await settle(ui, relay)
        policies = await _opened_policies(ui)
        requests = await _requests_of_signals(ui, relay)
        applied = await _applied(ui, relay)
    async with editing(home, monkeypatch, policy=None, text=DOCUMENT, limits=SIGNALS_ONLY) as it:
        await it.answered()
        await it.ask(resourceTags="env=de")
        await it.ui.pilot.pause(1)
        await it.answered()
        it.editor.set_focus(it.editor.query_one("#field-resourceTags"))
        before = len(relay.requests)
        await it.press("end", "v")
        await it.until(lambda: it.editor.evaluation.verdict_request == it.editor.request, "the verdict")
        await it.ui.pilot.pause(1)
        typed = len(relay.requests) - before
        it.editor.pane.focus()
        await it.ui.pilot.pause(1)
        generation = it.editor.evaluator.generation
        with run_files() as letter:
            await it.ui.pilot.press("space")
            while it.editor.evaluator.generation == generation or "verdict" not in it.editor.evaluation.current:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            await asyncio.sleep(FRAME_SECONDS)
    return [
        Line("screens: files that run to open the policies", len(policies), 25, "a fixed limit", ""),
        Line("editor: files that run for a letter", len(letter), 20, "a fixed limit", ""),
        Line("screens: files that run for an apply with its stream", len(applied), 25, "a fixed limit", ""),
        Line("editor: requests for a letter in the request", typed, 1, "a fixed limit", ""),
        Line("screens: requests under 80 unrelated signals in 8 s", requests, 5, "a fixed limit", ""),
    ]


def is_fresh(screen: RemoteListScreen[Any], name: str) -> bool:
    return name == screen.NAME and screen.record_list.state == "fresh"


async def _opened_policies(ui: Ui) -> set[str]:
    with run_files() as files:
        await ui.pilot.press("2")
        while not (isinstance(ui.screen, RemoteListScreen) and is_fresh(ui.screen, "policies")):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await asyncio.sleep(FRAME_SECONDS)
    return files


async def _requests_of_signals(ui: Ui, relay: Relay) -> int:
    await settle(ui, relay)
    before = len(relay.requests)
    for number in range(SIGNALS):
        relay.signals.put(signal(UNRELATED[number % len(UNRELATED)]))
        await asyncio.sleep(SIGNAL_SECONDS)
    await settle(ui, relay)
    return len(relay.requests) - before


async def _applied(ui: Ui, relay: Relay) -> set[str]:
    await ui.command("tags")
    await ui.expect("cost-center")
    await settle(ui, relay)
    applies = ui.app.workspace.applies
    with run_files() as files:
        await ui.press("a")
        await ui.answer("y", to="Apply default tags?")
        await ui.expect("Apply in Web Shop")
        while applies.goes_on(WEB_SHOP):
            relay.signals.put(signal(APPLY))
            await asyncio.sleep(0.3)
        await asyncio.sleep(FRAME_SECONDS)
    return files


async def _streams(home: Home, relay: Relay, monkeypatch: pytest.MonkeyPatch) -> list[Line]:
    async with opened(home, monkeypatch, limits=SIGNALS_ONLY) as ui:
        await ui.expect_head("Web Shop")
        await settle(ui, relay)
        run = await asyncio.to_thread(start_apply, home, WEB_SHOP)
        workspace = ui.app.workspace
        workspace.applies.follow(WEB_SHOP, ApplyStarted(operation_id="", run_id=run).operation)
        tenant = workspace.find(WEB_SHOP)
        assert tenant is not None
        members = {**tenant.wire(), "status": "provisioning", "runId": run}
        workspace.provisioning.noticed([Tenant.model_validate(members)])
        await anext(workspace.applies._watch(WEB_SHOP, run))
        await settle(ui, relay)
        return [Line("screens: streams with three followed runs", relay.opened[EVENTS], 1, "a fixed limit", "")]
