"""Rows of the YAML seeds `demo` and `empty`."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection

from service.audit.entries import AuditEvent
from service.clock import wire_time
from service.db import tables
from service.files import read_table
from service.oidc_issuer.issuer import ISSUER
from service.seed import demo_access
from service.seed.insert import SEEDS_DIR, KeyMinter, Row, SeedFile, first_tag_versions, insert_rows, provision
from service.tenants.provisioning import KIND, operation_id, pending_steps

KEY_LIFE = timedelta(days=365)
SESSION_LIFE = timedelta(days=30)
RATE_LIMIT = 600
STEP_TOOK = timedelta(seconds=2)


def fill(connection: Connection, name: str, now: datetime, minting: KeyMinter) -> None:
    """Insert the rows of a seed, without the catalogue."""
    seed = SeedFile(name, now)
    insert_rows(connection, tables.platform_state, facts(seed))
    insert_rows(connection, tables.organizations, organizations(seed))
    insert_rows(connection, tables.users, people(seed))
    insert_rows(connection, tables.memberships, memberships(seed))
    insert_rows(connection, tables.tenants, tenants(seed))
    insert_rows(connection, tables.default_tag_versions, first_tag_versions(tenants(seed)))
    insert_rows(connection, tables.membership_tenants, membership_tenants(seed))
    insert_rows(connection, tables.tenant_quotas, changed_quotas(seed))
    ready = [entry for entry in seed.file["tenants"].values() if "provisioning" not in entry]
    provision(connection, [(entry["id"], seed.at(entry["created"])) for entry in ready])
    insert_rows(connection, tables.operations, provisioning(seed))
    insert_rows(connection, tables.resources, resources(seed))
    insert_rows(connection, tables.api_keys, api_keys(seed, minting))
    insert_rows(connection, tables.workload_identities, demo_access.identities(seed))
    insert_rows(connection, tables.groups, demo_access.groups(seed))
    insert_rows(connection, tables.group_members, demo_access.members(seed))
    insert_rows(connection, tables.policies, demo_access.policies(seed))
    insert_rows(connection, tables.policy_versions, demo_access.versions(seed))
    insert_rows(connection, tables.policy_attachments, demo_access.attachments(seed))
    insert_rows(connection, tables.sessions, sessions(seed))
    insert_rows(connection, tables.audit_log, audit(seed))


def facts(seed: SeedFile) -> Iterator[Row]:
    """Yield the rows of `platform_state`, except the name of the seed."""
    yield {"name": "loaded_at", "value": wire_time(seed.now)}
    yield {"name": "first_person", "value": seed.file["first_person"]}
    failing = [
        {"kind": entry["kind"], "tenantId": seed.id("tenants", entry["tenant"])}
        for entry in seed.file.get("failing_listings", ())
    ]
    yield {"name": "failing_listings", "value": json.dumps(failing)}


def organizations(seed: SeedFile) -> Iterator[Row]:
    for entry in seed.file["organizations"].values():
        yield {
            "id": entry["id"],
            "name": entry["name"],
            "slug": entry["slug"],
            "created_at": seed.at(entry["created"]),
        }


def people(seed: SeedFile) -> Iterator[Row]:
    for email, entry in seed.file["people"].items():
        home = entry.get("default_tenant")
        yield {
            "id": entry["id"],
            "email": email,
            "name": entry["name"],
            "default_tenant_id": seed.id("tenants", home) if home else None,
            "created_at": seed.at(entry["created"]),
        }


def memberships(seed: SeedFile) -> Iterator[Row]:
    for person in seed.file["people"].values():
        for organization, entry in person["memberships"].items():
            yield {
                "user_id": person["id"],
                "organization_id": seed.id("organizations", organization),
                "role": entry["role"],
                "limited": "tenants" in entry,
                "created_at": seed.at(entry.get("since", person["created"])),
            }


def membership_tenants(seed: SeedFile) -> Iterator[Row]:
    for person in seed.file["people"].values():
        for entry in person["memberships"].values():
            for tenant in entry.get("tenants", ()):
                yield {"user_id": person["id"], "tenant_id": seed.id("tenants", tenant)}


def tenants(seed: SeedFile) -> Iterator[Row]:
    for entry in seed.file["tenants"].values():
        created = seed.at(entry["created"])
        yield {
            "id": entry["id"],
            "organization_id": seed.id("organizations", entry["organization"]),
            "display_name": entry["name"],
            "slug": entry["slug"],
            "status": "provisioning" if "provisioning" in entry else "active",
            "default_tags": entry.get("default_tags", {}),
            "created_at": created,
            "updated_at": seed.maybe(entry.get("updated")) or created,
        }


def changed_quotas(seed: SeedFile) -> Iterator[Row]:
    """Yield the limits that differ from the defaults."""
    for entry in seed.file["tenants"].values():
        for resource_type, limit in entry.get("quotas", {}).items():
            yield {"tenant_id": entry["id"], "resource_type": resource_type, "limit": limit}


def provisioning(seed: SeedFile) -> Iterator[Row]:
    """Yield the provisioning job of each tenant, pending if it has `provisioning`."""
    for entry in seed.file["tenants"].values():
        created = seed.at(entry["created"])
        pending = entry.get("provisioning")
        steps = pending_steps()
        if pending is None:
            for position, step in enumerate(steps):
                started = created + position * STEP_TOOK
                times = {"startedAt": wire_time(started), "completedAt": wire_time(started + STEP_TOOK)}
                step.update(times, status="completed", attempts=1)
        done = None if pending is not None else created + len(steps) * STEP_TOOK
        yield {
            "run_id": entry["run"],
            "operation_id": operation_id(entry["id"]),
            "tenant_id": entry["id"],
            "kind": KIND,
            "status": "pending" if done is None else "completed",
            "started_by": seed.id("people", entry["by"]),
            "resource_type": "tenant",
            "resource_id": entry["id"],
            "progress": 0 if done is None else 100,
            "current_step": None,
            "steps": steps,
            "seq": 0 if done is None else 2 * len(steps),
            "counts": {},
            "snapshot": pending,
            "created_at": created,
            "started_at": None if done is None else created,
            "updated_at": done or created,
            "completed_at": done,
        }


def resources(seed: SeedFile) -> Iterator[Row]:
    if "resources" not in seed.file:
        return
    tenant_ids = {handle: entry["id"] for handle, entry in seed.file["tenants"].items()}
    for line in read_table(SEEDS_DIR / seed.file["resources"]):
        yield {
            "id": line["id"],
            "tenant_id": tenant_ids[line["tenant"]],
            "kind": line["kind"],
            "name": line["name"],
            "region": line["region"],
            "state": line["state"],
            "tags": json.loads(line["tags"]),
            "relations": json.loads(line["relations"]),
            "attributes": json.loads(line["attributes"]),
            "created_at": seed.at(line["created"]),
            "updated_at": seed.at(line["updated"]),
        }


def api_keys(seed: SeedFile, minting: KeyMinter) -> Iterator[Row]:
    for name, entry in seed.file.get("keys", {}).items():
        created = seed.at(entry["created"])
        yield minting.mint(name, entry["id"]) | {
            "id": entry["id"],
            "tenant_id": seed.id("tenants", entry["tenant"]),
            "user_id": seed.id("people", entry["by"]),
            "name": name,
            "description": entry.get("description", ""),
            "scopes": entry["scopes"],
            "rate_limit": entry.get("rate_limit", RATE_LIMIT),
            "created_at": created,
            "expires_at": seed.maybe(entry.get("expires")) or created + KEY_LIFE,
            "revoked_at": seed.maybe(entry.get("revoked")),
            "last_used_at": seed.maybe(entry.get("used")),
        }


def sessions(seed: SeedFile) -> Iterator[Row]:
    for entry in seed.file.get("sessions", ()):
        started = seed.at(entry["started"])
        yield {
            "id": entry["id"],
            "issuer": ISSUER,
            "subject": entry["id"],
            "user_id": seed.id("people", entry["by"]),
            "device": entry["device"],
            "place": entry["place"],
            "started_at": started,
            "last_seen_at": seed.at(entry["seen"]),
            "expires_at": started + SESSION_LIFE,
            "ended_at": seed.maybe(entry.get("ended")),
            "end_reason": entry.get("reason"),
        }


def audit(seed: SeedFile) -> Iterator[Row]:
    """Yield audit entries for the seed's contents, oldest first."""
    people = {email: entry["id"] for email, entry in seed.file["people"].items()}
    tenants = seed.file["tenants"]
    entries: list[Row] = []

    def add_entry(when: str, who: str, event: AuditEvent, tenant: str, target: str, details: dict[str, Any]) -> None:
        entries.append(
            {
                "at": seed.at(when),
                "request_id": f"world-{len(entries) + 1:04}",
                "actor_kind": "session",
                "actor_id": people[who],
                "organization_id": seed.id("organizations", tenants[tenant]["organization"]),
                "tenant_id": tenants[tenant]["id"],
                "operation": event.value,
                "target": target,
                "outcome": "done",
                "details": details,
            }
        )

    for handle, entry in tenants.items():
        name = {"displayName": entry["name"]}
        add_entry(entry["created"], entry["by"], AuditEvent.TENANT_CREATE, handle, f"tenant:{entry['id']}", name)
    for key, entry in seed.file.get("keys", {}).items():
        target = f"api_key:{entry['id']}"
        add_entry(entry["created"], entry["by"], AuditEvent.API_KEY_CREATE, entry["tenant"], target, {"name": key})
        if "revoked" in entry:
            add_entry(entry["revoked"], entry["by"], AuditEvent.API_KEY_REVOKE, entry["tenant"], target, {"name": key})
    for entry in seed.file.get("identities", {}).values():
        target = f"workload_identity:{entry['id']}"
        details = {"namespace": entry["namespace"], "serviceAccount": entry["service_account"]}
        add_entry(entry["created"], entry["by"], AuditEvent.WORKLOAD_IDENTITY_CREATE, entry["tenant"], target, details)
    for entry in seed.file.get("groups", {}).values():
        target = f"group:{entry['id']}"
        add_entry(
            entry["created"], entry["by"], AuditEvent.GROUP_CREATE, entry["tenant"], target, {"name": entry["name"]}
        )
    for entry in seed.file.get("policies", {}).values():
        target = f"policy:{entry['id']}"
        add_entry(
            entry["created"], entry["by"], AuditEvent.POLICY_CREATE, entry["tenant"], target, {"name": entry["name"]}
        )
        for kind, identifier in map(partial(demo_access.principal, seed), entry.get("attached", ())):
            details = {"attacheeType": kind, "attacheeId": identifier}
            add_entry(entry["created"], entry["by"], AuditEvent.POLICY_ATTACH, entry["tenant"], target, details)
    yield from sorted(entries, key=lambda row: row["at"])
