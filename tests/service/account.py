"""API keys of a running platform: created and used."""

from typing import Any

from tests.api import Answer
from tests.people import OWNER, WEB_SHOP
from tests.service.running import Running


def keys_of(tenant: str = WEB_SHOP) -> str:
    return f"/api/v1/tenants/{tenant}/api-keys"


def create(platform: Running, *scopes: str, person: str = OWNER, tenant: str = WEB_SHOP, **members: Any) -> Answer:
    headers = members.pop("headers", {})
    body = {"name": "test key", "scopes": list(scopes)} | members
    return platform.ask("POST", keys_of(tenant), as_=person, body=body, headers=headers)


class Key:
    """A new key, with the requests of its creator and those with it."""

    def __init__(self, platform: Running, *scopes: str, person: str = OWNER, tenant: str = WEB_SHOP, **members: Any):
        answer = create(platform, *scopes, person=person, tenant=tenant, **members)
        assert answer.status == 201, answer
        self.platform, self.person, self.tenant = platform, person, tenant
        self.made: dict[str, Any] = answer.json()["apiKey"]
        self.secret: str = answer.json()["key"]
        self.id: str = self.made["id"]

    @property
    def path(self) -> str:
        return f"{keys_of(self.tenant)}/{self.id}"

    def use(self, method: str = "GET", path: str = "/api/v1/me", body: Any = None, **headers: str) -> Answer:
        return self.platform.request(method, path, headers, key=self.secret, body=body)

    def manage(self, method: str, suffix: str = "", body: Any = None) -> Answer:
        return self.platform.ask(method, self.path + suffix, as_=self.person, body=body)

    def revoke(self) -> Answer:
        return self.manage("POST", "/revoke")
