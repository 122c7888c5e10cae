"""The demo world inside this process, with the statements of each request."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx

from tests.api import FORM, device_sign_in, world_key
from tests.people import WEB_SHOP
from tests.service.inside import Inside

IAM = f"/api/v1/tenants/{WEB_SHOP}/iam"


class World(Inside):
    """An application on the demo world; people and keys as headers."""

    def __init__(self, folder: Path, database_url: str) -> None:
        super().__init__(folder, database_url, "demo")
        self.folder = folder

    def client(self) -> httpx.AsyncClient:
        """For several requests at once, in one event loop."""
        transport = httpx.ASGITransport(self.app, client=("uid:0", 1))
        return httpx.AsyncClient(transport=transport, base_url="http://localhost")

    def session(self, email: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {device_sign_in(self._form, email)['access_token']}"}

    def key(self, name: str) -> dict[str, str]:
        return {"X-API-Key": world_key(self.folder, name)}

    def _form(self, path: str, **fields: str) -> Any:
        async def send() -> httpx.Response:
            async with self.client() as client:
                return await client.post(path, headers=FORM, content=urlencode(fields))

        return asyncio.run(send()).json()
