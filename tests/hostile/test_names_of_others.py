"""Tenants of organizations that a person is not a member of, on an open screen."""

import asyncio

import pytest
from sqlalchemy import delete, select

from service.db.engine import Database
from service.db.tables import memberships, users
from tests.homes import Home
from tests.people import NEWSROOM
from tests.tui.screens import opened


@pytest.mark.slow
async def test_a_lost_tenant_disappears_from_an_open_screen(demo_slow: Home, monkeypatch: pytest.MonkeyPatch) -> None:
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
        await ui.expect_head("unavailable")
        await ui.expect("You have no access to this tenant")
        await ui.gone(policy)
        await ui.press("1")
        await ui.press("r")
        await ui.expect("Data Lake")
        await ui.gone("Newsroom")
        await ui.gone("Borealis")
