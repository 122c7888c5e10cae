"""The demo world in this process, with a key that asks for decisions."""

import json
from pathlib import Path
from typing import Any

from sqlalchemy import select, update

from service.db import tables
from tests.service.inside import Inside
from tests.service.running import WEB_SHOP

ASKING = "tenant-reader"


class Demo(Inside):
    """The demo world in this process, one of whose keys may ask."""

    def __init__(self, folder: Path, database_url: str | None) -> None:
        super().__init__(folder, database_url, "demo")
        self.secret = json.loads((folder / "world-keys.json").read_text())[ASKING]["secret"]
        with self.platform.database.write() as connection:
            made = tables.api_keys.c.name == ASKING
            changed = {"scopes": ["decisions:evaluate"], "rate_limit": 60_000}
            connection.execute(update(tables.api_keys).where(made).values(changed))
            here = tables.resources.c.tenant_id == WEB_SHOP, tables.resources.c.kind == "instance"
            self.instance = connection.scalars(select(tables.resources.c.id).where(*here)).first()

    def asked(self, path: str, body: dict[str, Any]) -> Any:
        answer = self.ask("POST", path, {"X-API-Key": self.secret}, body)
        assert answer.status_code == 200, answer.text
        return answer.json()
