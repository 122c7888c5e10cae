"""The `large` world, for work at scale: generated from the few patterns of `large.yaml`, the same every time."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count, islice, product
from random import Random
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from service.catalogue.data_files import document
from service.catalogue.quota_types import quota_types
from service.clock import wire_time
from service.db import tables
from service.seed.insert import SEEDS, KeyMinter, Row, add, first_tags, offset, set_up

KEY_LIFE = timedelta(days=365)
RATE_LIMIT = 600


class Pattern:
    """The file, and the identifiers and instants made from it in a fixed order."""

    def __init__(self, now: datetime) -> None:
        self.file: dict[str, Any] = document(SEEDS / "large.yaml")
        self.now = now
        self.created = now + offset(self.file["created"])
        self.random = Random(self.file["seed"])  # noqa: S311 - names rows, guards nothing
        self.organizations = [self.id() for _ in self.file["organizations"]["names"]]
        self.people = {email: self.id() for email in self.file["people"]}
        each = self.file["organizations"]["tenants"]
        self.tenants = [(self.id(), owner) for owner in self.organizations for _ in range(each)]

    def id(self) -> str:
        return str(UUID(int=self.random.getrandbits(128), version=4))


def fill(connection: Connection, now: datetime, minting: KeyMinter) -> None:
    """Add every row of the large world except the catalogue's."""
    world = Pattern(now)
    add(connection, tables.platform_state, facts(world))
    add(connection, tables.organizations, organizations(world))
    add(connection, tables.users, people(world))
    add(connection, tables.memberships, memberships(world))
    add(connection, tables.tenants, tenants(world))
    add(connection, tables.default_tag_versions, first_tags(tenants(world)))
    add(connection, tables.tenant_quotas, changed_quotas(world))
    set_up(connection, [(tenant, world.created) for tenant, _ in world.tenants])
    add(connection, tables.organization_quotas, organization_quotas(world))
    add(connection, tables.resources, resources(world))
    add(connection, tables.api_keys, api_keys(world, minting))


def facts(world: Pattern) -> Iterator[Row]:
    yield {"name": "loaded_at", "value": wire_time(world.now)}
    yield {"name": "first_person", "value": world.file["first_person"]}
    yield {"name": "failing_listings", "value": json.dumps([])}


def organizations(world: Pattern) -> Iterator[Row]:
    for identifier, name in zip(world.organizations, world.file["organizations"]["names"], strict=True):
        yield {"id": identifier, "name": name, "slug": _slug(name), "created_at": world.created}


def people(world: Pattern) -> Iterator[Row]:
    for email, entry in world.file["people"].items():
        yield {
            "id": world.people[email],
            "email": email,
            "name": entry["name"],
            "default_tenant_id": world.tenants[0][0],
            "created_at": world.created,
        }


def memberships(world: Pattern) -> Iterator[Row]:
    for position, organization in enumerate(world.organizations):
        for email, entry in world.file["people"].items():
            yield {
                "user_id": world.people[email],
                "organization_id": organization,
                "role": entry["role"] if position == 0 else "member",
                "limited": False,
                "created_at": world.created,
            }


def tenants(world: Pattern) -> Iterator[Row]:
    words = world.file["tenants"]
    names = [f"{area} {stage}" for area, stage in product(words["areas"], words["stages"])]
    each = world.file["organizations"]["tenants"]
    for position, (tenant, organization) in enumerate(world.tenants):
        name = names[position % each]
        large = position == 0
        yield {
            "id": tenant,
            "organization_id": organization,
            "display_name": words["large"]["name"] if large else name,
            "slug": words["large"]["slug"] if large else _slug(name),
            "status": "active",
            "default_tags": words["default_tags"],
            "created_at": world.created,
            "updated_at": world.created,
        }


def changed_quotas(world: Pattern) -> Iterator[Row]:
    """The limits of the large tenant that differ from the platform's; the others are set up with every tenant."""
    for resource_type, limit in world.file["tenants"]["large"]["quotas"].items():
        yield {"tenant_id": world.tenants[0][0], "resource_type": resource_type, "limit": limit}


def organization_quotas(world: Pattern) -> Iterator[Row]:
    """What so many tenants have together, and room to raise some of them."""
    changed = world.file["tenants"]["large"]["quotas"]
    tenants, room = world.file["organizations"]["tenants"], world.file["organizations"]["room"]
    for position, organization in enumerate(world.organizations):
        for name, quota in quota_types().items():
            if quota.organization is not None:
                more = changed.get(name, quota.limit) - quota.limit if position == 0 else 0
                together = tenants * quota.limit + more
                limit = max(quota.organization, together + together * room // 100)
                yield {"organization_id": organization, "resource_type": name, "limit": limit}


def resources(world: Pattern) -> Iterator[Row]:
    entry = world.file["resources"]
    numbers = count(1)
    for position, (tenant, _) in enumerate(world.tenants):
        rest = entry["total"] - entry["per_tenant"] * (len(world.tenants) - 1)
        for number in islice(numbers, rest if position == 0 else entry["per_tenant"]):
            kind = next(kind for kind in entry["kinds"] if number % kind["every"] == 0)
            created = world.created + timedelta(minutes=number)
            yield {
                "id": world.id(),
                "tenant_id": tenant,
                "kind": kind["kind"],
                "name": kind["name"].format(n=number),
                "region": entry["regions"][number % len(entry["regions"])],
                "state": kind["state"],
                "tags": entry["tags"][number % len(entry["tags"])],
                "relations": {},
                "attributes": kind["attributes"],
                "created_at": created,
                "updated_at": created,
            }


def api_keys(world: Pattern, minting: KeyMinter) -> Iterator[Row]:
    entry = world.file["keys"]
    maker = world.people[world.file["first_person"]]
    for position, (tenant, _) in enumerate(world.tenants):
        for number in range(entry["per_tenant"]):
            identifier = world.id()
            name = f"{entry['names'][number % len(entry['names'])]}-{position:04}"
            yield minting.mint(name, identifier) | {
                "id": identifier,
                "tenant_id": tenant,
                "user_id": maker,
                "name": name,
                "scopes": entry["scopes"][number % len(entry["scopes"])],
                "rate_limit": RATE_LIMIT,
                "created_at": world.now - timedelta(days=30),
                "expires_at": world.now - timedelta(days=30) + KEY_LIFE,
            }


def _slug(name: str) -> str:
    return name.lower().replace(" ", "-")
