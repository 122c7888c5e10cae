"""The dialog of a device code at several sizes."""

from textual.app import App
from textual.widgets import Static

from tui.contexts.sign_in import DeviceCode

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
