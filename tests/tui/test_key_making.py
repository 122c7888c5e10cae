"""Creating, changing and rotating API keys from the screens."""

import asyncio
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console
from rich.traceback import Traceback

from client.tables.columns import parse_time
from tests.homes import Home
from tests.leaks import secrets_in
from tests.people import AURORA, VIEWER
from tests.tui.alone import asked
from tests.tui.editing import hung
from tests.tui.screens import SMALL, Ui, opened, signed_in
from tui.account.key_create import NewSecret
from tui.widgets.lines import LineInput, Secret, Unsaid

pytestmark = pytest.mark.slow


TENANTS = f"/api/v1/organizations/{AURORA}/tenants"


def keys(home: Home, name: str) -> list[dict[str, Any]]:
    return [one for one in home.json("account", "api-key", "list")["items"] if one["name"] == name]


async def only_key(home: Home, name: str) -> dict[str, Any]:
    (key,) = await asyncio.to_thread(keys, home, name)
    return key


async def form(ui: Ui, name: str) -> None:
    """Open the form of a new key, and type a name once its scopes are shown."""
    await ui.expect_head("Web Shop")
    await ui.press("6", shows=("API keys", "compute-all"))
    await ui.press("n", shows=("New API key in Web Shop", "compute:read"))
    await ui.type(name)


def focus(ui: Ui, selector: str) -> None:
    ui.app.screen.set_focus(ui.app.screen.query_one(selector))


async def choose(ui: Ui, scope: str) -> None:
    """Find a scope and choose it."""
    focus(ui, "#field-find")
    await ui.replace(scope)
    await ui.until(lambda: ui.focus == "field-scopes", "the list")
    await ui.press("g", "space")


def secret_of(ui: Ui) -> str:
    """The secret on the screen."""
    (secret,) = secrets_in(ui.text.encode())
    return secret


