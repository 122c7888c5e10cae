"""The callers of the demo world, and every route of the table as one request."""

import http.client
import json
import re
from dataclasses import dataclass
from typing import Any

from joserfc.jwk import ECKey

from service.authz.route_policies import ROUTE_POLICIES, RoutePolicy
from service.catalogue.operations import enforced_scopes
from tests.api import Answer, UnixConnection
from tests.people import (
    ADMIN,
    AURORA,
    BOREALIS,
    BOREALIS_OWNER,
    MEMBER,
    NEWSROOM,
    OUTSIDER,
    OWNER,
    REGIONAL,
    UNKNOWN_ID,
    VIEWER,
    WEB_SHOP,
)
from tests.service.access import KEYS, READ, STOREFRONT, Iam, allow, code, document, document_text
from tests.service.account import Key
from tests.service.clusters import Cluster, Workload
from tests.service.running import Running, ask_on

PEOPLE = {"owner": OWNER, "admin": ADMIN, "member": MEMBER, "viewer": VIEWER, "regional": REGIONAL}
PEOPLE |= {"owner of another": BOREALIS_OWNER, "outsider": OUTSIDER}
SCOPES = [scope for scope in enforced_scopes() if not scope.endswith("*")]
# They end the session of their caller; the stream does not end.
APART = ("account.delete", "session.revoke_all", "session.end")

_EVALUATION: dict[str, Any] = {
    "subject": {"type": "api_key", "id": KEYS["terraform"]},
    "action": {"name": READ},
    "resource": {"type": "instances", "id": UNKNOWN_ID},
}
_DRAFT = {"documentText": document_text(allow(READ))}
_QUESTION = {"operation": READ, "target": "*"}
_QUOTA = {"resourceType": "instance", "limit": 1, "reason": "x"}
_KEY = dict(ECKey.generate_key("P-256", auto_kid=True).as_dict(private=False))
BODIES: dict[str, Any] = {
    "tenant.create": {"displayName": "x"},
    "tenant.rename": {"displayName": "Web Shop"},
    "default_tags.update": {"tags": {}},
    "default_tags.undo": {"preview": True},
    "api_key.create": {"name": "made", "scopes": ["compute:read"]},
    "api_key.update": {"name": "renamed"},
    **{name: {} for name in ("default_tags.apply", "api_key.rotate", "workload_identity.update")},
    **{name: {"name": "x"} for name in ("group.create", "group.update", "policy.update")},
    "group.member.add": {"memberType": "api_key", "memberId": KEYS["terraform"]},
    "policy.create": {"name": "x", "document": document(allow(READ))},
    "policy.rollback": {"version": 1},
    "policy.attach": {"attacheeType": "api_key", "attacheeId": KEYS["terraform"]},
    "workload_identity.create": {"clusterId": STOREFRONT, "namespace": "x", "serviceAccount": "x"},
    "workload_identity.issuer.set": {"issuer": "https://cluster.example", "keys": [_KEY]},
    "resource.create": {"name": "x", "region": "eu-fra-1"},
    "resource.update": {"name": "renamed"},
    "interactive.open": {"resourceId": UNKNOWN_ID},
    "quota_request.create": _QUOTA,
    "quota_request.create_organization": _QUOTA,
    # Without a name in the audit log: what only tries.
    "preview": {},
    "simulate": _DRAFT | _QUESTION,
    "coverage": _DRAFT,
    "check": _DRAFT,
    "who": _QUESTION,
    # The decision point. Its bodies take any member: what it does not know is ignored, as its standard has it.
    "evaluation": _EVALUATION,
    "evaluations": {"evaluations": [_EVALUATION]},
    "subject": _EVALUATION | {"subject": {"type": "api_key"}},
    "resource": _EVALUATION | {"resource": {"type": "instances"}},
    "action": {name: _EVALUATION[name] for name in ("subject", "resource")},
}
QUERIES = {
    "group.member.remove": "memberType=api_key&memberId=" + KEYS["terraform"],
    "policy.detach": "attacheeType=api_key&attacheeId=" + KEYS["terraform"],
}
# Ids of another organization.
FOREIGN = {
    "tenant_id": NEWSROOM,
    "organization_id": BOREALIS,
    "key_id": KEYS["cms"],
    "cluster_id": "68b4aef7-3eaa-4e17-9d8a-4eace693ae2d",
    "resource_id": "acdd5646-ec93-4d0b-937d-1afc6542d2d0",
}
PLACES = {"tenant_id": WEB_SHOP, "organization_id": AURORA, "version": "1", "kind": "instance"}


@dataclass(frozen=True)
class Route:
    """A line of the table as a request that is well formed; by default its path names nothing that exists."""

    method: str
    path: str
    rule: RoutePolicy

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def ids(self) -> list[str]:
        return [name for name in re.findall(r"\{(\w+)\}", self.path) if name not in ("version", "kind")]

    def at(self, **ids: str) -> str:
        """The path with these ids; a tenant and an organization are those of the demo world's first person."""
        path = re.sub(r"\{(\w+)\}", lambda found: ids.get(found[1], PLACES.get(found[1], UNKNOWN_ID)), self.path)
        query = QUERIES.get(self.rule.audit_event or "")
        return f"{path}?{query}" if query else path

    @property
    def ignores_members(self) -> bool:
        return self.path.startswith("/access/")

    @property
    def body(self) -> Any:
        if self.method in ("GET", "DELETE"):
            return None
        return BODIES.get(self.rule.audit_event or self.path.rpartition("/")[2])


def routes() -> list[Route]:
    return [
        Route(method, path, rule)
        for (method, path), rule in ROUTE_POLICIES.items()
        if not rule.local and rule.who != "anyone" and rule.audit_event not in APART
    ]


def words(answer: Answer) -> tuple[int, str]:
    """Status and code of a refusal, or all it says where refusals are plain text."""
    return code(answer) if answer.headers["content-type"] == "application/json" else (answer.status, str(answer.body))


class Callers:
    def __init__(self, platform: Running) -> None:
        self.platform = platform
        Iam(platform).binding("isolated", SCOPES)
        cluster = Cluster(platform)
        assert cluster.register().status == 200
        self.headers = {
            **{name: {"Authorization": f"Bearer {platform.token(email)}"} for name, email in PEOPLE.items()},
            "key": {"X-API-Key": Key(platform, *SCOPES, rateLimit=60_000).secret},
            "workload": {"Authorization": f"Bearer {Workload(cluster, 'tests', 'isolated').token}"},
        }
        self.connection: http.client.HTTPConnection = UnixConnection(platform.socket)

    def ask(self, caller: str, method: str, path: str, body: Any = None, *more: tuple[str, str]) -> Answer:
        """A request; of a stream that would not end only the head."""
        typed = [("Content-Type", "application/json")] if body is not None else []
        content = None if body is None else json.dumps(body).encode()
        return ask_on(self.connection, method, path, (*self.headers[caller].items(), *more, *typed), content)
