"""The virtual table of records, its columns and their widths."""

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.events import Resize
from textual.geometry import Size
from textual.pilot import Pilot

from client.tables.columns import TENANT, Column, columns, tightest_share
from client.tables.iam import ACCESS, CATALOGUE
from client.text import safe
from tests.people import WEB_SHOP
from tui.account.screen import organization_filter
from tui.iam.access import Access, access_text
from tui.iam.effects import EFFECT
from tui.state.preferences import RememberedTenant
from tui.tenants import screen as tenants_screen
from tui.tenants.switcher import ranked, searchable
from tui.widgets.record_table import RecordTable
from tui.widgets.record_view import UNKNOWN_SAMPLE, RecordView
from tui.widgets.row_painting import fitted


def tenant(number: int, name: str | None = None, **members: Any) -> dict[str, Any]:
    named = {"id": f"id-{number}", "displayName": name or f"Tenant {number:05}", "slug": f"tenant-{number}"}
    organization = "Aurora Labs" if number % 2 else "Borealis Media"
    return {**named, "status": "active", "organizationName": organization, **members}


def tenants(*numbers: int) -> list[dict[str, Any]]:
    return [tenant(number) for number in numbers]


@asynccontextmanager
async def table_app(
    *records: dict[str, Any], size: tuple[int, int] = (80, 20)
) -> AsyncIterator[tuple["TableApp", Pilot[None]]]:
    app = TableApp(list(records))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


class TableApp(App[None]):
    def __init__(self, records: list[dict[str, Any]]) -> None:
        super().__init__()
        self.records = records
        self.opened: list[str] = []
        self.highlighted: list[str | None] = []

    def compose(self) -> ComposeResult:
        yield RecordTable(TENANT, columns(TENANT), empty="No tenants.")

    def on_mount(self) -> None:
        self.table.show(self.records)
        self.table.focus()

    @property
    def table(self) -> RecordTable:
        return self.query_one(RecordTable)

    @property
    def ids(self) -> list[str]:
        return [str(record["id"]) for record in self.table.view]

    def on_record_table_opened(self, event: RecordTable.Opened) -> None:
        self.opened.append(str(event.record["id"]))

    def on_record_table_highlighted(self, event: RecordTable.Highlighted) -> None:
        if type(event) is RecordTable.Highlighted:
            self.highlighted.append(None if event.record is None else str(event.record["id"]))

    def lines(self) -> list[str]:
        return [self.table.render_line(y).text.rstrip() for y in range(self.table.size.height)]

    def text(self) -> str:
        return " ".join(" ".join(self.lines()).split())


@pytest.mark.slow
async def test_only_the_lines_on_the_screen_are_painted() -> None:
    async with table_app(*tenants(*range(100_000)), size=(80, 24)) as (app, pilot):
        assert app.lines()[1].startswith("  Tenant 00000")
        assert len(app.table._strips) < 50
        await pilot.press("G")
        assert app.lines()[-1].startswith("  Tenant 99999")
        await pilot.press("g", "j", "j")
        assert app.table.record["id"] == "id-2"


async def test_a_refresh_keeps_cursor_scroll_and_marks() -> None:
    async with table_app(*tenants(*range(200))) as (app, pilot):
        app.table.select("id-100")
        await pilot.press("space", "k")
        height = app.lines().index(next(line for line in app.lines() if "Tenant 00100" in line))
        app.table.show([*(tenant(900 + number, "New") for number in range(7)), *tenants(*range(200))])
        await pilot.pause()
        assert app.table.record["id"] == "id-100"
        assert "● Tenant 00100" in app.lines()[height]


async def test_the_cursor_stays_as_records_go_and_return() -> None:
    async with table_app(*tenants(*range(9))) as (app, pilot):
        for selected, numbers, cursor in (
            ("id-3", (0, 1, 2, 4), tenant(4)),
            ("", (), None),
            ("", range(9), tenant(4)),
            ("id-5", (), None),
            ("", (0, 8, 5, 3), tenant(5)),
            ("reset", (8, 5), tenant(8)),
        ):
            if selected == "reset":
                app.table.reset_cursor()
            elif selected:
                app.table.select(selected)
                await pilot.pause()
            app.table.show(tenants(*numbers))
            await pilot.pause()
            assert app.table.record == cursor
            if not numbers:
                assert app.highlighted[-1] is None
                assert "No tenants." in app.text()


