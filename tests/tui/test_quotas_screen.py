"""The quotas screens on the real platform, of a tenant and of its organization."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from client.tables.columns import Record
from tests.homes import Home
from tests.people import MEMBER
from tests.tui.screens import READ_ONLY, SMALL, Ui, opened, signed_in
from tui.shell.command_line import candidates, run
from tui.state import loaders


async def quotas(ui: Ui) -> Ui:
    """Open the quotas of Web Shop."""
    await ui.expect_head("Web Shop")
    await ui.press("9")
    return await ui.expect("28 quotas", "Share ▼")


async def select(ui: Ui, resource_type: str, *shows: str) -> None:
    """Select a quota, and wait for texts."""
    ui.screen.select(resource_type)
    await ui.pilot.pause()
    await ui.expect(*shows)


@SMALL
async def test_quotas_are_listed_with_bars_tightest_first_and_o_shows_the_organization(ui: Ui) -> None:
    await quotas(ui)
    await ui.expect_cursor("Volume storage")
    row = ui.row("4280 of 4500 GB")
    assert "95%" in row
    assert row.index("━") < row.index("┃") < row.index("─")
    await ui.expect("502 of 640 GB")
    assert ui.row("Volumes ").index("┃") == row.index("┃")  # bars are compared at their limits
    await ui.press("G", shows=("0 of 0", "no allowance"))
    await ui.until(lambda: "╱╱╱" in ui.row("Registry storage"), "hatching")
    assert "— of 200 GB" in ui.row("Registry storage")
    assert "…" not in "".join(line for line in ui.text.splitlines()[4:-1] if " of " in line)
    await select(ui, "instance")
    await ui.press("o", shows=("Quotas of Aurora Labs", "28 quotas", "Allocated", "101 of 200"), cursor="Instances")
    assert "150 ►━" in ui.row("101 of 200")
    assert "a" in ui.row("101 of 200")
    await ui.press("enter", shows=("Allocated to 4 tenants", "►  Web Shop  60, 51 in use", "c  Sandbox  20"))
    await ui.expect("Left       50")
    await ui.press("escape")
    await select(ui, "registry_storage", "— of 1600 GB")
    await ui.press("o", shows="Share ▼", cursor="Registry storage")
    await ui.press("t", shows="No requests yet.", gone="n request")


@pytest.mark.slow
async def test_details_are_exact_and_rows_are_filtered_sorted_and_copied(ui: Ui) -> None:
    await quotas(ui)
    await ui.press("y", shows=("Copy", "JSON", "command: request a new limit"))
    await ui.press("i", toast="Copied ID")
    assert ui.app.clipboard == "volume_storage"
    assert ui.screen.copies()["row"].split("\t")[:3] == ["volume_storage", "4280 GB", "4500 GB"]
    await ui.press("x", shows=("Actions", "What if", "frost tenant quota"))
    await ui.press("w", shows=("Plan", "volume_storage="))
    await ui.type("ram=1", shows="1 MB", gone="volume_storage=")
    await ui.type("x", shows="ram=1x: expected a whole number", gone="● fits")
    await ui.press("escape", gone="Plan")
    await ui.press("w", "right")
    await ui.type("9", shows="volume_storage=9")
    await ui.press("escape", gone="Plan")
    await ui.press("w", shows="volume_storage=")
    await ui.type("12", shows="volume_storage=12")
    await ui.press("escape", gone="Plan")
    await select(ui, "ram", "514048 MB (502 GB)", "8192 MB (8 GB) in", "up to 1310720 MB", "the limit; beyond")
    await select(ui, "registry_storage", "The current use is unknown", "limit still applies")
    await select(ui, "gpu", "No allowance: none can be")
    await select(ui, "image", "This limit cannot be requested;", "contact support")
    await ui.press("n", toast="Request a new limit: its limit cannot be requested; contact support")
    for line, count in (("is:unknown", "1 of 28"), ("state:creating", "10 of 28"), ("type:storage", "5 of 28")):
        await ui.filter(line, shows=count)
        await ui.press("escape")
    await ui.command("sort res", shows="Resource ▲")
    await ui.press("g", cursor="Bucket storage")
    await ui.press("1", "9", shows="Resource ▲")


@pytest.mark.slow
@READ_ONLY
async def test_limits_follow_the_tenant_and_a_tenant_over_one_is_marked(ui: Ui) -> None:
    await quotas(ui)
    await ui.press("ctrl+t", shows="Switch tenant")
    await ui.enter("data lake", shows="27500 of 25000 GB", head="Data Lake")
    assert "110% !" in ui.row("27500 of")
    await ui.gone("4280 of 4500 GB")
    await ui.press("g", shows=("Over by", "2500 GB", "! Over the limit: no more can"))
    await ui.filter("is:over", shows="1 of 28")
    await ui.press("escape", "minus", head="Web Shop")
    await ui.press("o", shows=("Quotas of Aurora Labs", "101 of 200", "►  Web Shop"))
    await ui.switch("data lake")
    await ui.expect("►  Data Lake", "Quotas of Aurora Labs")
    await ui.switch("newsroom")
    await ui.expect("Share ▼", "26 quotas", "no allowance")
    await ui.gone("Custom images")  # none are allowed, and no user can request them
    await ui.gone("Quotas of Aurora Labs")


@signed_in(MEMBER)
async def test_a_member_sees_no_foreign_tenant_and_may_not_request(ui: Ui) -> None:
    await quotas(ui)
    await ui.press("n", toast="Request a new limit: only an owner or admin of the organization can request")
    await ui.press("o", shows=("Quotas of Aurora Labs", "(no access)  6000 GB"), gone="Data Lake")
    await ui.press("n", toast="only an owner or admin of the organization can request limits")


async def test_an_unread_list_is_not_empty(shared: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(*_: object) -> AsyncIterator[Sequence[Record]]:
        await asyncio.Event().wait()
        yield ()

    monkeypatch.setitem(loaders.LOADERS, "quotas", silent)
    async with opened(shared, monkeypatch) as ui:
        await ui.expect_head("Web Shop")
        await ui.press("9", shows=("Loading …", "refreshing"))
        assert "0 quotas" not in ui.text


async def test_the_command_line_knows_the_quota_commands(ui: Ui) -> None:
    await ui.expect_head("Web Shop")
    for line, shows in (
        ("quotas memory", "1 of 28"),
        ("tenant quota --org", "Quotas of Aurora Labs"),
        ("tenant quota requests", "Quota requests in Web Shop"),
        ("tenant quota", "Share ▼"),
    ):
        await run(ui.app.frame, line)
        await ui.expect(shows)
    for line, toast in (
        ("quotas.request image 5", "contact support"),
        ("quotas.request vcpu 4x", "expected a whole number"),
        ("quotas.request vpcu 4", "quota not found"),
    ):
        await run(ui.app.frame, line)
        await ui.expect_toast(toast)
    await run(ui.app.frame, 'tenant quota request vcpu 210 --reason "launch"')
    await ui.expect("vCPUs of Web Shop", "210: approved at once")
    assert "quotas.request instance" in candidates(ui.app.workspace, "quotas.request inst")


@pytest.mark.slow
@SMALL
async def test_the_palette_opens_a_plan_and_a_plan_leads_to_a_request(ui: Ui) -> None:
    await quotas(ui)
    await ui.press("ctrl+p")
    await ui.enter("what if", shows=("Plan", "volume_storage=N: enter the number to add"))
    await ui.enter("registry_storage=500", shows=("Registry storage", "New limit", "500 GB"))
    await ui.press("escape")
    await ui.press("w", shows="Plan")
    await ui.press("end")
    await ui.type("100 vc")
    await ui.press("tab", shows="vcpu=")
    await ui.type("60")
    await ui.expect("● fits", "▲ request, no review", "219 of 200", "vcpu needs 219, which you can request")
    await ui.type(" gpu=9", shows="◐ needs review")
    await ui.press("enter", shows=("vCPUs of Web Shop", "219: approved at once; no review up to 440"))
