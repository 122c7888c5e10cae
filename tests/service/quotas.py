"""A running platform as tests of quotas use it: limits asked for and reviewed, things made, rows put in by hand."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, delete, insert

from service.db.engine import Database
from service.db.tables import organization_quotas, quota_requests, resources, tenant_quotas
from service.quotas import limits
from tests.api import Answer
from tests.people import AURORA, OWNER, WEB_SHOP
from tests.service import factories
from tests.service.running import Running

REVIEWS = "/api/v1/platform/quota-requests"


class Quotas:
    """The quotas of one tenant and its organization, asked as one person."""

    def __init__(
        self, platform: Running, person: str = OWNER, tenant: str = WEB_SHOP, organization: str = AURORA
    ) -> None:
        self.platform, self.person = platform, person
        self.tenant, self.organization = tenant, organization
        self.path = f"/api/v1/tenants/{tenant}/quota-requests"
        self.organization_path = f"/api/v1/organizations/{organization}/quota-requests"

    def as_(self, person: str) -> "Quotas":
        return Quotas(self.platform, person, self.tenant, self.organization)

    # Requests that must succeed

    def get(self, path: str) -> Any:
        answer = self.platform.get(path, as_=self.person)
        assert answer.status == 200, answer
        return answer.json()

    def report(self) -> dict[str, dict[str, Any]]:
        """The tenant's quotas by resource type."""
        report = self.get(f"/api/v1/tenants/{self.tenant}/quotas-report")["report"]
        assert report["scope"] == "tenant"
        return {entry["resourceType"]: entry for entry in report["quotas"]}

    def organization_report(self) -> dict[str, dict[str, Any]]:
        report = self.get(f"/api/v1/organizations/{self.organization}/quotas-report")["report"]
        assert report["scope"] == "organization"
        return {entry["resourceType"]: entry for entry in report["quotas"]}

    def history(self) -> list[dict[str, Any]]:
        return list(self.get(self.path)["requests"])

    def organization_history(self) -> list[dict[str, Any]]:
        return list(self.get(self.organization_path)["requests"])

    def decided(self, resource_type: str, limit: int) -> dict[str, Any]:
        """The outcome of an accepted request."""
        answer = self.ask(resource_type, limit)
        assert answer.status == 201, answer
        return dict(answer.json()["request"])

    def waiting(self, resource_type: str, limit: int) -> dict[str, Any]:
        """A pending request of the organization."""
        answer = self.ask_organization(resource_type, limit)
        assert answer.status == 201, answer
        return dict(answer.json()["request"])

    # What may be refused

    def ask(self, resource_type: str, limit: Any, reason: Any = "launch", **headers: str) -> Answer:
        return self.send(self.path, {"resourceType": resource_type, "limit": limit, "reason": reason}, **headers)

    def ask_organization(self, resource_type: str, limit: Any, reason: Any = "launch", **headers: str) -> Answer:
        body = {"resourceType": resource_type, "limit": limit, "reason": reason}
        return self.send(self.organization_path, body, **headers)

    def send(self, path: str, body: Any, **headers: str) -> Answer:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.platform.ask("POST", path, as_=self.person, body=body, headers=sent)

    def review(self, request_id: str, decision: str, **members: Any) -> Answer:
        return self.platform.ask("POST", f"{REVIEWS}/{request_id}/review", body={"decision": decision} | members)

    def create(self, kind: str, **attributes: Any) -> Answer:
        body = {"name": "made-here", "region": "se-sto-1"} | ({"attributes": attributes} if attributes else {})
        return self.send(f"/api/v1/tenants/{self.tenant}/resources/{kind}", body)

    # By hand

    @contextmanager
    def database(self) -> Iterator[Connection]:
        opened = Database(self.platform.database_url)
        with opened.write() as connection:
            yield connection
        opened.close()

    def give(self, resource_type: str, limit: int) -> None:
        """Set the tenant's limit, whatever the rules say."""
        with self.database() as connection:
            limits.set_limit(connection, self.tenant, resource_type, limit)

    def put(self, kind: str, *states: str, **attributes: int) -> None:
        """Resources of a kind, one for each state."""
        now = datetime.now(UTC)
        with self.database() as connection:
            connection.execute(insert(resources), [row(self.tenant, kind, state, attributes, now) for state in states])

    def forget(self) -> None:
        """As it was before anybody asked for anything here, and without resources."""
        with self.database() as connection:
            connection.execute(delete(quota_requests))
            connection.execute(delete(organization_quotas))
            for table in (tenant_quotas, resources):
                connection.execute(delete(table).where(table.c.tenant_id == self.tenant))


def row(tenant: str, kind: str, state: str, attributes: dict[str, int], at: datetime) -> dict[str, Any]:
    members = {"tenant_id": tenant, "kind": kind, "state": state, "attributes": attributes}
    return factories.resource(str(uuid4()), at, name="put here", **members)
