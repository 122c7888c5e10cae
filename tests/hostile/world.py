"""The demo world inside this process, with what each request asks of the database."""

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx

from tests.people import WEB_SHOP
from tests.service.inside import Inside
from tests.service.running import DEVICE_GRANT

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
        started = self._form("/issuer/device_authorization", client_id="frost-cli")
        self._form("/issuer/device/approve", user_code=started["user_code"], email=email)
        fields = {"device_code": started["device_code"], "client_id": "frost-cli", "grant_type": DEVICE_GRANT}
        return {"Authorization": f"Bearer {self._form('/issuer/token', **fields)['access_token']}"}

    def key(self, name: str) -> dict[str, str]:
        return {"X-API-Key": json.loads((self.folder / "world-keys.json").read_text())[name]["secret"]}

    def _form(self, path: str, **fields: str) -> Any:
        async def send() -> httpx.Response:
            async with self.client() as client:
                headers = {"Content-Type": "application/x-www-form-urlencoded"}
                return await client.post(path, headers=headers, content=urlencode(fields))

        return asyncio.run(send()).json()