def test_the_filter_of_an_organization_matches_a_name_with_quotes() -> None:
    view: RecordView[RememberedTenant] = RecordView(TENANT)
    names = ('ACME "North" Ltd', "ACME", "Aurora Labs")
    view.replace([RememberedTenant(name, organization_name=name) for name in names])
    for name, count in zip(names, (1, 2, 1), strict=True):
        view.set_filter(organization_filter(name))
        assert len(view) == count


async def test_the_filter_takes_words_and_fields() -> None:
    async with table_app(*tenants(*range(100))) as (app, pilot):
        for line, numbers in (
            ("organization:aurora tenant-9", (9, 91, 93, 95, 97, 99)),
            ("!organization:aurora 0001", (10, 12, 14, 16, 18)),
        ):
            app.table.set_filter(line)
            assert app.ids == [f"id-{number}" for number in numbers]
        assert app.table.view.total == 100
        app.table.set_filter("status:gone")
        await pilot.pause()
        assert "No matches for status:gone" in app.text()
        for line, name in (("org:aurora", "org"), ("nme:x", "nme"), ("!org:aurora zzz", "org")):
            app.table.set_filter(line)
            await pilot.pause()
            assert f"No column named {name}; columns: name, status, slug, id, organization" in app.text()
    async with table_app() as (app, pilot):
        for line in ("https://x", "12:30", "status:gone", "a:"):  # a text with a colon is searched as words
            app.table.show([tenant(1), tenant(2, "see https://x at 12:30, a: b")])
            app.table.set_filter(line)
            assert app.ids == ([] if line == "status:gone" else ["id-2"])
            app.table.show(tenants(1))
            await pilot.pause()
            assert "No column" not in app.text()


async def test_names_are_cut_after_less_important_columns() -> None:
    async with table_app(tenant(1, "Archive Development Europe"), size=(60, 20)) as (app, _pilot):
        assert "Archive Development" in app.lines()[1]


async def test_sorting_keeps_unknown_values_last_in_both_directions() -> None:
    view = RecordView(TENANT)
    view.replace([tenant(1, "b"), *(tenant(n, role=role) for n, role in ((2, None), (3, "owner"), (4, "admin")))])
    role = next(column for column in TENANT.columns if column.key == "role")
    for reverse, expected in ((False, ["id-4", "id-3"]), (True, ["id-3", "id-4"])):
        view.sort_by(role, reverse)
        assert [view.id_at(index) for index in range(2)] == expected
        assert {view.id_at(2), view.id_at(3)} == {"id-1", "id-2"}


async def test_names_are_shown_and_never_obeyed() -> None:
    names = ("[bold]x[/]", "[/x]", "[@click=app.quit]x[/]", "a\x1b]0;PWNED\x07b", "\x9b31m", "a\rb")
    async with table_app(*(tenant(number, name) for number, name in enumerate(names))) as (app, _pilot):
        for name, line in zip(names, app.lines()[1:], strict=False):
            assert not set(map(ord, line)) & {*range(32), *range(127, 160)}
            assert safe(name) in line


@pytest.mark.parametrize("columns_of_screen", [1, 2, 8, 20, 40, 80, 200])
async def test_no_width_of_the_screen_breaks_the_line(columns_of_screen: int) -> None:
    wide = [tenant(1, "漢字" * 60), tenant(2, "e\u0301" * 90), tenant(3, "👩‍👩‍👧‍👦" * 30)]
    async with table_app(*wide, size=(columns_of_screen, 10)) as (app, pilot):
        for y in range(app.table.size.height):
            assert app.table.render_line(y).cell_length == app.table.size.width
        app.table.post_message(Resize(Size(30, 5), Size(30, 5)))
        await pilot.pause()


async def test_clicks_move_open_and_sort() -> None:
    async with table_app(*(tenant(number, f"{9 - number}") for number in range(5))) as (app, pilot):
        await pilot.click(RecordTable, offset=(4, 3))
        assert app.table.record == tenant(2, "7")
        await pilot.click(RecordTable, offset=(4, 3), times=2)
        assert app.opened == ["id-2"]
        await pilot.click(RecordTable, offset=(4, 0))
        assert app.table.view[0]["displayName"] == "5"
        assert "▲" in app.lines()[0]


def test_the_switcher_ranks_prefixes_and_recent_tenants_first() -> None:
    names = ("Web Shop", "Shop Web", "Data", "Web Other")
    records = [RememberedTenant.of_row(tenant(number, name)) for number, name in enumerate(names, 1)]
    for typed, recent, ranks in (
        ("", ["id-3", "id-2"], ["id-3", "id-2", "id-1", "id-4"]),
        ("web", ["id-4"], ["id-4", "id-1", "id-2"]),
        ("WEB aurora", [], ["id-1"]),
        ("nothing", [], []),
    ):
        assert [one.id for one in ranked(searchable(records), typed, recent)] == ranks


