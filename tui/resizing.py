"""Resizing that comes to rest: what a screen is told of a size that is over already changes nothing."""

from textual import events
from textual.message_pump import MessagePump


class Resting(MessagePump):
    """Before `Screen` among the bases of a screen: it is laid out only for the size that the terminal has.

    Textual tells a screen its size in messages, and a layout sends one more: with two sizes under way at once each
    brought the other back, and the screen was painted without end.
    """

    async def _on_resize(self, event: events.Resize) -> None:
        if event.size != self.app.size:
            event.stop()
            event.prevent_default()
