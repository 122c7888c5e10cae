"""The application in this process, without a server: where a test must count what it asks of the database."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import event

from service.access import keys
from service.app import create_app
from service.platform import Platform
from service.settings import from_arguments


class Inside:
    """An application on a database; `statements` are those of the requests since the last `forget()`."""

    def __init__(self, folder: Path, database_url: str, world: str) -> None:
        arguments = ["--data-dir", str(folder), "--database", database_url, "--world", world]
        self.app = create_app(from_arguments(arguments, {}))
        self.platform: Platform = self.app.state.platform
        self.statements: list[str] = []
        event.listen(self.platform.database.engine, "before_cursor_execute", self._note)

    def _note(self, *noted: Any) -> None:
        if not noted[2].startswith("BEGIN"):
            self.statements.append(noted[2])

    def forget(self) -> None:
        self.statements.clear()

    def get(self, path: str, headers: dict[str, str]) -> httpx.Response:
        return self.ask("GET", path, headers)

    def ask(self, method: str, path: str, headers: dict[str, str], body: Any = None) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, client=("uid:0", 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await client.request(method, path, headers=headers, json=body)

        return asyncio.run(ask())

    def digest(self, secret: str) -> str:
        return keys.digest(self.platform.secret, secret)

    def close(self) -> None:
        self.platform.database.close()
