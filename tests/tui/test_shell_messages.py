"""Queued messages: refreshes are merged, requests are not."""

from textual.message import Message

from client.tables.quotas import ORGANIZATION_QUOTA as TABLE
from tui.shell.list_screen import ListScreen
from tui.shell.routes import Navigate, RunAction
from tui.widgets.heading import Heading
from tui.widgets.record_table import RecordTable


def test_a_refresh_replaces_an_older_refresh_only() -> None:
    table = RecordTable(TABLE, TABLE.columns)
    refreshes: list[Message] = [
        RecordTable.Highlighted(table, None),
        RecordTable.Arranged(table),
        ListScreen.Moved(),
        Heading.Filtered("web"),
    ]
    for one in refreshes:
        assert [other for other in refreshes if one.can_replace(other)] == [one]


def test_an_opened_record_and_requests_are_never_merged() -> None:
    opened = RecordTable.Opened(RecordTable(TABLE, TABLE.columns), None)
    for message in (opened, RunAction("list.sort"), Navigate("tenants")):
        assert not message.can_replace(message)
    assert not RecordTable.Highlighted(opened.table, None).can_replace(opened)
