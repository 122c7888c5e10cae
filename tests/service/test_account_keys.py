"""API keys as their makers and the screens read them."""

from typing import Any

from tests.service.running import MEMBER, OWNER, STAGING, WEB_SHOP, Running

DEPLOY = "32833106-536e-45df-80b2-d002cc92d33d"  # the owner's
READER = "a93f32a9-a172-4102-8e4e-dc90253d9e30"
START_STOP = "30f47f35-d038-4cfb-8add-40e92c34bf1c"
CMS = "9b0814f4-f224-4518-951f-d49dc045596e"  # of Newsroom, another person's
GONE = {"code": "NOT_FOUND", "message": "resource not found"}


def path(tenant: str, key: str = "") -> str:
    return f"/api/v1/tenants/{tenant}/api-keys{'/' + key if key else ''}"


def listed(platform: Running, tenant: str, **who: str) -> list[dict[str, Any]]:
    answer = platform.get(path(tenant), **who)
    assert answer.status == 200, answer
    keys: list[dict[str, Any]] = answer.json()["apiKeys"]
    return keys


def test_a_key_is_read_with_everything_but_its_secret(demo: Running) -> None:
    answer = demo.get(path(WEB_SHOP, DEPLOY), as_=OWNER)
    key = answer.json()
    assert key | {"createdAt": "", "expiresAt": "", "lastUsedAt": "", "keyPrefix": ""} == {
        "id": DEPLOY,
        "tenantId": WEB_SHOP,
        "tenantName": "Web Shop",
        "name": "deploy-pipeline",
        "description": "Rolls out every merge to main",
        "keyPrefix": "",
        "scopes": ["compute:*", "storage:*", "network:read"],
        "rateLimit": 600,
        "status": "active",
        "createdAt": "",
        "expiresAt": "",
        "revokedAt": None,
        "lastUsedAt": "",
        "creatorId": "dfb359ee-cc3a-4c40-8c3e-0826d45751a4",
        "creatorName": "Astrid Lindqvist",
        "creatorEmail": OWNER,
    }
    secret = demo.key("deploy-pipeline")
    assert key["keyPrefix"] == secret[:12]
    assert secret[12:].encode() not in answer.body


def test_the_list_has_the_keys_of_everybody_in_the_tenant_and_no_other(demo: Running) -> None:
    keys = listed(demo, WEB_SHOP, as_=MEMBER)
    assert {key["tenantId"] for key in keys} == {WEB_SHOP}
    assert {key["creatorEmail"] for key in keys} > {OWNER, MEMBER}
    made = [key["createdAt"] for key in keys]
    assert made == sorted(made, reverse=True)


def test_the_state_of_each_key_is_told(demo: Running) -> None:
    states = {key["name"]: key["status"] for key in listed(demo, WEB_SHOP, as_=OWNER)}
    assert states["contractor-2025"] == "revoked"
    assert states["old-deploy"] == "expired"
    assert states["deploy-pipeline"] == "active"


def test_another_persons_key_is_not_found_by_its_id(demo: Running) -> None:
    for tenant, key in ((WEB_SHOP, DEPLOY), (WEB_SHOP, CMS), (STAGING, DEPLOY), (WEB_SHOP, "nonsense")):
        answer = demo.get(path(tenant, key), as_=MEMBER)
        assert (answer.status, answer.json()) == (404, GONE)


def test_a_key_reads_itself_and_nothing_else_here(demo: Running) -> None:
    assert demo.get(path(WEB_SHOP, READER), key="tenant-reader").json()["name"] == "tenant-reader"
    other = demo.get(path(WEB_SHOP, DEPLOY), key="tenant-reader")
    assert (other.status, other.json()) == (404, GONE)
    refused = demo.get(path(WEB_SHOP), key="tenant-reader")
    assert (refused.status, refused.json()["error"]["code"]) == (403, "SESSION_REQUIRED")
