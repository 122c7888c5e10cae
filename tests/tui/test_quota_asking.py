"""Requests for quotas from the screens."""

import asyncio
from typing import Any

import pytest
from textual.widgets import Button

from tests.homes import Home
from tests.people import AURORA, DATA_LAKE, WEB_SHOP
from tests.tui.editing import hung
from tests.tui.screens import SMALL, Ui
from tui.quotas.request_dialog import NOT_SENT

pytestmark = pytest.mark.slow

REQUESTS = f"/api/v1/tenants/{WEB_SHOP}/quota-requests"


async def form(ui: Ui, resource_type: str, limit: str = "", reason: str = "", press: str = "n") -> None:
    """Open the form for another limit of a type, and fill it in."""
    if ui.app.frame.current is None or ui.screen.NAME != "quotas":
        await ui.expect_head("Web Shop")
        await ui.press("9")
    await ui.expect("28 quotas")
    ui.screen.select(resource_type)
    await ui.press(press, shows="New limit")
    if limit:
        await fill(ui, limit, reason)


async def fill(ui: Ui, limit: str, reason: str) -> None:
    """Set the limit and the reason."""
    for name, value in (("limit", limit), ("reason", reason)):
        ui.app.screen.query_one(f"#field-{name}").value = value
    await ui.pilot.pause()


async def limit_of_instances(home: Home) -> int:
    quotas = (await asyncio.to_thread(home.json, "tenant", "quota"))["items"]
    return next(int(one["limit"]) for one in quotas if one["resourceType"] == "instance")


async def requests(home: Home, path: str = REQUESTS) -> list[dict[str, Any]]:
    answer = await asyncio.to_thread(home.request, "GET", path, token=home.token())
    return list(answer.json()["requests"])


@SMALL
async def test_a_limit_is_raised_at_once_and_lowered_after_a_question(demo: Home, ui: Ui) -> None:
    await form(ui, "instance")
    await ui.expect("51, 2 in creation", "up to 110", "Enter the new limit, not the increase")
    await ui.gone("expected a whole number")
    await ui.type("110", shows="● 110: approved at once; no review up to 110")
    await ui.press("tab")
    await ui.type("launch", shows="6 of 500 characters")
    await ui.press("enter", shows="51 of 110", toast="Instances: 60 → 110 approved")
    assert await limit_of_instances(demo) == 110
    await ui.press("z", toast="requesting a limit cannot be undone")

    await form(ui, "instance", "53", "over")
    await ui.expect("▼ 53: lower; takes effect at once, asks first", "Lower …")
    await ui.press("enter", shows=("Lower the limit?", "Web Shop", "110 → 53"))
    await ui.answer("enter", gone="Lower the limit?", shows="New limit")  # Cancel has the focus
    assert await limit_of_instances(demo) == 110
    await ui.press("enter", shows="Lower the limit?")
    await ui.answer("y", shows="51 of 53", toast="Instances: 110 → 53 approved")
    assert [one["reason"] for one in await requests(demo)] == ["over", "launch"]

    await form(ui, "ram", "786432", "[/x] index 🌙")
    await ui.expect("● 786432 MB (768 GB): approved at once", "MB")
    await ui.press("enter", toast="Memory: 655360 MB (640 GB) → 786432 MB (768 GB) approved")
    await ui.press("t", shows=("640 → 768 GB", "● approved"))
    await ui.press(
        "enter", shows=("[/x] index 🌙", "Requested by  Astrid Lindqvist", "Decided by", "786432 MB (768 GB)")
    )
    await ui.press("escape", "n", shows=("Memory of Web Shop", "= already 786432 MB (768 GB)", "[/x] index"))
    await ui.press("escape", gone="New limit")
    assert ui.app.is_running


