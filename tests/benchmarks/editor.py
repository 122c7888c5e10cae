"""The time from a key in the policy editor to its verdict, with a document of 140 KB, measured in the program."""

import asyncio
import os
import statistics
import time
from collections.abc import Iterator
from unittest.mock import patch

from client.api import analysis
from tests.benchmarks.commands import started
from tests.benchmarks.ratios import Line, milliseconds
from tests.homes import Home
from tui.iam.editor import document, json_scanner
from tui.iam.editor.screen import PolicyEditor

RUNS = 15
FRAME_MS = 16
VERDICT_MS = 150
OPERATIONS = ("compute:instances:read", "compute:instances:list", "storage:buckets:*", "network:*:read")


def long_document(rules: int = 125) -> str:
    """About 140 KB of rules; the first one decides."""
    made = [
        {
            "name": f"rule {number}",
            "access": "allow",
            "operations": [*OPERATIONS] * (8 if number else 1),
            "targets": ["frn:compute:*:*:instances/*"] if number else ["*"],
        }
        for number in range(rules)
    ]
    return document.text_of({"schemaVersion": "1", "rules": made})


def run() -> Iterator[Line]:
    with started() as home, patch.dict(os.environ, home.environment()):
        text = long_document()
        yield from asyncio.run(_typed(home, text))
        scanned = statistics.mean(milliseconds(lambda: json_scanner.rules(text)) for _ in range(RUNS))
        yield Line("editor: the rules of 140 KB found in the text", scanned, FRAME_MS / 2, "half a frame", "ms")


async def _typed(home: Home, text: str) -> list[Line]:
    from client.connection import resolve
    from tui.launch import Launch
    from tui.shell.app import FrostApp

    app = FrostApp(resolve(os.environ), Launch(), home.path / ".cli" / "state.json")
    edits, verdicts, bare, paints = [], [], [], []
    async with app.run_test(size=(120, 36)) as pilot:
        workspace = app.workspace
        while workspace.link.state != "up" or not workspace.tenant_id:
            await pilot.pause(0.05)
        editor = PolicyEditor(workspace, app.keys, policy=None, text=text)
        await app.push_screen(editor)
        while not {"check", "verdict"} <= editor.evaluation.current:
            await pilot.pause(0.05)
        pane, evaluator = editor.pane, editor.evaluator
        pane.show_line(4, 16)
        for _ in range(RUNS):
            generation = evaluator.generation
            begun = time.perf_counter()
            pane.insert("x")
            edits.append(time.perf_counter() - begun)
            while evaluator.generation == generation or "verdict" not in editor.evaluation.current:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            verdicts.append(time.perf_counter() - begun)
            while not {"check", "coverage"} <= editor.evaluation.current:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            await pilot.pause(0.2)
            begun = time.perf_counter()
            for row in range(pane.size.height):
                pane.render_line(row)
            paints.append(time.perf_counter() - begun)
            asked = editor.form.request
            assert asked is not None
            begun = time.perf_counter()
            client = await workspace.client()
            await client.ask(analysis.simulate(editor.tenant_id, pane.text, asked.operation, asked.target))
            bare.append(time.perf_counter() - begun)
    edit, verdict, paint, one_request = (statistics.median(one) * 1e3 for one in (edits, verdicts, paints, bare))
    ratio = statistics.median(one / other for one, other in zip(verdicts, bare, strict=True))
    return [
        Line("editor: a key changes 140 KB of text", edit + paint, FRAME_MS, "a frame", "ms"),
        Line("editor: key to decision, 140 KB", verdict, VERDICT_MS, "a delay that users notice", "ms"),
        Line("editor: key to decision, 140 KB", ratio, 2.5, f"one simulate request ({one_request:.0f} ms)"),
    ]
