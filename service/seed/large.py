"""The `large` seed, generated deterministically from `large.yaml`."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count, islice, product
from random import Random
from typing import Any
from uuid import UUID

from sqlalchemy import Connection

from service.catalogue.resource_types import quota_types
from service.clock import wire_time
from service.db import tables
from service.files import load_yaml
from service.seed.insert import SEEDS_DIR, KeyMinter, Row, first_tag_versions, insert_rows, parse_offset, provision

KEY_LIFE = timedelta(days=365)
RATE_LIMIT = 600


class LargeSeed:
    """The file and the ids generated from it."""

    def __init__(self, now: datetime) -> None:
        self.file: dict[str, Any] = load_yaml(SEEDS_DIR / "large.yaml")
        self.now = now
        self.created = now + parse_offset(self.file["created"])
        self.random = Random(self.file["seed"])  # noqa: S311 - not for secrets
        self.organizations = [self.id() for _ in self.file["organizations"]["names"]]
        self.people = {email: self.id() for email in self.file["people"]}
        each = self.file["organizations"]["tenants"]
        self.tenants = [(self.id(), owner) for owner in self.organizations for _ in range(each)]

    def id(self) -> str:
        return str(UUID(int=self.random.getrandbits(128), version=4))


def fill(connection: Connection, now: datetime, minting: KeyMinter) -> None:
    """Insert the rows of the seed, without the catalogue."""
    seed = LargeSeed(now)
    insert_rows(connection, tables.platform_state, facts(seed))
    insert_rows(connection, tables.organizations, organizations(seed))
    insert_rows(connection, tables.users, people(seed))
    insert_rows(connection, tables.memberships, memberships(seed))
    insert_rows(connection, tables.tenants, tenants(seed))
    insert_rows(connection, tables.default_tag_versions, first_tag_versions(tenants(seed)))
    insert_rows(connection, tables.tenant_quotas, changed_quotas(seed))
    provision(connection, [(tenant, seed.created) for tenant, _ in seed.tenants])
    insert_rows(connection, tables.organization_quotas, organization_quotas(seed))
    insert_rows(connection, tables.resources, resources(seed))
    insert_rows(connection, tables.api_keys, api_keys(seed, minting))


def facts(seed: LargeSeed) -> Iterator[Row]:
    yield {"name": "loaded_at", "value": wire_time(seed.now)}
    yield {"name": "first_person", "value": seed.file["first_person"]}
    yield {"name": "failing_listings", "value": json.dumps([])}


def organizations(seed: LargeSeed) -> Iterator[Row]:
    for identifier, name in zip(seed.organizations, seed.file["organizations"]["names"], strict=True):
        yield {"id": identifier, "name": name, "slug": _slug(name), "created_at": seed.created}


def people(seed: LargeSeed) -> Iterator[Row]:
    for email, entry in seed.file["people"].items():
        yield {
            "id": seed.people[email],
            "email": email,
            "name": entry["name"],
            "default_tenant_id": seed.tenants[0][0],
            "created_at": seed.created,
        }


def memberships(seed: LargeSeed) -> Iterator[Row]:
    for position, organization in enumerate(seed.organizations):
        for email, entry in seed.file["people"].items():
            yield {
                "user_id": seed.people[email],
                "organization_id": organization,
                "role": entry["role"] if position == 0 else "member",
                "limited": False,
                "created_at": seed.created,
            }


def tenants(seed: LargeSeed) -> Iterator[Row]:
    words = seed.file["tenants"]
    names = [f"{area} {stage}" for area, stage in product(words["areas"], words["stages"])]
    each = seed.file["organizations"]["tenants"]
    for position, (tenant, organization) in enumerate(seed.tenants):
        name = names[position % each]
        large = position == 0
        yield {
            "id": tenant,
            "organization_id": organization,
            "display_name": words["large"]["name"] if large else name,
            "slug": words["large"]["slug"] if large else _slug(name),
            "status": "active",
            "default_tags": words["default_tags"],
            "created_at": seed.created,
            "updated_at": seed.created,
        }


def changed_quotas(seed: LargeSeed) -> Iterator[Row]:
    """Yield the limits that differ from the defaults."""
    for resource_type, limit in seed.file["tenants"]["large"]["quotas"].items():
        yield {"tenant_id": seed.tenants[0][0], "resource_type": resource_type, "limit": limit}


def organization_quotas(seed: LargeSeed) -> Iterator[Row]:
    """Yield limits that cover the tenants of each organization, with a margin."""
    changed = seed.file["tenants"]["large"]["quotas"]
    tenants, room = seed.file["organizations"]["tenants"], seed.file["organizations"]["room"]
    for position, organization in enumerate(seed.organizations):
        for name, quota in quota_types().items():
            if quota.organization is not None:
                more = changed.get(name, quota.limit) - quota.limit if position == 0 else 0
                together = tenants * quota.limit + more
                limit = max(quota.organization, together + together * room // 100)
                yield {"organization_id": organization, "resource_type": name, "limit": limit}


def resources(seed: LargeSeed) -> Iterator[Row]:
    entry = seed.file["resources"]
    numbers = count(1)
    for position, (tenant, _) in enumerate(seed.tenants):
        rest = entry["total"] - entry["per_tenant"] * (len(seed.tenants) - 1)
        for number in islice(numbers, rest if position == 0 else entry["per_tenant"]):
            kind = next(kind for kind in entry["kinds"] if number % kind["every"] == 0)
            created = seed.created + timedelta(minutes=number)
            yield {
                "id": seed.id(),
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


def api_keys(seed: LargeSeed, minting: KeyMinter) -> Iterator[Row]:
    entry = seed.file["keys"]
    maker = seed.people[seed.file["first_person"]]
    for position, (tenant, _) in enumerate(seed.tenants):
        for number in range(entry["per_tenant"]):
            identifier = seed.id()
            name = f"{entry['names'][number % len(entry['names'])]}-{position:04}"
            yield minting.mint(name, identifier) | {
                "id": identifier,
                "tenant_id": tenant,
                "user_id": maker,
                "name": name,
                "scopes": entry["scopes"][number % len(entry["scopes"])],
                "rate_limit": RATE_LIMIT,
                "created_at": seed.now - timedelta(days=30),
                "expires_at": seed.now - timedelta(days=30) + KEY_LIFE,
            }


def _slug(name: str) -> str:
    return name.lower().replace(" ", "-")
