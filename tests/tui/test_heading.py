"""The filter in the heading of a list."""

from textual.app import App, ComposeResult

from tui.widgets.heading import Heading


class Headed(App[None]):
    """A heading and nothing else."""

    def compose(self) -> ComposeResult:
        yield Heading("Failures and skips", lambda: self.screen.set_focus(None))


async def test_a_hidden_filter_is_shown_from_its_beginning() -> None:
    app = Headed()
    async with app.run_test(size=(60, 3)) as pilot:
        heading = app.query_one(Heading)
        heading.count("16 of 203")
        heading.put("type:instance")
        await pilot.pause()
        line = heading.query_one("LineInput")
        line.display = False
        await pilot.pause()
        heading.put("")
        await pilot.pause()
        heading.put("type:instance !type:instance_snapshot")
        await pilot.pause()
        assert line.scroll_offset.x == 0
