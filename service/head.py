"""HEAD: what GET answers, without its body. RFC 9110 section 9.3.2

Here once for every route, so that a route, its rule and its audit line know GET only. The server below keeps the head
as it is, also the length of the body that would have come.
"""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadAsGet:
    """ASGI middleware that asks the application for GET and ends the answer after its head."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return
        told = asyncio.Event()

        async def head_only(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                told.set()

        async def until_told() -> Message:
            # A stream goes on until its reader leaves: the one who asked for its head only has all there is.
            await told.wait()
            return {"type": "http.disconnect"}

        # A copy, because the server goes by its own: it writes no body for HEAD.
        asked = {**scope, "method": "GET"}
        try:
            await self.app(asked, until_told, head_only)
        finally:
            # For the log line.
            scope.update({name: asked[name] for name in ("frost.caller", "frost.access", "route") if name in asked})
