"""Rows of groups, workload identities and policies in a YAML seed."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from client.policy.coverage import Catalogue
from client.policy.document import canonical_text, parse_document
from service.catalogue.operations import operations
from service.seed.insert import Row, SeedFile

PRINCIPALS = {"api_key": "keys", "workload_identity": "identities", "group": "groups"}


def groups(seed: SeedFile) -> Iterator[Row]:
    for entry in seed.file.get("groups", {}).values():
        created = seed.at(entry["created"])
        yield {
            "id": entry["id"],
            "tenant_id": seed.id("tenants", entry["tenant"]),
            "name": entry["name"],
            "description": entry.get("description", ""),
            "version": 1,
            "created_by": seed.id("people", entry["by"]),
            "created_at": created,
            "updated_at": created,
        }


def members(seed: SeedFile) -> Iterator[Row]:
    for entry in seed.file.get("groups", {}).values():
        for member in entry.get("members", ()):
            kind, identifier = principal(seed, member)
            yield {
                "group_id": entry["id"],
                "member_type": kind,
                "member_id": identifier,
                "tenant_id": seed.id("tenants", entry["tenant"]),
                "added_by": seed.id("people", entry["by"]),
                "added_at": seed.at(entry["created"]),
            }


def identities(seed: SeedFile) -> Iterator[Row]:
    for entry in seed.file.get("identities", {}).values():
        created = seed.at(entry["created"])
        yield {
            "id": entry["id"],
            "tenant_id": seed.id("tenants", entry["tenant"]),
            "cluster_id": entry["cluster"],
            "namespace": entry["namespace"],
            "service_account": entry["service_account"],
            "scopes": entry.get("scopes", []),
            "created_by": seed.id("people", entry["by"]),
            "created_at": created,
            "updated_at": created,
        }


def policies(seed: SeedFile) -> Iterator[Row]:
    for entry in seed.file.get("policies", {}).values():
        latest = history(seed, entry)[-1]
        yield {
            "id": entry["id"],
            "tenant_id": seed.id("tenants", entry["tenant"]),
            "name": entry["name"],
            "description": entry.get("description", ""),
            "document": latest["document"],
            "version": latest["version"],
            "authored_by": latest["authored_by"],
            "created_at": seed.at(entry["created"]),
            "updated_at": latest["changed_at"],
        }


def versions(seed: SeedFile) -> Iterator[Row]:
    for entry in seed.file.get("policies", {}).values():
        yield from history(seed, entry)


def history(seed: SeedFile, entry: dict[str, Any]) -> list[Row]:
    """Return the versions of a policy, oldest first: the `earlier` documents, then the current."""
    documents = [*entry.get("earlier", ()), {"document": entry["document"], "at": entry.get("updated")}]
    rows = []
    for number, version in enumerate(documents, start=1):
        by = seed.id("people", version.get("by", entry["by"]))
        first = number == 1
        rows.append(
            {
                "policy_id": entry["id"],
                "version": number,
                "tenant_id": seed.id("tenants", entry["tenant"]),
                "name": entry["name"],
                "description": entry.get("description", ""),
                "document": canonical_document(version["document"]),
                "authored_by": by,
                "changed_by": by,
                "changed_at": seed.at(entry["created"] if first else version["at"]),
                "change": "create" if first else "update",
                "changed": ["description", "document", "name"] if first else ["document"],
            }
        )
    return rows


def attachments(seed: SeedFile) -> Iterator[Row]:
    for entry in seed.file.get("policies", {}).values():
        for attachee in entry.get("attached", ()):
            kind, identifier = principal(seed, attachee)
            yield {
                "policy_id": entry["id"],
                "attachee_type": kind,
                "attachee_id": identifier,
                "tenant_id": seed.id("tenants", entry["tenant"]),
                "attached_by": seed.id("people", entry["by"]),
                "attached_at": seed.at(entry["created"]),
            }


def principal(seed: SeedFile, named: dict[str, str]) -> tuple[str, str]:
    """Return the type and id of a reference such as `{group: deployers}`."""
    ((kind, handle),) = named.items()
    return kind, seed.id(PRINCIPALS[kind], handle)


def canonical_document(document: dict[str, Any]) -> str:
    """Return the canonical text of a document; raise InvalidDocument if it is not valid."""
    return canonical_text(parse_document(json.dumps(document), shipped_catalogue()).document)


@cache
def shipped_catalogue() -> Catalogue:
    return Catalogue(operation.name for operation in operations())
