"""The cost of an edit: requests, joins of the text and work on the event loop."""

import asyncio
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from textual.document._document import Document as TextDocument

from client.errors import FrostError
from client.transport.async_client import AsyncClient
from client.transport.exchange import OnReply
from tests.homes import Home
from tests.tui.editing import Edit, document, editing, hung, rule
from tui.state import contexts, drafts
from tui.state.drafts import Draft, DraftFiles

READ = "compute:instances:read"


class Requests:
    """The evaluations that the platform has answered, by kind, from the client's report of each exchange."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.routes: list[str] = []
        open_client = contexts.open_client

        def reporting(connection: Any, on_reply: OnReply | None = None) -> AsyncClient:
            return open_client(connection, lambda entry: self.routes.append(entry.path))

        monkeypatch.setattr(contexts, "open_client", reporting)

    @property
    def kinds(self) -> Counter[str]:
        last = (route.rpartition("/")[2] for route in self.routes)
        return Counter(kind for kind in last if kind in ("simulate", "coverage", "check"))


async def test_one_letter_sends_one_request_and_joins_the_text_once(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = Requests(monkeypatch)
    async with editing(shared, monkeypatch, policy=None, text=document(rule(READ))) as it:
        await (await it.ask(resourceTags="env=de")).answered()
        it.editor.set_focus(it.editor.query_one("#field-resourceTags"))
        requests.routes.clear()
        await it.press("end", "v")
        await it.until(lambda: it.editor.evaluation.verdict_request == it.editor.request, "the verdict")
        await it.answered()
        assert requests.kinds == {"simulate": 1}
        assert it.editor.request.facts["resourceTags"] == {"env": "dev"}
        await it.evaluate(document(rule(READ, name="another text")), shows="allowed by rule 1 another text")
        assert requests.kinds["coverage"] == requests.kinds["check"] == 1

        joins: list[str] = []
        text = TextDocument.text.fget
        assert text is not None

        def counted(self: TextDocument) -> str:
            joins.append(text(self))
            return joins[-1]

        it.editor.set_focus(it.editor.pane)
        it.editor.pane.show_line(3, it.editor.pane.document.get_line(3).index(' text"') + len(" text"))
        await it.ui.pilot.pause()
        await it.answered()
        with monkeypatch.context() as counting:
            counting.setattr(TextDocument, "text", property(counted))
            await it.press("s", shows="allowed by rule 1 another texts")
            await it.answered()
        assert len(joins) == 1


@pytest.mark.slow
async def test_an_analysis_that_failed_is_requested_again_with_the_same_text(shared: Home, edit: Edit) -> None:
    it = await edit(policy=None, text=document(rule(READ)))
    assert (await asyncio.to_thread(shared.frost, "platform", "stop")).code == 0
    await it.write(document(rule(READ, name="typed meanwhile")))
    await it.until(lambda: it.editor.evaluation.error is not None, "the loss")
    assert "typed meanwhile" in it.text
    await asyncio.to_thread(shared.start)
    await it.until(lambda: {"verdict", "coverage", "check"} <= it.editor.evaluation.current, "all results")


async def test_every_slow_evaluation_is_shown(shared: Home, edit: Edit) -> None:
    it = await edit(policy=None, text=document(rule(READ, name="first")))
    await it.expect("allowed by rule 1 first")
    for name in ("second", "third"):
        with hung(shared):
            await it.write(document(rule(READ, name=name)), shows="✓ ALLOWED  evaluating …")
        await it.expect(f"allowed by rule 1 {name}")
        await it.gone("evaluating …")


# Drafts


def test_a_write_that_comes_late_does_not_restore_a_deleted_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, begin = tmp_path / "drafts" / "draft.json", threading.Event()
    keep = drafts.keep

    def late(target: Path, draft: Draft) -> str:
        begin.wait(60)
        return keep(target, draft)

    async def write_and_drop() -> None:
        files = DraftFiles()
        with monkeypatch.context() as slow:
            slow.setattr(drafts, "keep", late)
            write = asyncio.create_task(files.keep(path, Draft("typed")))
            await asyncio.sleep(0)
            write.cancel()  # as the next key does
            drop = asyncio.create_task(files.drop(path))
            await asyncio.sleep(0)
            begin.set()
            await drop
            await asyncio.gather(write, return_exceptions=True)

    asyncio.run(write_and_drop())
    assert not path.exists()


def test_a_superseded_write_ends_when_the_later_one_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, keep = tmp_path / "draft.json", drafts.keep

    def slow(target: Path, draft: Draft) -> str:
        time.sleep(0.2)
        return keep(target, draft)

    async def write_twice() -> None:
        files = DraftFiles()
        with files._lock:  # both writes wait for it
            first, second = (asyncio.create_task(files.keep(path, Draft(text))) for text in ("first", "second"))
            await asyncio.sleep(0)
        await first
        assert drafts.load(path) == Draft("second")
        await second

    monkeypatch.setattr(drafts, "keep", slow)
    asyncio.run(write_twice())


async def test_a_new_key_after_a_deleted_policy_is_in_the_draft_as_well(edit: Edit) -> None:
    it = await edit(policy=None)
    await it.write(document(rule(READ)))
    flow, key = it.editor.save_flow, it.editor.document.idempotency_key
    reused = FrostError("used for another request", code="IDEMPOTENCY_KEY_REUSED", status=409)
    assert await flow._adopt_stored(reused) == "used for another request"
    assert it.editor.document.idempotency_key == key
    message = await flow._adopt_stored(FrostError("not found", code="NOT_FOUND", status=404, gone=True))
    assert "then deleted" in message
    draft = drafts.load(it.editor.autosave.path)
    assert draft.creation == it.editor.document.idempotency_key != key
