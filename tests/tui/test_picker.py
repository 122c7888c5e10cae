"""The picker while its records load."""

from textual.app import App

from client.tables.columns import TENANT, Record
from tui.widgets.picker import Picker
from tui.widgets.record_table import RecordTable


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
