"""The `Location` of a created object is the path at which it is read."""

from typing import Any

import pytest

from tests.people import AURORA, OWNER, WEB_SHOP
from tests.service.access import allow, document
from tests.service.running import Running

TENANT = f"/api/v1/tenants/{WEB_SHOP}"
CREATED: dict[str, tuple[str, dict[str, Any]]] = {
    "policy": (f"{TENANT}/iam/policies", {"name": "located", "document": document(allow("compute:*:read"))}),
    "group": (f"{TENANT}/iam/groups", {"name": "located"}),
    "key": (f"{TENANT}/api-keys", {"name": "located", "scopes": ["compute:read"]}),
    "tenant": (f"/api/v1/organizations/{AURORA}/tenants", {"displayName": "located"}),
    "resource": (f"{TENANT}/resources/volume", {"name": "located", "region": "de-fra-1", "attributes": {"sizeGb": 1}}),
}


@pytest.mark.parametrize("kind", CREATED)
def test_a_created_object_is_read_at_its_location(platform: Running, kind: str) -> None:
    path, body = CREATED[kind]
    answer = platform.ask("POST", path, as_=OWNER, body=body)
    assert answer.status == 201, answer
    location, body = answer.headers["location"], answer.json()
    stored = platform.get(location, as_=OWNER)
    assert stored.status == 200, stored
    assert stored.json()["id"] == body.get("apiKey", body)["id"]
    if kind == "key":
        rotated = platform.ask("POST", f"{location}/rotate", as_=OWNER, body={})
        assert platform.get(rotated.headers["location"], as_=OWNER).json()["id"] == rotated.json()["apiKey"]["id"]
