"""Names and rights of others as the screens and commands show them."""

import asyncio

import pytest
from sqlalchemy import delete, select
from textual.app import App

from service.db.engine import Database
from service.db.tables import memberships, users
from tests.acceptance.people import BOREALIS_STAGING, MEMBER, NEWSROOM, OUTSIDER, STAGING, current
from tests.homes import Home
from tests.hostile.test_dialogs import Asking
from tests.tui.screens import listened, opened
from tui.widgets.dialog import Confirm


def test_a_name_never_means_a_tenant_of_an_organization_one_is_not_in(demo: Home) -> None:
    """Both organizations have a Staging; a member of one is never asked about the other, nor told of it."""
    both = demo.frost("tenant", "use", "Staging")
    assert both.code != 0
    assert STAGING in both.err
    assert BOREALIS_STAGING in both.err
    demo.sign_in(MEMBER)
    assert demo.frost("tenant", "use", "Staging").code == 0
    assert current(demo)["id"] == STAGING
    demo.sign_in(OUTSIDER)
    nobodys = demo.frost("tenant", "use", "No Such Name")
    anothers = demo.frost("tenant", "use", "Staging")
    assert (anothers.code, anothers.err.replace("Staging", "N")) == (
        nobodys.code,
        nobodys.err.replace("No Such Name", "N"),
    )


@pytest.mark.slow
async def test_who_loses_a_tenant_while_its_screen_is_open_sees_nothing_of_it_any_more(
    demo_slow: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The membership ends behind the screens' back; the next refresh has no row, no tenant and no draft of it."""
    await asyncio.to_thread(demo_slow.sign_in)
    listed = await asyncio.to_thread(demo_slow.json, "iam", "policy", "list", env={"FROST_TENANT": NEWSROOM})
    policy = listed["items"][0]["name"]
    async with opened(demo_slow, monkeypatch) as ui:
        await ui.expect("Newsroom", "Data Lake")
        await ui.switch("newsroom")
        await ui.press("2")
        await ui.expect(policy)
        database = Database(f"sqlite:///{demo_slow.platform_dir / 'platform.db'}")
        with database.write() as connection:
            owner = connection.scalar(select(users.c.id).where(users.c.email == "owner@aurora.example"))
            seats = memberships.c
            connection.execute(delete(memberships).where(seats.user_id == owner, seats.organization_id.like("3d0c%")))
        database.close()
        await ui.press("r")
        await ui.expect_head("not available")
        await ui.expect("You have no access to this tenant")
        await ui.gone(policy)
        await ui.press("1")
        await ui.press("r")
        await ui.expect("Data Lake")
        await ui.gone("Newsroom")
        await ui.gone("Borealis")


class Named(Asking):
    """Asks about a tenant of this name."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.tenant = name

    def ask(self) -> None:
        facts = [("Tenant", self.tenant), ("Id", STAGING)]
        self.push_screen(Confirm("Delete the tenant?", facts), self.answers.append)


@pytest.mark.parametrize(
    ("name", "marked"), [("Pr\u043ed", True), ("Prod", False), ("\u041f\u0440\u043e\u0434", False)]
)
async def test_a_look_alike_name_is_asked_about_with_its_id_and_marked(name: str, marked: bool) -> None:
    app = Named(name)
    async with app.run_test(size=(90, 24)) as pilot:
        app.ask()
        await listened(pilot)
        shown = painted(app)
        assert STAGING in shown
        assert ("has letters of different scripts" in shown) is marked


def painted(app: App[None]) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)