async def test_a_new_key_works_in_its_scopes_and_shows_its_secret_once(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(demo, monkeypatch) as ui:
        await form(ui, "night watch")
        await ui.press("tab")
        await ui.type("reads tenants")
        await choose(ui, "organizations:read")
        await ui.expect("1 selected", "Read organizations")
        await ui.press("ctrl+s", shows=("New API key night watch", "shown only once"))
        assert "Z, in 365d" in ui.row("Expires  20"), "as the form has shown"
        secret = secret_of(ui)
        # The variables that a crash at this point would show.
        assert secret not in repr([vars(ui.app.screen), vars(ui.app.screen.query_one(Secret))])
        assert demo.request("GET", TENANTS, key=secret).status == 200
        refused = demo.request("POST", TENANTS, key=secret, body={"displayName": "No"})
        assert refused.status == 403
        assert b"organizations:write" in refused.body

        picture = ui.app.export_screenshot()
        assert secret not in picture
        assert "•" * 12 in picture
        await ui.press("escape", shows=("Not copied.", "Press Esc again"))
        await ui.answer("y", shows="Copied to the clipboard.")
        assert ui.app.clipboard == secret
        await ui.press("escape")
        await ui.until(lambda: not isinstance(ui.app.screen, NewSecret), "the dialog gone")
        await ui.expect("17 API keys", "night watch")
        await ui.expect_cursor("night watch")
        await ui.expect("reads tenants")
        assert secret not in ui.text
        assert not any(secret in toast for toast in ui.toasts)
        assert secret not in ui.app.export_screenshot()
        await ui.press("y", shows="JSON")
        assert secret not in json.dumps(dict(ui.screen.copies()))
    assert secret not in (ui.app.state_path.read_text() if ui.app.state_path.exists() else "")


async def test_a_secret_that_is_forgotten_is_painted_no_more() -> None:
    copied: list[str] = []
    dialog = NewSecret("New", [("ID", "k-1")], "s3cret-s3cret", lambda secret, say: copied.append(secret))
    async with asked(dialog, size=(60, 24)) as (app, pilot):
        assert "s3cret-s3cret" in app.text
        await pilot.press("c")
        assert copied == ["s3cret-s3cret"]
        dialog.query_one(Secret).forget()
        await pilot.pause()
        assert "s3cret" not in app.text
        await pilot.press("escape")
        assert dialog._secret == ""


def test_a_crash_shows_no_secret_among_its_variables() -> None:
    def copy(secret: str) -> None:
        raise ValueError(len(secret))

    screen = Console(file=io.StringIO(), width=100)
    try:
        copy(Unsaid("s3cret-s3cret"))
    except ValueError:
        screen.print(Traceback(show_locals=True))
    traceback = screen.file.getvalue()
    assert "secret = " in traceback
    assert "s3cret" not in traceback.replace('copy(Unsaid("s3cret-s3cret"))', "")


@SMALL
async def test_the_instant_shown_is_the_expiry_of_the_key(demo: Home, ui: Ui) -> None:
    for presses, days in ((("left", "left"), 30), ((), 365)):
        await form(ui, f"for {days}")
        await ui.press("tab", "tab", "tab", *presses, shows=f"in {days}d")
        line = next(line for line in ui.text.splitlines() if f"in {days}d" in line)
        exact = line[line.index("20") : line.index("Z,") + 1]
        await choose(ui, "dns:read")
        await ui.press("ctrl+s", shows="shown only once")
        key = await only_key(demo, f"for {days}")
        assert datetime.fromisoformat(key["expiresAt"]) == datetime.fromisoformat(exact.replace(" ", "T"))
        await ui.press("escape", "escape", gone="shown only once")

    day = (datetime.now(UTC) + timedelta(days=40)).date().isoformat()
    await form(ui, "dated")
    await choose(ui, "dns:read")
    focus(ui, "ChoiceLine")
    await ui.press("2")  # the first digit of a date goes to its field
    await ui.until(lambda: isinstance(ui.app.focused, LineInput), "the field of the date")
    await ui.type("027-02-30", shows="the entry names a date or time that does not exist")
    await ui.press("enter", shows=("New API key in", "requests per minute"))
    await ui.replace("2001-01-01", shows="the expiry is in the past: the platform's time is")
    await ui.press("ctrl+a", "ctrl+k")
    await ui.type(day, shows=f"{day} 23:59:59Z", gone="the expiry is in the past")
    await ui.press("enter", shows="shown only once")
    assert (await only_key(demo, "dated"))["expiresAt"] == f"{day}T23:59:59Z"


async def test_refusals_are_shown_in_the_form(demo: Home, ui: Ui) -> None:
    await form(ui, "x")
    await ui.press("enter", shows="a name has 2 to 100 characters")
    assert ui.focus == "field-name"
    await ui.type("x")
    await ui.press("enter", shows="at least one scope is required")
    await choose(ui, "dns:read")
    await ui.gone("at least one scope is required")
    focus(ui, "#field-name")
    await ui.press("backspace", "ctrl+s", shows="a name has 2 to 100 characters")
    await ui.until(lambda: ui.focus == "field-name", "the field at fault")
    assert ui.app.screen.query_one("#field-name").value == "x"
    await ui.type("y")
    await ui.press("tab", "tab")
    await ui.replace("0", shows="a whole number of requests per minute")
    await ui.replace("70000", shows=("60000", "New API key in"), gone="a whole number")
    ui.app.screen.query_one("#field-rate").value = "9" * 5_000
    await ui.press("enter", shows="a whole number of requests per minute, 1 to 60000")
    await ui.replace("0000000060", shows=("New API key xy", "shown only once"))
    key = await only_key(demo, "xy")
    assert (key["rateLimit"], key["scopes"]) == (60, ["dns:read"])


@signed_in(VIEWER)
@SMALL
async def test_scopes_beyond_the_role_are_refused(demo: Home, ui: Ui) -> None:
    await ui.expect_head("connected")
    await ui.press("6", shows="viewer-dashboard")
    await ui.press("n", shows=("compute:read", "× no ", "! not enforced", "Cancel", "Create", "Esc cancel"))
    focus(ui, "#field-scopes")
    await ui.press("down", "space", shows="compute:write: your role does not have this scope")
    await ui.press("up", gone="your role does not have this scope")
    await choose(ui, "compute:write")
    await ui.expect("0 selected", "not available", "compute:write: your role does not have this scope")
    await choose(ui, "compute:read")
    await ui.expect("1 selected")
    await choose(ui, "role:yes")
    await ui.gone("× no ")


async def test_a_rotated_key_works_until_its_end(demo: Home, ui: Ui) -> None:
    await ui.press("6", shows="deploy-pipeline")
    await ui.filter("pipeline", shows="1 of 16")
    await ui.press("o", on="deploy-pipeline")
    await ui.expect("Rotate deploy-pipeline", "New key ends", "Old key ends", "● 24 h", "in 1d", "in 365d")
    await ui.heard()
    await ui.press("left", "ctrl+s", shows=("New API key deploy-pipeline", "Old key", "works until", "Copied"))
    secret = secret_of(ui)
    assert secret not in ui.app.export_screenshot()
    await ui.heard()
    await ui.press("y", "escape", shows="2 of 17")  # the filter shows the new key
    await ui.press("escape", shows="17 API keys")
    new, old = await asyncio.to_thread(keys, demo, "deploy-pipeline")
    left = parse_time(old["expiresAt"])
    assert left is not None
    assert timedelta(minutes=55) < left - datetime.now(UTC) <= timedelta(hours=1)
    assert new["scopes"] == old["scopes"]
    for one in (secret, demo.world_key("deploy-pipeline")):
        assert demo.request("GET", f"/api/v1/tenants/{new['tenantId']}/api-keys/{new['id']}", key=one).status != 401
    await ui.expect("deployers")

    await ui.press("o", on="tenant-reader", shows="Rotate tenant-reader")
    await ui.heard()
    await ui.press("left", "left")
    await ui.expect("revoked now: clients fail until they use the new key", "Cancel", "Rotate  ")
    await ui.expect("Enter rotate · Esc cancel")
    await ui.press("enter")
    await ui.expect("shown only once", "is revoked", "Copy  ", "Done", "You cannot see this secret again")
    secret = secret_of(ui)
    await ui.press("escape", "escape", shows="18 API keys")
    assert demo.request("GET", "/api/v1/tenants", key=secret).status == 200
    assert demo.request("GET", "/api/v1/tenants", key=demo.world_key("tenant-reader")).status == 401


async def test_a_rotation_names_the_contexts_with_the_old_key(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.json("account", "api-key", "create", "--name", "of robot", "--scopes", "dns:read", "--save-context", "robot")
    async with opened(demo, monkeypatch) as ui:
        await ui.press("6", shows="of robot")
        await ui.press("o", on="of robot", shows="Rotate of robot")
        await ui.heard()
        await ui.press("enter", shows="New API key of robot")
        await ui.heard()
        await ui.press("escape", "escape", toast="FROST_CONTEXT=robot frost config set api_key -")


async def test_a_changed_key_keeps_secret_and_expiry(demo: Home, ui: Ui) -> None:
    await ui.press("6", shows="mixed-forms")
    await ui.cursor_on("mixed-forms")
    before = await only_key(demo, "mixed-forms")
    await ui.press("e", shows=("Edit API key mixed-forms", "compute:instances:start"), gone="● 1 year")
    await ui.expect("2 selected, 1 not enforced yet")
    await choose(ui, "instances:start")
    await choose(ui, "dns:read")
    await ui.press("ctrl+s", gone="Edit API key", toast="Edited API key mixed-forms")
    after = await only_key(demo, "mixed-forms")
    assert set(after["scopes"]) == {"compute:read", "dns:read"}
    assert after["expiresAt"] == before["expiresAt"]
    await ui.press("z", toast="Undone: API key mixed-forms is as before")
    assert await only_key(demo, "mixed-forms") == before
    await ui.press("e", shows="Edit API key mixed-forms")
    await ui.press("enter", gone="Edit API key")


@SMALL
async def test_escape_clears_the_scope_filter_before_it_closes_the_form(ui: Ui) -> None:
    await form(ui, "night watch")
    focus(ui, "#field-find")
    await ui.type("zzz", shows="No matches for zzz; Esc to clear the filter.")
    await ui.press("escape", shows=("New API key in Web Shop", "night watch", "compute:read"), gone="zzz")
    await ui.press("space")  # the first scope is selected, not the name of its service
    await ui.expect("●   compute:read", "1 selected")
    await ui.press("escape", gone="New API key in")


@SMALL
async def test_a_form_waits_for_the_platform_and_can_be_left(
    demo: Home, monkeypatch: pytest.MonkeyPatch, ui: Ui
) -> None:
    async def nothing(call: Any) -> None:
        await asyncio.Event().wait()

    await ui.expect_head("Web Shop")
    await ui.press("6", shows="tenant-reader")
    for key in "neo":
        await ui.press(key, on="tenant-reader", shows="Esc cancel")
        await ui.heard()
        if key != "o":
            await choose(ui, "dns:read")
            focus(ui, "#field-name")
            await ui.type("stuck")
        with monkeypatch.context() as stuck:
            stuck.setattr(ui.app.workspace, "ask", nothing)
            stuck.setattr(ui.app.workspace, "change", nothing)
            await ui.press("ctrl+s", shows="Waiting for the platform")
            await ui.press("escape", shows="Press Esc again to close")
            await ui.press("escape", toast="Closed before the response", gone="Esc cancel")


@SMALL
async def test_a_key_whose_request_ends_with_the_context_may_exist(demo: Home, ui: Ui) -> None:
    await form(ui, "cut off")
    await choose(ui, "dns:read")
    client = await ui.app.workspace.client()
    with hung(demo):
        await ui.press("ctrl+s", shows="Waiting for the platform")
        await ui.until(lambda: bool(client._tasks), "the request")
        ui.app.workspace.arrive(ui.app.workspace.connection)
        await ui.expect("the request was interrupted and its result is unknown; the key may exist:")
    await ui.press("escape", "escape", gone="New API key in")
