"""The demo world in this process, where a test counts statements."""

from pathlib import Path
from typing import Any

from sqlalchemy import select, update

from service.db import tables
from tests.api import device_sign_in, world_key
from tests.people import OWNER, WEB_SHOP
from tests.service.inside import Inside
from tests.service.queries import execute, fetch_scalars

TENANT = f"/api/v1/tenants/{WEB_SHOP}"
KEY = "tenant-reader"


class Counted(Inside):
    """The demo world in this process, asked by a key and by an owner's session."""

    def __init__(self, folder: Path, database_url: str | None) -> None:
        super().__init__(folder, database_url, "demo")
        scopes = {"scopes": ["compute:read", "organizations:read"], "rate_limit": 60_000}
        execute(self.platform.database, update(tables.api_keys).where(tables.api_keys.c.name == KEY).values(scopes))
        self.session = {"Authorization": f"Bearer {device_sign_in(self.form, OWNER)['access_token']}"}
        self.key = {"X-API-Key": world_key(folder, KEY)}

    def count(self, method: str, path: str, headers: dict[str, str], body: Any = None) -> int:
        self.forget()
        answer = self.ask(method, path, headers, body)
        assert answer.status_code == 200, answer.text
        return len(self.statements)


class Demo(Inside):
    """The demo world with a key that asks for decisions."""

    def __init__(self, folder: Path, database_url: str | None) -> None:
        super().__init__(folder, database_url, "demo")
        self.secret = world_key(folder, KEY)
        changed = {"scopes": ["decisions:evaluate"], "rate_limit": 60_000}
        execute(self.platform.database, update(tables.api_keys).where(tables.api_keys.c.name == KEY).values(changed))
        here = tables.resources.c.tenant_id == WEB_SHOP, tables.resources.c.kind == "instance"
        self.instance, *_ = fetch_scalars(self.platform.database, select(tables.resources.c.id).where(*here))

    def asked(self, path: str, body: dict[str, Any]) -> Any:
        answer = self.ask("POST", path, {"X-API-Key": self.secret}, body)
        assert answer.status_code == 200, answer.text
        return answer.json()
