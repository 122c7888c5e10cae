"""Loads on instances of the demo data: reads and renames with one API key for each instance."""

from collections.abc import Callable, Iterator
from typing import Any

from tests.benchmarks.servers import MAX_KEY_RATE
from tests.benchmarks.wrk import NUMBER, Exchange, Load
from tests.people import OWNER, WEB_SHOP
from tests.service.account import Key
from tests.service.running import Running

KEYS = 16
INSTANCES = f"/api/v1/tenants/{WEB_SHOP}/resources/instance"
JSON = {"Content-Type": "application/json"}


def keys(platform: Running, *scopes: str) -> list[Key]:
    return [Key(platform, *scopes, rateLimit=MAX_KEY_RATE) for _ in range(KEYS)]


def instances(platform: Running, count: int = KEYS) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = platform.get(f"{INSTANCES}?limit={count}", as_=OWNER).json()["resources"]
    assert len(found) == count
    return found


def reads(platform: Running) -> Load:
    return Load([
        Exchange("GET", f"{INSTANCES}/{one['id']}", {"X-API-Key": key.secret}, is_right=one.__eq__)
        for key, one in _pairs(platform)
    ])  # fmt: skip


def renames(platform: Running) -> Load:
    return Load(
        [
            Exchange(
                "PATCH",
                f"{INSTANCES}/{one['id']}",
                {"X-API-Key": key.secret, **JSON},
                f'{{"name": "web-{NUMBER}"}}',
                is_renamed(one["id"]),
            )
            for key, one in _pairs(platform)
        ],
        volatile=("name", "updatedAt"),
    )


def is_renamed(identifier: str) -> Callable[[Any], bool]:
    return lambda answer: (answer["id"], answer["name"]) == (identifier, "web-00000000")


def bare_reads(answer: dict[str, Any]) -> Load:
    return Load([Exchange("GET", "/read", {}, is_right=answer.__eq__)])


def bare_writes(answer: dict[str, Any]) -> Load:
    body = f'{{"name": "web-{NUMBER}"}}'
    changed = answer | {"name": "web-00000000"}
    return Load([Exchange("PATCH", "/write", JSON, body, changed.__eq__)], volatile=("name",))


def _pairs(platform: Running) -> Iterator[tuple[Key, dict[str, Any]]]:
    return zip(keys(platform, "compute:read", "compute:write"), instances(platform), strict=True)
