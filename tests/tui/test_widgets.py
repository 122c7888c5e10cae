"""Single widgets and dialogs, and menu, help and header on small screens."""

import asyncio
import gc
import re
from collections.abc import Callable

import pytest
from textual._styles_cache import StylesCache
from textual.app import App
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import OptionList, Static

from client.models.account import GrantableScope
from client.models.analysis import PrincipalEffect
from client.models.iam import Principal
from client.tables.columns import TENANT, Record
from client.texts.effects import Effect
from tests.homes import Home
from tests.tui.alone import Alone, asked
from tests.tui.screens import opened
from tui.account.key_form import KeyDraft, KeyForm
from tui.contexts.sign_in import DeviceCode
from tui.iam.effects import EffectConfirm, _operations
from tui.iam.pickers import PRINCIPAL
from tui.shell import palette
from tui.shell.bars import Header, HeaderState
from tui.shell.palette import Help, Line, Palette
from tui.state.preferences import RememberedTenant
from tui.tenants.switcher import TenantSwitcher
from tui.widgets.dialog import Confirm
from tui.widgets.heading import Heading
from tui.widgets.picker import Entry, Menu, Picker
from tui.widgets.record_table import RecordTable


async def test_a_hidden_filter_is_shown_from_its_beginning() -> None:
    heading = Heading("Failures and skips", lambda: None)
    async with Alone(heading).run_test(size=(60, 3)) as pilot:
        heading.count("16 of 203")
        heading.put("type:instance")
        await pilot.pause()
        line = heading.query_one("LineInput")
        line.display = False
        for text in ("", "type:instance !type:instance_snapshot"):
            await pilot.pause()
            heading.put(text)
        await pilot.pause()
        assert line.scroll_offset.x == 0


def tenants(*names: str) -> list[Record]:
    return [{"id": name, "displayName": name, "status": "active"} for name in names]


async def test_records_that_come_later_leave_a_moved_cursor() -> None:
    known = tenants("m", "n")
    picker = Picker("Choose", TENANT, lambda: known)
    app: App[None] = App()
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(picker)
        await pilot.pause()
        table = picker.query_one(RecordTable)
        known = tenants("a", "m", "n")
        picker.show()
        assert table.record["id"] == "a"
        await pilot.press("down")
        known = tenants("a", "b", "m", "n")
        picker.show()
        assert table.record["id"] == "m"


ABOUT = "Reads everything of the tenant, from the catalogue to the quotas, and changes nothing at all"


def key_form() -> KeyForm[None]:
    scopes = [GrantableScope(scope=f"service{number:02}:read", description="Read") for number in range(40)]

    async def send(_: KeyDraft) -> None:
        return

    return KeyForm("New key", KeyDraft("deploy", "", (), 600), lambda: (scopes, ""), send)


