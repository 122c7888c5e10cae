"""Keys made, changed and rotated from the screens: what is chosen is what is made, and the secret is seen once."""

import asyncio
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console
from rich.traceback import Traceback

from client.tables.columns import parse_time
from tests.acceptance.people import AURORA, VIEWER
from tests.homes import Home
from tests.leaks import secrets_in
from tests.tui.screens import Ui, opened
from tui.account.key_create import NewSecret
from tui.widgets.lines import Secret, Unsaid

pytestmark = pytest.mark.slow

ENTER = "enter"
TENANTS = f"/api/v1/organizations/{AURORA}/tenants"


def keys(home: Home, name: str) -> list[dict[str, Any]]:
    return [one for one in home.json("account", "api-key", "list")["items"] if one["name"] == name]


async def form(ui: Ui, name: str) -> None:
    """The form of a new key with a name, and its scopes there."""
    await ui.expect_head("Web Shop")
    await ui.press("6")
    await ui.expect("API keys", "compute-all")
    await ui.press("n")
    await ui.expect("New API key in Web Shop", "compute:read")
    await ui.type(name)


async def choose(ui: Ui, scope: str) -> None:
    """Find a scope and choose it."""
    find = ui.app.screen.query_one("#field-find")
    ui.app.screen.set_focus(find)
    await ui.press("ctrl+a", "ctrl+k")
    await ui.type(scope)
    await ui.press(ENTER)
    await ui.until(lambda: ui.app.focused is not None and ui.app.focused.id == "field-scopes", "the list")
    await ui.press("g", "space")


def secret_of(ui: Ui) -> str:
    """The secret on the screen."""
    (found,) = secrets_in(ui.text.encode())
    return found


