"""Requests for quotas from the screens."""

import asyncio
import json
from typing import Any

import pytest

from tests.acceptance.people import AURORA
from tests.homes import Home
from tests.tui.screens import SMALL, Ui

pytestmark = pytest.mark.slow

ENTER, ESC = "enter", "escape"
SHOP = "4793d4e5-9e63-4ff7-8783-9bb3aca1f5d5"
REQUESTS = f"/api/v1/tenants/{SHOP}/quota-requests"


async def form(ui: Ui, resource_type: str, press: str = "n") -> None:
    """The form for another limit of a type."""
    if ui.app.frame.current is None or ui.screen.NAME != "quotas":
        await ui.expect_head("Web Shop")
        await ui.press("9")
    await ui.expect("28 quotas")
    ui.screen.select(resource_type)
    await ui.press(press, shows="New limit")


async def fill(ui: Ui, limit: str, reason: str) -> None:
    """Another number and another reason."""
    for name, value in (("limit", limit), ("reason", reason)):
        ui.app.screen.query_one(f"#field-{name}").value = value
    await ui.pilot.pause()


async def until_gone(ui: Ui, words: str) -> None:
    await ui.gone(words)


async def limits(home: Home) -> dict[str, int]:
    found = (await asyncio.to_thread(home.json, "tenant", "quota"))["items"]
    return {one["resourceType"]: one["limit"] for one in found}


async def told(home: Home, path: str) -> list[dict[str, Any]]:
    token = home.token()
    answer = await asyncio.to_thread(home.request, "GET", path, token=token)
    requests: list[dict[str, Any]] = answer.json()["requests"]
    return requests


@SMALL
async def test_a_limit_is_raised_at_once_and_lowered_after_a_question(demo: Home, ui: Ui) -> None:
    await form(ui, "instance")
    await ui.expect("51, 2 in creation", "up to 110", "the new limit, not the increase")
    await ui.type("110", shows="● 110: approved at once; no review up to 110")
    await ui.press("tab")
    await ui.type("launch", shows="6 of 500 characters")
    await ui.press(ENTER, shows="51 of 110", toast="Instances: 60 → 110 approved")
    assert (await limits(demo))["instance"] == 110
    await ui.press("z", toast="requesting a limit cannot be undone")

    await form(ui, "instance")
    await fill(ui, "53", "over")
    await ui.expect("▼ 53: lower; takes effect at once, asks first", "Lower …")
    await ui.press(ENTER, shows=("Lower the limit?", "Web Shop", "110 → 53"))
    await ui.heard()
    await ui.press(ENTER)  # No has the focus
    await until_gone(ui, "Lower the limit?")
    await ui.expect("New limit")
    assert (await limits(demo))["instance"] == 110
    await ui.press(ENTER, shows="Lower the limit?")
    await ui.answer("y", shows="51 of 53", toast="Instances: 110 → 53 approved")
    assert [one["reason"] for one in await told(demo, REQUESTS)] == ["over", "launch"]


async def test_a_request_without_effect_is_not_sent(shared: Home, ui: Ui) -> None:
    await form(ui, "instance")
    for limit, reason, words in (
        ("6０", "x", "× expected a whole number"),
        ("9007199254740993", "x", "the maximum limit is"),
        ("60", "x", "= already 60"),
        ("50", "x", "× 50: denied, as 51 is in use, 2 in creation"),
        ("61", " ", "the reason is empty"),
        ("61", "x" * 501, "501 of 500 characters"),
    ):
        await fill(ui, limit, reason)
        await ui.press(ENTER, shows=(words, "New limit"))
    await ui.press(ESC)
    await until_gone(ui, "New limit")
    await form(ui, "registry_storage")
    await fill(ui, "100", "x")
    await ui.expect("× 100 GB: denied, because the current use is unknown")
    await ui.press(ENTER, ESC)
    assert await told(shared, REQUESTS) == []


async def test_a_request_above_the_bound_goes_to_review(demo: Home, ui: Ui) -> None:
    await form(ui, "instance")
    await fill(ui, "150", "second region")
    await ui.expect("◐ 150: above 110, the most without review; Enter", "For the organization …")
    await ui.press(ENTER, shows=("Instances of the organization Aurora Labs", "240, for Web Shop to have 150"))
    await ui.expect("◐ 240: waits for review by the platform's operator", "second region")
    await ui.press(ENTER, toast="Instances of the organization: 200 → 240 pending, in review")
    await ui.expect("◐ Instances", "◐ pending organization")
    await form(ui, "instance", "N")
    await fill(ui, "300", "more")
    await ui.expect("a request for 240 is already in review")
    await ui.press(ENTER, shows="Not sent")
    await ui.press(ESC)
    await until_gone(ui, "New limit")
    (waiting,) = await told(demo, f"/api/v1/organizations/{AURORA}/quota-requests")
    assert (waiting["status"], waiting["limit"], waiting["reason"]) == ("pending", 240, "second region")

    await ui.press("t")
    await ui.expect("Quota requests in Web Shop", "200 → 240", "◐ pending", "in review by the")
    rows = [line.split("│")[0] for line in ui.text.splitlines() if "200 → 240" in line]
    assert any(" org " in row for row in rows), rows  # whose limit it is, without opening each
    review = await asyncio.to_thread(demo.frost, "platform", "review", "approve", waiting["id"])
    assert review.code == 0, review
    await ui.press("r", shows="● approved", toast="Instances of the organization: 200 → 240 approved")
    await ui.press(ESC, shows="Share ▼")
    await until_gone(ui, "◐ Instances")
    await form(ui, "instance")
    await fill(ui, "150", "second region")
    await ui.expect("● 150: approved at once; no review up to 150")


@SMALL
async def test_a_request_is_repeated_and_memory_has_both_units(demo: Home, ui: Ui) -> None:
    await form(ui, "ram")
    await fill(ui, "786432", "[/x] index 🌙")
    await ui.expect("● 786432 MB (768 GB): approved at once", "MB")
    await ui.press(ENTER, toast="Memory: 655360 MB (640 GB) → 786432 MB (768 GB) approved")
    await ui.press("t", shows=("640 → 768 GB", "● approved"))
    await ui.press(ENTER, shows=("[/x] index 🌙", "Astrid Lindqvist", "786432 MB (768 GB)"))
    await ui.press(ESC, "n", shows=("Memory of Web Shop", "= already 786432 MB (768 GB)", "[/x] index"))
    await ui.press(ESC)
    await until_gone(ui, "New limit")
    assert ui.app.is_running


async def test_a_bound_that_moved_keeps_what_was_typed(demo: Home, ui: Ui) -> None:
    await form(ui, "instance")
    await fill(ui, "110", "launch")
    taken = demo.request(
        "POST",
        REQUESTS.replace(SHOP, "c169179d-57e5-43c5-bb9c-7dd71336348d"),
        token=demo.token(),
        body={"resourceType": "instance", "limit": 90, "reason": "took it"},
    )
    assert taken.json()["request"]["status"] == "approved"
    await ui.press(ENTER, shows=("without review, the limit of this tenant can be raised to 70", "launch"))
    await ui.expect("up to 70", "above 70, the most without review")
    assert json.dumps(await told(demo, REQUESTS)) == "[]"


async def test_a_request_that_cannot_be_sent_keeps_the_form(demo: Home, ui: Ui) -> None:
    await form(ui, "vcpu")
    await fill(ui, "210", "launch")
    await asyncio.to_thread(demo.frost, "platform", "stop")
    await ui.press(ENTER, shows=("New limit", "launch", "the request may exist: check Quota requests"))
