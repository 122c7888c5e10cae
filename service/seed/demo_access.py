"""The access rows of a world that is written down: groups, workload identities, policies and what they hang on."""

import json
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from client.policy.catalogue import Catalogue
from client.policy.document import canonical_text, parse_document
from service.catalogue.operations import operations
from service.seed.insert import Row

if TYPE_CHECKING:
    from service.seed.insert import World

PRINCIPALS = {"api_key": "keys", "workload_identity": "identities", "group": "groups"}


def groups(world: "World") -> Iterator[Row]:
    for entry in world.file.get("groups", {}).values():
        created = world.at(entry["created"])
        yield {
            "id": entry["id"],
            "tenant_id": world.id("tenants", entry["tenant"]),
            "name": entry["name"],
            "description": entry.get("description", ""),
            "version": 1,
            "created_by": world.id("people", entry["by"]),
            "created_at": created,
            "updated_at": created,
        }


def members(world: "World") -> Iterator[Row]:
    for entry in world.file.get("groups", {}).values():
        for member in entry.get("members", ()):
            kind, identifier = principal(world, member)
            yield {
                "group_id": entry["id"],
                "member_type": kind,
                "member_id": identifier,
                "tenant_id": world.id("tenants", entry["tenant"]),
                "added_by": world.id("people", entry["by"]),
                "added_at": world.at(entry["created"]),
            }


def identities(world: "World") -> Iterator[Row]:
    for entry in world.file.get("identities", {}).values():
        created = world.at(entry["created"])
        yield {
            "id": entry["id"],
            "tenant_id": world.id("tenants", entry["tenant"]),
            "cluster_id": entry["cluster"],
            "namespace": entry["namespace"],
            "service_account": entry["service_account"],
            "scopes": entry.get("scopes", []),
            "created_by": world.id("people", entry["by"]),
            "created_at": created,
            "updated_at": created,
        }


def policies(world: "World") -> Iterator[Row]:
    for entry in world.file.get("policies", {}).values():
        latest = history(world, entry)[-1]
        yield {
            "id": entry["id"],
            "tenant_id": world.id("tenants", entry["tenant"]),
            "name": entry["name"],
            "description": entry.get("description", ""),
            "document": latest["document"],
            "version": latest["version"],
            "authored_by": latest["authored_by"],
            "created_at": world.at(entry["created"]),
            "updated_at": latest["changed_at"],
        }


def versions(world: "World") -> Iterator[Row]:
    for entry in world.file.get("policies", {}).values():
        yield from history(world, entry)


def history(world: "World", entry: dict[str, Any]) -> list[Row]:
    """A policy's versions, oldest first: its `earlier` documents, then the one that counts now."""
    documents = [*entry.get("earlier", ()), {"document": entry["document"], "at": entry.get("updated")}]
    rows = []
    for number, told in enumerate(documents, start=1):
        by = world.id("people", told.get("by", entry["by"]))
        first = number == 1
        rows.append(
            {
                "policy_id": entry["id"],
                "version": number,
                "tenant_id": world.id("tenants", entry["tenant"]),
                "name": entry["name"],
                "description": entry.get("description", ""),
                "document": stored(told["document"]),
                "authored_by": by,
                "changed_by": by,
                "changed_at": world.at(entry["created"] if first else told["at"]),
                "change": "create" if first else "update",
                "changed": ["description", "document", "name"] if first else ["document"],
            }
        )
    return rows


def attachments(world: "World") -> Iterator[Row]:
    for entry in world.file.get("policies", {}).values():
        for attachee in entry.get("attached", ()):
            kind, identifier = principal(world, attachee)
            yield {
                "policy_id": entry["id"],
                "attachee_type": kind,
                "attachee_id": identifier,
                "tenant_id": world.id("tenants", entry["tenant"]),
                "attached_by": world.id("people", entry["by"]),
                "attached_at": world.at(entry["created"]),
            }


def principal(world: "World", named: dict[str, str]) -> tuple[str, str]:
    """`{group: deployers}` as type and id."""
    ((kind, handle),) = named.items()
    return kind, world.id(PRINCIPALS[kind], handle)


def stored(document: dict[str, Any]) -> str:
    """A document of the file as it is stored. Raises DocumentRefused for one the platform would not accept."""
    return canonical_text(parse_document(json.dumps(document), shipped()).document)


@cache
def shipped() -> Catalogue:
    """The catalogue of this version."""
    return Catalogue(operation.name for operation in operations())