async def test_a_request_without_effect_is_not_sent(shared: Home, ui: Ui) -> None:
    await form(ui, "instance")
    for limit, reason, words in (
        ("6０", "x", ("× expected a whole number", NOT_SENT)),
        ("60", "x", ("= already 60", NOT_SENT)),
        ("50", "x", ("× denied: 51 is in use, 2 in creation", NOT_SENT)),
        ("61", " ", "the reason is empty"),
        ("61", "x" * 501, "501 of 500 characters"),
    ):
        await fill(ui, limit, reason)
        await ui.press("enter", shows="New limit")
        await ui.see(shows=words)
        assert ui.text.count("expected a whole number") < 2
    await ui.press("escape", gone="New limit")
    await form(ui, "registry_storage", "100", "x")
    await ui.expect("× 100 GB: denied, because the current use is unknown")
    await ui.press("enter", "escape")
    assert await requests(shared) == []


async def test_a_request_above_the_bound_goes_to_review(demo: Home, ui: Ui) -> None:
    await form(ui, "instance", "150", "second region")
    await ui.expect("◐ 150: above 110, the most without review; Enter", "For the organization …")
    await ui.press("enter", shows=("Instances of the organization Aurora Labs", "240, for Web Shop to have 150"))
    await ui.expect("◐ 240: waits for review by the platform's operator", "second region")
    await ui.press("enter", toast="Instances of the organization: 200 → 240 pending, in review")
    await ui.expect("◐ Instances", "◐ pending organization")
    await form(ui, "instance", "300", "more", press="N")
    await ui.expect("a request for 240 is already in review")
    await ui.press("enter", shows=NOT_SENT)
    await ui.press("escape", gone="New limit")
    (waiting,) = await requests(demo, f"/api/v1/organizations/{AURORA}/quota-requests")
    assert (waiting["status"], waiting["limit"], waiting["reason"]) == ("pending", 240, "second region")

    await ui.press("t")
    await ui.expect("Quota requests in Web Shop", "200 → 240", "◐ pending", "in review by the")
    rows = [line.split("│")[0] for line in ui.text.splitlines() if "200 → 240" in line]
    assert any(" org " in row for row in rows), rows  # the list names the scope of a request
    review = await asyncio.to_thread(demo.frost, "platform", "review", "approve", waiting["id"])
    assert review.code == 0, review
    await ui.press("r", shows="● approved", toast="Instances of the organization: 200 → 240 approved")
    await ui.press("escape", shows="Share ▼", gone="◐ Instances")
    await form(ui, "instance", "150", "second region")
    await ui.expect("● 150: approved at once; no review up to 150")


async def test_a_form_keeps_its_input_over_a_moved_bound_and_a_lost_connection(demo: Home, ui: Ui) -> None:
    await form(ui, "instance", "110", "launch")
    body = {"resourceType": "instance", "limit": 90, "reason": "took it"}
    taken = demo.request("POST", REQUESTS.replace(WEB_SHOP, DATA_LAKE), token=demo.token(), body=body)
    assert taken.json()["request"]["status"] == "approved"
    await ui.press("enter", shows=("without review, the limit of this tenant can be raised to 70", "launch"))
    await ui.expect("up to 70", "above 70, the most without review")
    assert await requests(demo) == []
    await ui.press("escape", gone="New limit")
    await form(ui, "vcpu", "210", "launch")
    await asyncio.to_thread(demo.frost, "platform", "stop")
    await ui.press("enter", shows=("New limit", "launch", "the request may exist: check Quota requests"))


async def test_a_form_waits_for_the_outcome_and_can_be_left(demo: Home, ui: Ui) -> None:
    for limit, leaves in (("70", False), ("80", True)):
        await form(ui, "instance", limit, "launch")
        cancel = ui.app.screen.query_one("#cancel", Button)
        with hung(demo):
            await ui.press("ctrl+s", shows="Waiting for the platform")
            cancel.press()
            await ui.expect("New limit", "Press Esc again to close")
            if leaves:
                cancel.press()
                await ui.see(gone="New limit", toast="Closed before the response: the request may exist")
        if not leaves:
            await ui.see(gone="New limit", toast="Instances: 60 → 70 approved")
