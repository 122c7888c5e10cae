"""The demo world in this process with a key and a session, where a test counts statements."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import select, update

from service.authn import sessions
from service.db import tables
from service.oidc_issuer.issuer import LocalIssuer
from service.settings import AUDIENCE, CLIENT_ID
from tests.service.inside import Inside
from tests.service.running import WEB_SHOP

TENANT = f"/api/v1/tenants/{WEB_SHOP}"
KEY = "tenant-reader"


class Counted(Inside):
    """The demo world in this process, asked by a key and by an owner's session."""

    def __init__(self, folder: Path, database_url: str | None) -> None:
        super().__init__(folder, database_url, "demo")
        now, issuer = datetime.now(UTC), self.platform.issuer
        assert isinstance(issuer, LocalIssuer)
        session_id = str(uuid4())
        with self.platform.database.write() as connection:
            scopes = {"scopes": ["compute:read", "organizations:read"], "rate_limit": 60_000}
            connection.execute(update(tables.api_keys).where(tables.api_keys.c.name == KEY).values(scopes))
            owner = select(tables.memberships.c.user_id).join(
                tables.tenants, tables.tenants.c.organization_id == tables.memberships.c.organization_id
            )
            user_id = connection.scalars(
                owner.where(tables.tenants.c.id == WEB_SHOP, tables.memberships.c.role == "owner")
            ).first()
            assert user_id is not None
            sessions.start(
                connection,
                issuer=issuer.issuer,
                user_id=user_id,
                device="d",
                location="p",
                at=now,
                session_id=session_id,
            )
        instant = int(now.timestamp())
        claims = {"iss": issuer.issuer, "sub": user_id, "aud": AUDIENCE, "client_id": CLIENT_ID, "sid": session_id}
        times = {"iat": instant, "nbf": instant, "exp": instant + 600}
        token = issuer.sign(claims | times | {"jti": str(uuid4()), "scope": "openid"})
        self.session = {"Authorization": f"Bearer {token}"}
        self.key = {"X-API-Key": json.loads((folder / "world-keys.json").read_text())[KEY]["secret"]}

    def count(self, method: str, path: str, headers: dict[str, str], body: Any = None) -> int:
        """Return the number of statements of a request that succeeds."""
        self.forget()
        answer = self.ask(method, path, headers, body)
        assert answer.status_code == 200, answer.text
        return len(self.statements)
