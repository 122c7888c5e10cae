"""The demo world in this process, where a test counts statements."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import select, update

from service.authn import sessions
from service.db import tables
from service.oidc_issuer.issuer import LocalIssuer
from service.settings import AUDIENCE, CLIENT_ID
from tests.api import world_key
from tests.people import WEB_SHOP
from tests.service.inside import Inside
from tests.service.queries import execute, fetch_scalars

TENANT = f"/api/v1/tenants/{WEB_SHOP}"
KEY = "tenant-reader"


class Counted(Inside):
    """The demo world in this process, asked by a key and by an owner's session."""

    def __init__(self, folder: Path, database_url: str | None) -> None:
        super().__init__(folder, database_url, "demo")
        now, issuer, session_id = datetime.now(UTC), self.platform.issuer, str(uuid4())
        assert isinstance(issuer, LocalIssuer)
        key, members = tables.api_keys, tables.memberships.c
        scopes = {"scopes": ["compute:read", "organizations:read"], "rate_limit": 60_000}
        execute(self.platform.database, update(key).where(key.c.name == KEY).values(scopes))
        owners = select(members.user_id).join(
            tables.tenants, tables.tenants.c.organization_id == members.organization_id
        )
        owners = owners.where(tables.tenants.c.id == WEB_SHOP, members.role == "owner")
        user_id, *_ = fetch_scalars(self.platform.database, owners)
        start: dict[str, Any] = {"issuer": issuer.issuer, "user_id": user_id, "device": "d", "location": "p", "at": now}
        with self.platform.database.write() as connection:
            sessions.start(connection, session_id=session_id, **start)
        instant = int(now.timestamp())
        claims = {"iss": issuer.issuer, "sub": user_id, "aud": AUDIENCE, "client_id": CLIENT_ID, "sid": session_id}
        times = {"iat": instant, "nbf": instant, "exp": instant + 600}
        token = issuer.sign(claims | times | {"jti": str(uuid4()), "scope": "openid"})
        self.session = {"Authorization": f"Bearer {token}"}
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
