"""The demo world as the acceptance tests name it."""

from typing import Any

from tests.homes import Home

AURORA = "21b19d01-a6e8-4950-818c-144893bd4e01"
BOREALIS = "3d0c4583-34e8-4bb0-a579-21b74ac1180d"
WEB_SHOP = "4793d4e5-9e63-4ff7-8783-9bb3aca1f5d5"
DATA_LAKE = "c169179d-57e5-43c5-bb9c-7dd71336348d"
STAGING = "c7125052-00f6-4680-9e94-e3a87bf1b117"
SANDBOX = "41b0ad7f-6e0c-4f17-b5cb-7ebdd582fa8c"
NEWSROOM = "eae729b9-26d8-4a2b-bf67-4649d1ea4d7d"
BOREALIS_STAGING = "88fa06a2-8420-4a2f-8270-43f8fe633181"
NOBODYS = "0c8f5f0e-4a3c-4f6f-9c55-3a6f6b2f1d11"

OWNER, ADMIN, MEMBER = "owner@aurora.example", "admin@aurora.example", "member@aurora.example"
VIEWER, REGIONAL = "viewer@aurora.example", "regional@aurora.example"
OTHER_OWNER, OUTSIDER = "owner@borealis.example", "outsider@example.com"


def listed(home: Home, *words: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = home.json("tenant", "list", *words)["items"]
    return items


def current(home: Home, **env: str) -> dict[str, Any]:
    record: dict[str, Any] = home.json("tenant", "current", env=env)
    return record
