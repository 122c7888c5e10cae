"""The filter in the heading of a list."""

from tests.tui.alone import Alone
from tui.widgets.heading import Heading


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