async def test_a_key_made_in_the_screens_works_within_its_scopes_and_its_secret_is_seen_once(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(demo, monkeypatch) as ui:
        await form(ui, "night watch")
        await ui.press("tab")
        await ui.type("reads tenants")
        await choose(ui, "organizations:read")
        await ui.expect("1 chosen", "Read organizations")
        await ui.press("ctrl+s")
        await ui.expect("New API key night watch", "shown only now")
        assert "Z, in 364d" in ui.row("Expires  20")
        secret = secret_of(ui)
        # What a program that breaks here would show of its variables.
        assert secret not in repr([vars(ui.app.screen), vars(ui.app.screen.query_one(Secret))])
        assert demo.request("GET", TENANTS, key=secret).status == 200
        refused = demo.request("POST", TENANTS, key=secret, body={"displayName": "No"})
        assert refused.status == 403
        assert b"organizations:write" in refused.body

        picture = ui.app.export_screenshot()
        assert secret not in picture
        assert "•" * 12 in picture
        await ui.press("escape")
        await ui.expect("Not copied yet", "Esc once more")
        await ui.heard()
        await ui.press("y")
        await ui.expect("Copied to the clipboard.")
        assert ui.app.clipboard == secret
        await ui.press("escape")
        await ui.until(lambda: not isinstance(ui.app.screen, NewSecret), "the dialog gone")
        await ui.expect("17 API keys", "night watch")
        await ui.expect_cursor("night watch")
        await ui.expect("reads tenants")
        assert secret not in ui.text
        assert not any(secret in toast for toast in ui.toasts)
        assert secret not in ui.app.export_screenshot()
        await ui.press("y")
        await ui.expect("JSON")
        assert secret not in json.dumps(dict(ui.app.frame.current.copies()))  # type: ignore[union-attr]
    assert secret not in (ui.app.state_path.read_text() if ui.app.state_path.exists() else "")


async def test_a_secret_that_is_forgotten_is_painted_no_more(shared: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(shared, monkeypatch, size=(60, 24)) as ui:
        copied: list[str] = []
        dialog = NewSecret("New", [("Id", "k-1")], "s3cret-s3cret", lambda secret, say: copied.append(secret))
        await ui.app.push_screen(dialog)
        await ui.expect("s3cret-s3cret")
        await ui.heard()
        await ui.press("c")
        assert copied == ["s3cret-s3cret"]
        dialog.query_one(Secret).forget()
        await ui.until(lambda: "s3cret" not in ui.text, "the secret gone")
        await ui.press("escape")
        assert dialog._secret == ""


def test_a_program_that_breaks_shows_no_secret_among_its_variables() -> None:
    def copy(secret: str) -> None:
        raise ValueError(len(secret))

    screen = Console(file=io.StringIO(), width=100)
    try:
        copy(Unsaid("s3cret-s3cret"))
    except ValueError:
        screen.print(Traceback(show_locals=True))
    told = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "secret = " in told
    assert "s3cret" not in told.replace('copy(Unsaid("s3cret-s3cret"))', "")


@pytest.mark.parametrize(
    ("presses", "days"), [(("left", "left"), 30), (("left",), 90), ((), 365)], ids=["30 d", "90 d", "1 y"]
)
async def test_the_instant_shown_is_the_expiry_of_the_key(
    demo: Home, monkeypatch: pytest.MonkeyPatch, presses: tuple[str, ...], days: int
) -> None:
    async with opened(demo, monkeypatch) as ui:
        await form(ui, "dated")
        await ui.press("tab", "tab", "tab", *presses)
        await ui.expect(f"in {days}d")
        line = next(line for line in ui.text.splitlines() if f"in {days}d" in line)
        exact = line[line.index("20") : line.index("Z,") + 1]
        await choose(ui, "dns:read")
        await ui.press("ctrl+s")
        await ui.expect("shown only now")
        (made,) = await asyncio.to_thread(keys, demo, "dated")
        assert datetime.fromisoformat(made["expiresAt"]) == datetime.fromisoformat(exact.replace(" ", "T"))


async def test_a_date_of_ones_own_is_the_end_of_that_day_here_and_what_is_wrong_is_said_at_the_field(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(demo, monkeypatch, size=(80, 24)) as ui:
        day = (datetime.now(UTC) + timedelta(days=40)).date().isoformat()
        await form(ui, "dated")
        await choose(ui, "dns:read")
        ui.app.screen.set_focus(ui.app.screen.query_one("ChoiceLine"))
        await ui.press("right", "tab")
        await ui.type("2027-02-30")
        await ui.expect("neither a day (YYYY-MM-DD) nor an RFC 3339 timestamp")
        await ui.press(ENTER)
        await ui.expect("New API key in")
        await ui.press("ctrl+a", "ctrl+k")
        await ui.type("2099-01-01")
        await ui.press(ENTER)
        await ui.expect("a key is valid for at most 2 years: until")
        await ui.press("ctrl+a", "ctrl+k")
        await ui.type("2001-01-01")
        await ui.press(ENTER)
        await ui.expect("that is over: by the platform's clock it is")
        await ui.press("ctrl+a", "ctrl+k")
        await ui.type(day)
        await ui.gone("that is over: by")
        await ui.expect(f"{day} 23:59:59Z")
        await ui.press(ENTER)
        await ui.expect("shown only now")
        (made,) = await asyncio.to_thread(keys, demo, "dated")
        assert made["expiresAt"] == f"{day}T23:59:59Z"


async def test_refusals_of_the_platform_stand_in_the_form_and_nothing_typed_is_lost(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(demo, monkeypatch) as ui:
        await form(ui, "x")
        await ui.press(ENTER)
        await ui.expect("at least one scope is needed")
        await choose(ui, "dns:read")
        await ui.gone("at least one scope is needed")
        await ui.press("ctrl+s")
        await ui.until(lambda: ui.app.focused is not None and ui.app.focused.id == "field-name", "the field at fault")
        await ui.expect("2")
        assert ui.app.screen.query_one("#field-name").value == "x"  # type: ignore[attr-defined]
        await ui.type("y")
        await ui.press("tab", "tab", "ctrl+a", "ctrl+k")
        await ui.type("0")
        await ui.press(ENTER)
        await ui.expect("a whole number of requests a minute")
        await ui.press("ctrl+a", "ctrl+k")
        await ui.type("70000")
        await ui.press(ENTER)
        await ui.expect("60")
        await ui.expect("New API key in")
        await ui.press("ctrl+a", "ctrl+k")
        await ui.type("60")
        await ui.press(ENTER)
        await ui.expect("New API key xy", "shown only now")
        (made,) = await asyncio.to_thread(keys, demo, "xy")
        assert (made["rateLimit"], made["scopes"]) == (60, ["dns:read"])


async def test_what_the_role_lacks_and_what_nothing_enforces_is_said_at_the_scope(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo.sign_in(VIEWER)
    async with opened(demo, monkeypatch, size=(80, 24)) as ui:
        await ui.expect_head("connected")
        await ui.press("6")
        await ui.expect("viewer-dashboard")
        await ui.press("n")
        await ui.expect("compute:read", "× lacks it", "! not enforced", "Cancel", "Create", "Esc cancel")
        await choose(ui, "compute:write")
        await ui.expect("0 chosen", "cannot be given", "compute:write: your role does not give it")
        await choose(ui, "compute:read")
        await ui.expect("1 chosen")
        await choose(ui, "role:held")
        await ui.gone("× lacks it")


async def test_a_rotated_key_goes_on_until_it_was_said_and_the_new_one_has_its_groups(
    demo: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(demo, monkeypatch) as ui:
        await ui.press("6")
        await ui.expect("deploy-pipeline")
        await ui.cursor_on("deploy-pipeline")
        await ui.press("o")
        await ui.expect("Rotate deploy-pipeline", "New key ends", "Old key ends", "● 24 h", "in 1d", "in 365d")
        await ui.heard()
        await ui.press("left", "ctrl+s")
        await ui.expect("New API key deploy-pipeline", "Old key", "works until", "Taken over")
        secret = secret_of(ui)
        assert secret not in ui.app.export_screenshot()
        await ui.heard()
        await ui.press("y", "escape")
        await ui.expect("17 API keys")
        new, old = await asyncio.to_thread(keys, demo, "deploy-pipeline")
        left = parse_time(old["expiresAt"])
        assert left is not None
        assert timedelta(minutes=55) < left - datetime.now(UTC) <= timedelta(hours=1)
        assert new["scopes"] == old["scopes"]
        for one in (secret, demo.world_key("deploy-pipeline")):
            assert demo.request("GET", f"/api/v1/tenants/{new['tenantId']}/api-keys/{new['id']}", key=one).status != 401
        await ui.expect("deployers")


async def test_a_key_rotated_at_once_leaves_the_old_one_revoked(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(demo, monkeypatch, size=(80, 24)) as ui:
        await ui.press("6")
        await ui.expect("tenant-reader")
        await ui.cursor_on("tenant-reader")
        await ui.press("o")
        await ui.expect("Rotate tenant-reader")
        await ui.heard()
        await ui.press("left", "left")
        await ui.expect(
            "revoked right away: what uses it fails until it is changed",
            "Cancel",
            "Rotate  ",
            "Enter rotates · Esc cancel",
        )
        await ui.press("enter")
        await ui.expect("shown only now", "is revoked", "Copy  ", "Leave", "You cannot see this secret again")
        secret = secret_of(ui)
        await ui.press("escape", "escape")
        await ui.expect("17 API keys")
        assert demo.request("GET", "/api/v1/tenants", key=secret).status == 200
        assert demo.request("GET", "/api/v1/tenants", key=demo.world_key("tenant-reader")).status == 401


async def test_a_key_is_changed_and_its_secret_and_expiry_stay(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(demo, monkeypatch) as ui:
        await ui.press("6")
        await ui.expect("mixed-forms")
        await ui.cursor_on("mixed-forms")
        (before,) = await asyncio.to_thread(keys, demo, "mixed-forms")
        await ui.press("e")
        await ui.expect("Change API key mixed-forms", "compute:instances:start", "2 chosen, 1 not enforced yet")
        await ui.gone("● 1 year")
        await choose(ui, "instances:start")
        await choose(ui, "dns:read")
        await ui.press("ctrl+s")
        await ui.until(lambda: "Change API key" not in ui.text, "the form gone")
        (after,) = await asyncio.to_thread(keys, demo, "mixed-forms")
        assert set(after["scopes"]) == {"compute:read", "dns:read"}
        assert after["expiresAt"] == before["expiresAt"]
        await ui.expect_toast("Changed mixed-forms")
        await ui.press("z")
        await ui.expect_toast("Undone: mixed-forms is as it was")
        (again,) = await asyncio.to_thread(keys, demo, "mixed-forms")
        assert again == before
        await ui.press("e")
        await ui.expect("Change API key mixed-forms")
        await ui.press(ENTER)
        await ui.until(lambda: "Change API key" not in ui.text, "a form with nothing changed gone")


async def test_Esc_leaves_what_was_found_among_the_scopes_before_it_leaves_the_form(
    shared: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(shared, monkeypatch, size=(80, 24)) as ui:
        await form(ui, "night watch")
        find = ui.app.screen.query_one("#field-find")
        ui.app.screen.set_focus(find)
        await ui.type("zzz")
        await ui.expect("Nothing matches zzz; Esc clears the filter.")
        await ui.press("escape")
        await ui.expect("New API key in Web Shop", "night watch", "compute:read")
        await ui.gone("zzz")
        await ui.press("space")  # the first scope is under the cursor, not the name of its service
        await ui.expect("●   compute:read", "1 chosen")
        await ui.press("escape")
        await ui.until(lambda: "New API key in" not in ui.text, "the form gone")


async def test_a_refused_scope_is_spoken_of_while_one_stands_on_it(demo: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    demo.sign_in(VIEWER)
    async with opened(demo, monkeypatch, size=(80, 24)) as ui:
        await ui.expect_head("connected")
        await ui.press("6")
        await ui.expect("viewer-dashboard")
        await ui.press("n")
        await ui.expect("× lacks it")
        ui.app.screen.set_focus(ui.app.screen.query_one("#field-scopes"))
        await ui.press("down", "space")
        await ui.expect("compute:write: your role does not give it")
        await ui.press("up")
        await ui.until(lambda: "your role does not give it" not in ui.text, "the refusal gone")


@pytest.mark.parametrize("press", ["n", "e", "o"])
async def test_a_platform_that_does_not_answer_is_waited_for_in_words_and_holds_nobody(
    demo: Home, monkeypatch: pytest.MonkeyPatch, press: str
) -> None:
    async with opened(demo, monkeypatch, size=(80, 24)) as ui:
        await ui.expect_head("Web Shop")
        await ui.press("6")
        await ui.expect("tenant-reader")
        await ui.cursor_on("tenant-reader")
        await ui.press(press)
        await ui.expect("Esc cancel")
        await ui.heard()
        if press != "o":
            await choose(ui, "dns:read")
            ui.app.screen.set_focus(ui.app.screen.query_one("#field-name"))
            await ui.type("stuck")

        async def nothing(question: Any) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(ui.app.workspace, "ask", nothing)
        await ui.press("ctrl+s")
        await ui.expect("Waiting for the platform to answer")
        await ui.press("escape")
        await ui.expect("Press Esc again to close")
        await ui.press("escape")
        await ui.until(lambda: "Esc cancel" not in ui.text, "the dialog gone")
        await ui.expect_toast("Left before the platform answered")
