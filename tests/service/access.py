"""A running platform for tests of access policies: one function for each route, and documents in one line."""

import json
from typing import Any

from tests.api import Answer
from tests.people import OWNER, WEB_SHOP
from tests.service.running import Running

KEYS = {
    "terraform": "f08db22f-d293-456a-b170-fab23d90fbac",
    "tenant-reader": "a93f32a9-a172-4102-8e4e-dc90253d9e30",
    "tenant-writer": "47aa2dba-d9e2-4c8d-809f-001680289e32",
    "viewer-dashboard": "cd28d864-d6e8-4c6a-998f-69a0138851b0",
    "backup-runner": "3ce1268c-9c80-42e3-bfec-3fee8ed2305d",
    "contractor-2025": "d3cdfaf7-7613-48c0-93af-0473184cf29a",
    "ci-preview": "59f63b7e-1f19-40d9-b9a5-a4fb8d53694c",
    "cms": "9b0814f4-f224-4518-951f-d49dc045596e",
    "former-admin": "36480de2-bd5c-4366-b517-da60fb69e070",
}
IDENTITIES = {
    "checkout": "47eaa099-2cb6-416d-86dc-283cf0480ff9",
    "image-resizer": "1509bb0a-9bf1-4331-8a11-8783593942a4",
    "not-granted-yet": "f5ec52ed-0108-4475-92e1-bc7656670b14",
}
READ = "compute:instances:read"
STOREFRONT = "0c3073d2-03ba-4893-8d12-379c943c8a92"


def document(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"schemaVersion": "1", "rules": list(rules)}


def document_text(*rules: dict[str, Any]) -> str:
    return json.dumps(document(*rules))


def trial(*rules: dict[str, Any], operation: str = READ, target: str = "*", **facts: Any) -> dict[str, Any]:
    return {"documentText": document_text(*rules), "operation": operation, "target": target, "facts": facts}


def allow(*operations: str, targets: tuple[str, ...] = ("*",), **constraints: Any) -> dict[str, Any]:
    return _rule("allow", operations, targets, constraints)


def deny(*operations: str, targets: tuple[str, ...] = ("*",), **constraints: Any) -> dict[str, Any]:
    return _rule("deny", operations, targets, constraints)


def _rule(
    access: str, operations: tuple[str, ...], targets: tuple[str, ...], constraints: dict[str, Any]
) -> dict[str, Any]:
    rule: dict[str, Any] = {"name": "", "access": access, "operations": list(operations), "targets": list(targets)}
    return rule | ({"constraints": constraints} if constraints else {})


def code(answer: Answer) -> tuple[int, str]:
    """Status and code of a refusal, whichever envelope it is in."""
    body = json.loads(answer.body)
    return answer.status, (body.get("error") or body)["code"]


def details(answer: Answer) -> dict[str, Any]:
    found: dict[str, Any] = answer.json()["error"]["details"]
    return found


class Iam:
    """The routes of one tenant, requested by one person."""

    def __init__(self, platform: Running, person: str = OWNER, tenant: str = WEB_SHOP) -> None:
        self.platform = platform
        self.person = person
        self.base = f"/api/v1/tenants/{tenant}"

    def as_(self, person: str) -> "Iam":
        other = Iam(self.platform, person)
        other.base = self.base
        return other

    def ask(self, method: str, path: str, body: Any = None, if_match: str | None = None) -> Answer:
        headers = {"If-Match": if_match} if if_match else {}
        return self.platform.ask(method, f"{self.base}{path}", as_=self.person, body=body, headers=headers)

    def raw(self, method: str, path: str, content: bytes) -> Answer:
        headers = {"Authorization": f"Bearer {self.platform.token(self.person)}", "Content-Type": "application/json"}
        return self.platform.request(method, f"{self.base}{path}", headers, content)

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status == 200, answer
        return answer.json()

    # Requests that must succeed

    def access(self, kind: str, identifier: str) -> dict[str, Any]:
        return dict(self.get(f"/iam/access?principalType={kind}&principalId={identifier}"))

    def simulate(self, *rules: dict[str, Any], **asked: Any) -> dict[str, Any]:
        answer = self.ask("POST", "/iam/simulate", trial(*rules, **asked))
        assert answer.status == 200, answer
        return dict(answer.json())

    def group(self, name: str, **members: Any) -> str:
        answer = self.ask("POST", "/iam/groups", {"name": name, **members})
        assert answer.status == 201, answer
        return str(answer.json()["id"])

    def policy(self, name: str, *rules: dict[str, Any]) -> str:
        answer = self.create(name, *rules)
        assert answer.status == 201, answer
        return str(answer.json()["id"])

    def binding(self, name: str, scopes: list[str] | None = None) -> str:
        body = {"clusterId": STOREFRONT, "namespace": "tests", "serviceAccount": name}
        answer = self.ask("POST", "/workload-identity/bindings", body | ({"scopes": scopes} if scopes else {}))
        assert answer.status == 201, answer
        return str(answer.json()["id"])

    def done(self, answer: Answer) -> bool:
        """Whether a write that succeeded changed anything."""
        assert answer.status in (200, 204), answer
        return answer.headers["x-frost-changed"] == "true"

    # What may be refused

    def create(self, name: str, *rules: dict[str, Any]) -> Answer:
        return self.ask("POST", "/iam/policies", {"name": name, "document": document(*rules)})

    def edit(self, policy: str, *rules: dict[str, Any]) -> Answer:
        return self.ask("PATCH", f"/iam/policies/{policy}", {"document": document(*rules)})

    def attach(self, policy: str, kind: str, identifier: str) -> Answer:
        body = {"attacheeType": kind, "attacheeId": identifier}
        return self.ask("POST", f"/iam/policies/{policy}/attachments", body)

    def detach(self, policy: str, kind: str, identifier: str) -> Answer:
        return self.ask("DELETE", f"/iam/policies/{policy}/attachments?attacheeType={kind}&attacheeId={identifier}")

    def add(self, group: str, kind: str, identifier: str) -> Answer:
        return self.ask("POST", f"/iam/groups/{group}/members", {"memberType": kind, "memberId": identifier})

    def drop(self, group: str, kind: str, identifier: str) -> Answer:
        return self.ask("DELETE", f"/iam/groups/{group}/members?memberType={kind}&memberId={identifier}")

    def decision(self, kind: str, identifier: str, operation: str, target: str = "*", **facts: Any) -> bool:
        """Whether a principal may do something now, by `who`."""
        answer = self.ask("POST", "/iam/who", {"operation": operation, "target": target, "facts": facts})
        assert answer.status == 200, answer
        return any((one["type"], one["id"]) == (kind, identifier) for one in answer.json()["principals"])