def test_the_switcher_finds_a_tenant_by_its_id_only_from_the_first_group_on() -> None:
    shop, other = WEB_SHOP, "7793d4e5-0000-4000-8000-000000000077"
    records = [RememberedTenant(one, "Shop", "shop") for one in (shop, other)]
    for typed, ids in (
        ("77", []),
        (shop[:7], []),
        (shop[:8], [shop]),
        (shop.upper(), [shop]),
        (f"shop {other}", [other]),
        (shop[9:], []),
    ):
        assert [one.id for one in ranked(searchable(records), typed, ())] == ids, typed


LONGEST = "gateway:application-gateways:read-metrics"


def view(kind: Any, columns: Sequence[Column], *records: dict[str, Any]) -> RecordView:
    records_view = RecordView(kind, columns)
    records_view.replace(records)
    return records_view


# The list has 53 cells at 72 columns, where the navigation begins, and 55 at 110, where the details do.
@pytest.mark.parametrize("space", [*range(52, 70), 100])
def test_the_name_of_an_operation_is_never_cut_however_narrow_the_list(space: int) -> None:
    path = [{"kind": "policy", "policyId": "p", "policyName": "from the office " * 4, "ruleIndex": 0, "paths": []}]
    record = {"operation": LONGEST, "access": "conditional", "by": path}
    columns = Access.columns(SimpleNamespace(_access_text=access_text))
    widths = {column.key: cells for column, cells in fitted(view(ACCESS, columns, record), space)}
    assert widths["operation"] >= len(LONGEST)
    assert "access" in widths
    catalogue = view(
        CATALOGUE, CATALOGUE.columns, {"name": LONGEST, "accessLevel": "permission", "description": "x" * 60}
    )
    assert dict(fitted(catalogue, space))[CATALOGUE.columns[0]] >= len(LONGEST)


def titles(records: RecordView) -> list[str]:
    return [column.title for column, _ in fitted(records, 200)]


def test_a_column_without_values_is_not_shown() -> None:
    one = {"id": "1", "name": "deploy", "type": "api_key", "gainedCount": 0, "lostCount": 2}
    expired = {**one, "id": "2", "status": "expired"}
    for records, last in (([one], []), ([one, expired], ["Status"])):
        assert titles(view(EFFECT, EFFECT.columns, *records)) == ["Key or identity", "Type", "+", "−", *last]


def test_a_filter_an_order_a_long_or_an_empty_list_hides_no_column() -> None:
    quota = {"used": 1, "limit": 2, "resourceType": "cpu"}
    tenants = [{"id": str(n), "displayName": f"t{n}", "tightestQuota": quota if n else None} for n in range(3)]
    filtered = view(TENANT, TENANT.columns, *tenants)
    every = titles(filtered)
    filtered.set_filter("t0")
    assert (len(filtered), titles(filtered)) == (1, every)
    bare = view(TENANT, TENANT.columns, *({**tenant, "tightestQuota": None} for tenant in tenants))
    column = next(column for column in TENANT.columns if column.key == "tightestQuota")
    assert column.title not in titles(bare)
    bare.sort_by(column)
    assert column.title in titles(bare)
    many = [{"id": str(n), "displayName": f"t{n}"} for n in range(UNKNOWN_SAMPLE + 1)]
    for records in ([], many):
        assert titles(view(TENANT, TENANT.columns, *records)) == [column.title for column in TENANT.columns]


def test_an_unknown_use_is_no_share_and_a_use_without_allowance_is_the_fullest() -> None:
    def shown(used: int | None, limit: int) -> tuple[str, float | None]:
        record = {"tightestQuota": {"used": used, "limit": limit, "title": "vCPUs"}}
        return tenants_screen._share_text(record), tightest_share(record)

    assert shown(None, 60) == ("— vCPUs", None)
    assert shown(0, 0) == ("0% vCPUs", 0.0)
    assert shown(3, 0) == ("999% vCPUs", math.inf)


def test_a_long_name_gets_the_space_that_other_columns_leave() -> None:
    columns = (Column("name", "Name"), Column("region", "Region"), Column("about", "About"))
    record = {"name": "n" * 40, "region": "se-sto-1", "about": ""}
    assert [cells for _, cells in fitted(view(TENANT, columns, record), 60)] == [40, 8]