@pytest.mark.parametrize(
    ("dialog", "small", "wide"),
    [
        (lambda: Picker("Choose", PRINCIPAL, lambda: principals(40)), (80, 12), (120, 30)),
        (lambda: TenantSwitcher([RememberedTenant(str(n), f"tenant {n}") for n in range(40)]), (80, 14), (120, 30)),
        (key_form, (80, 9), (120, 30)),
    ],
)
async def test_lists_use_the_space_of_a_wide_terminal(
    dialog: Callable[[], Screen[object]], small: tuple[int, int], wide: tuple[int, int]
) -> None:
    opened = dialog()
    async with asked(opened) as (app, pilot):
        table = opened.query_one(RecordTable)
        for size, box in (((80, 24), small), ((200, 50), wide), ((300, 60), (140, 36)), ((80, 24), small)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert (opened.query_one(".dialog").outer_size.width, table.outer_size.height) == box, size
            assert "· Esc c" in app.text
        await pilot.resize_terminal(60, 16)
        await pilot.pause()
        if isinstance(opened, TenantSwitcher):
            await pilot.press(*["pagedown"] * 4)
            await pilot.pause()
            assert "· Esc c" in app.text
            assert "tenant 39" in app.text


def principals(count: int) -> list[Principal]:
    return [Principal(type="api_key", id=str(n), name=f"key {n}", about=ABOUT) for n in range(count)]


async def test_the_palette_shows_whole_descriptions_on_a_wide_terminal() -> None:
    text = "In policies: rolls out the version in effect first, then later ones"
    actions = [palette.Entry(f"Action {number}", "", text, lambda: None) for number in range(40)]
    dialog = Palette(lambda _: iter(actions))
    async with asked(dialog) as (app, pilot):
        await pilot.press("down")
        assert text not in app.text
        assert app.text.count("In policies: rolls out the ver") == 14
        small = app.text
        await pilot.resize_terminal(200, 50)
        await pilot.pause()
        assert app.text.count(text) == 30
        assert dialog.query_one(OptionList).highlighted == 1
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert app.text == small


ADDRESS = "https://login.example/device"


async def test_the_qr_code_is_shown_only_where_it_fits() -> None:
    app = App[None]()
    async with app.run_test(size=(80, 18)) as pilot:
        dialog = DeviceCode("local", "ABCD-EFGH", ADDRESS, f"{ADDRESS}?user_code=ABCD-EFGH")
        app.push_screen(dialog)
        await pilot.pause()
        qr = dialog.query_one(".device--qr", Static)
        box = dialog.query_one(".dialog")
        assert not qr.display
        assert box.region.height <= 18
        for size, fits in (((80, 24), True), ((50, 24), False), ((120, 36), True), ((80, 20), False)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert qr.display is fits, size
            assert app.screen.region.contains_region(box.region), size


OPERATION = "compute:instances:read"


def principal(side: str) -> PrincipalEffect:
    members = {"type": "api_key", "id": "k", "name": "deploy", side: [OPERATION], f"{side}Count": 1}
    return PrincipalEffect.model_validate(members)


def test_conditional_changes_are_neither_gained_nor_lost() -> None:
    for side, summary, line in (
        ("conditionalGained", "~1 new conditional", f"~ {OPERATION}  new, conditional"),
        ("conditionalLost", "~1 conditional lost", f"~ {OPERATION}  lost, was conditional"),
        ("gained", "+1 gained", None),
    ):
        assert Effect([principal(side)]).summary == f"1 key or identity: {summary}"
        assert line is None or str(_operations(principal(side))) == line
        assert Effect([principal(side)]).takes == (side == "conditionalLost")
    assert Effect([principal("lost")]).takes
    assert not Effect([principal("narrowed")]).takes


def long_named(number: int, **members: object) -> PrincipalEffect:
    name = f"platform/release-automation-{number:02}"
    return PrincipalEffect.model_validate(
        {"type": "workload_identity", "id": str(number), "name": name, "status": "active", **members}
    )


async def shown(effect: Effect) -> str:
    dialog = EffectConfirm("Attach policy?", [("Policy", "zones"), ("Tenant", "Staging")], effect, yes="y")
    async with asked(dialog) as (app, _pilot):
        return app.text


async def test_changed_conditions_have_a_column_on_a_small_screen() -> None:
    counts = {"gainedCount": 24, "lostCount": 112, "narrowedCount": 24, "inert": True}
    text = await shown(Effect([long_named(number, **counts) for number in range(3)]))
    row = next(line for line in text.splitlines() if "automation…" in line)
    assert row.split("automation…")[1].split() == ["identity", "+24", "−112", "~24", "active", "inert", "│"], text


async def test_only_keys_that_do_something_are_named() -> None:
    for principals, keys in (
        ([], ""),
        ([long_named(1)], ""),
        ([long_named(1), long_named(2)], " · ↑ ↓ principal"),
        ([long_named(1, gained=["a:b:c"] * 9, gainedCount=9)], " · PgDn more operations"),
    ):
        assert f"n or Esc cancel{keys} " in await shown(Effect(principals))


WIDE_NAMES = ("local", "Aurora Labs", "Web Shop", "漢字" * 20, "👨‍👩‍👧‍👦 family" * 6, "e\u0301" * 90)


async def test_a_menu_scrolls_and_keeps_its_note_and_hint() -> None:
    entries = [Entry(str(n), f"Entry number {n}", note=f"the words of {n} " * 12) for n in range(20)]
    async with asked(Menu("Actions", entries), size=(60, 16)) as (app, pilot):
        for number in range(20):
            for words in (f"Entry number {number}", f"the words of {number} ", "Enter or its key: choose · Esc close"):
                assert words in app.text, app.text
            await pilot.press("down")
            await pilot.pause()
        assert app.text.splitlines()[-1].strip()[:1] in "╰", app.text


async def test_help_without_room_wraps_below_the_title() -> None:
    words = "Its members and what each of them may do in every tenant there is"
    dialog = Help([Line("Groups", "PgDn ^f", "Detach a policy from the group", words)])
    async with asked(dialog, size=(60, 30)) as (app, pilot):
        inside = [line.strip("│ ╭╰─╮╯") for line in app.text.splitlines() if "│" in line]
        assert words in " ".join(line for line in inside if line)
        assert "PgDn ^f" in app.text
        title, below = (next(line for line in app.text.splitlines() if one in line) for one in ("Detach a", "Its mem"))
        assert title.index("Detach a") == below.index("Its mem")
        await pilot.resize_terminal(120, 30)
        await pilot.pause()
        assert "group Its members" in " ".join(app.text.split())


async def test_both_header_lines_end_in_the_same_cell() -> None:
    header = Header()
    app = Alone(header)
    async with app.run_test(size=(60, 24)) as pilot:
        for width in range(60, 132, 7):
            await pilot.resize_terminal(width, 24)
            await pilot.pause()
            for name in WIDE_NAMES:
                state = HeaderState(
                    "local", name, name, "active", "owner@a.example", "session", "", False, "● connected 100 ms"
                )
                for running in ("", "◐ 1 running"):
                    header.show(state._replace(running=running))
                    assert {line.cell_length for line in header.render().split("\n")} == {width - 2}
        await pilot.pause()
        placed = re.findall(r"<text[^>]*>([^<]*)</text>", app.export_screenshot())
        # A font without the sign draws it in another width: the words behind it have their own place.
        assert "connected&#160;100&#160;ms" in placed, placed


@pytest.mark.slow
async def test_removed_widgets_leave_no_cached_lines(shared: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def caches() -> list[StylesCache]:
        gc.collect()
        return [one for one in gc.get_objects() if isinstance(one, StylesCache)]

    earlier = caches()  # of other tests in this process, which do not have the patch of the application
    async with opened(shared, monkeypatch) as ui:
        for _ in range(3):
            await ui.press("question_mark", shows="Esc close")
            await ui.press("escape", gone="Esc close")
        current = caches()
        used = {id(one._styles_cache) for one in gc.get_objects() if isinstance(one, Widget)} | set(map(id, earlier))
        assert [one for one in current if id(one) not in used] == []


class CountingSwitcher(TenantSwitcher):
    listens = 0

    def first_focus(self) -> Widget:
        self.listens += 1
        return super().first_focus()


async def test_a_dialog_listens_once() -> None:
    """Textual calls the handler of each class itself."""
    switcher = CountingSwitcher([RememberedTenant("1", "tenant 1")])
    async with asked(switcher):
        assert switcher.listens == 1


async def test_a_dialog_that_ends_below_another_one_closes_after_it() -> None:
    below, above = Confirm("Below?", [], yes="Yes"), Confirm("Above?", [], yes="Yes")
    async with asked(below) as (app, pilot):
        answers: list[bool | None] = []
        app.push_screen(above, answers.append)
        await pilot.pause()
        below.close_with(True)
        await pilot.pause()
        assert (app.screen, app.answer, answers) == (above, "none yet", [])
        above.close_with(False)
        await pilot.pause()
        await pilot.pause()
        assert (app.screen_stack[1:], app.answer, answers) == ([], True, [False])


async def test_a_form_whose_response_arrives_below_another_dialog_closes_after_it() -> None:
    response: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def send(_: KeyDraft) -> str:
        return await response

    draft = KeyDraft("deploy", "", ("dns:read",), 600)
    form = KeyForm("New key", draft, lambda: ([GrantableScope(scope="dns:read")], ""), send)
    above = Confirm("You are not signed in", [])
    async with asked(form) as (app, pilot):
        await pilot.press("ctrl+s")
        app.push_screen(above)
        await pilot.pause()
        response.set_result("key")
        await pilot.pause()
        assert (app.screen, app.answer) == (above, "none yet")
        above.close_with(False)
        await pilot.pause()
        await pilot.pause()
        assert (app.screen_stack[1:], app.answer) == ([], "key")
