"""The rows of a world that is written down name by name: `demo.yaml`, `empty.yaml`, and the demo's inventory."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection

from service.audit.events import AuditEvent
from service.catalogue.data_files import table
from service.clock import wire_time
from service.db import tables
from service.oidc_issuer.issuer import ISSUER
from service.seed import demo_access
from service.seed.insert import SEEDS, KeyMinter, Row, World, add, first_tags, set_up
from service.tenants.provisioning import KIND, operation_id, pending_steps

KEY_LIFE = timedelta(days=365)  # checklist K22
SESSION_LIFE = timedelta(days=30)
RATE_LIMIT = 600  # checklist K33
STEP_TOOK = timedelta(seconds=2)


def fill(connection: Connection, name: str, now: datetime, minting: KeyMinter) -> None:
    """Add every row of the world `name` except the catalogue's."""
    world = World(name, now)
    add(connection, tables.platform_state, facts(world))
    add(connection, tables.organizations, organizations(world))
    add(connection, tables.users, people(world))
    add(connection, tables.memberships, memberships(world))
    add(connection, tables.tenants, tenants(world))
    add(connection, tables.default_tag_versions, first_tags(tenants(world)))
    add(connection, tables.membership_tenants, membership_tenants(world))
    add(connection, tables.tenant_quotas, changed_quotas(world))
    ready = [entry for entry in world.file["tenants"].values() if "provisioning" not in entry]
    set_up(connection, [(entry["id"], world.at(entry["created"])) for entry in ready])
    add(connection, tables.operations, provisioning(world))
    add(connection, tables.resources, resources(world))
    add(connection, tables.api_keys, api_keys(world, minting))
    add(connection, tables.workload_identities, demo_access.identities(world))
    add(connection, tables.groups, demo_access.groups(world))
    add(connection, tables.group_members, demo_access.members(world))
    add(connection, tables.policies, demo_access.policies(world))
    add(connection, tables.policy_versions, demo_access.versions(world))
    add(connection, tables.policy_attachments, demo_access.attachments(world))
    add(connection, tables.sessions, sessions(world))
    add(connection, tables.audit_log, audit(world))


def facts(world: World) -> Iterator[Row]:
    """What `platform_state` says of this world beside its name."""
    yield {"name": "loaded_at", "value": wire_time(world.now)}
    yield {"name": "first_person", "value": world.file["first_person"]}
    failing = [
        {"kind": entry["kind"], "tenantId": world.id("tenants", entry["tenant"])}
        for entry in world.file.get("failing_listings", ())
    ]
    yield {"name": "failing_listings", "value": json.dumps(failing)}


def organizations(world: World) -> Iterator[Row]:
    for entry in world.file["organizations"].values():
        yield {
            "id": entry["id"],
            "name": entry["name"],
            "slug": entry["slug"],
            "created_at": world.at(entry["created"]),
        }


def people(world: World) -> Iterator[Row]:
    for email, entry in world.file["people"].items():
        home = entry.get("default_tenant")
        yield {
            "id": entry["id"],
            "email": email,
            "name": entry["name"],
            "default_tenant_id": world.id("tenants", home) if home else None,
            "created_at": world.at(entry["created"]),
        }


def memberships(world: World) -> Iterator[Row]:
    for person in world.file["people"].values():
        for organization, entry in person["memberships"].items():
            yield {
                "user_id": person["id"],
                "organization_id": world.id("organizations", organization),
                "role": entry["role"],
                "limited": "tenants" in entry,
                "created_at": world.at(entry.get("since", person["created"])),
            }


def membership_tenants(world: World) -> Iterator[Row]:
    for person in world.file["people"].values():
        for entry in person["memberships"].values():
            for tenant in entry.get("tenants", ()):
                yield {"user_id": person["id"], "tenant_id": world.id("tenants", tenant)}


def tenants(world: World) -> Iterator[Row]:
    for entry in world.file["tenants"].values():
        created = world.at(entry["created"])
        yield {
            "id": entry["id"],
            "organization_id": world.id("organizations", entry["organization"]),
            "display_name": entry["name"],
            "slug": entry["slug"],
            "status": "provisioning" if "provisioning" in entry else "active",
            "default_tags": entry.get("default_tags", {}),
            "created_at": created,
            "updated_at": world.maybe(entry.get("updated")) or created,
        }


def changed_quotas(world: World) -> Iterator[Row]:
    """The limits that differ from the platform's; the others are set up with the tenant."""
    for entry in world.file["tenants"].values():
        for resource_type, limit in entry.get("quotas", {}).items():
            yield {"tenant_id": entry["id"], "resource_type": resource_type, "limit": limit}


def provisioning(world: World) -> Iterator[Row]:
    """How each tenant was set up; the run of one that is not ready yet is open, for the platform to take up."""
    for entry in world.file["tenants"].values():
        created = world.at(entry["created"])
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
            "started_by": world.id("people", entry["by"]),
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


def resources(world: World) -> Iterator[Row]:
    if "resources" not in world.file:
        return
    tenant_ids = {handle: entry["id"] for handle, entry in world.file["tenants"].items()}
    for line in table(SEEDS / world.file["resources"]):
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
            "created_at": world.at(line["created"]),
            "updated_at": world.at(line["updated"]),
        }


def api_keys(world: World, minting: KeyMinter) -> Iterator[Row]:
    for name, entry in world.file.get("keys", {}).items():
        created = world.at(entry["created"])
        yield minting.mint(name, entry["id"]) | {
            "id": entry["id"],
            "tenant_id": world.id("tenants", entry["tenant"]),
            "user_id": world.id("people", entry["by"]),
            "name": name,
            "description": entry.get("description", ""),
            "scopes": entry["scopes"],
            "rate_limit": entry.get("rate_limit", RATE_LIMIT),
            "created_at": created,
            "expires_at": world.maybe(entry.get("expires")) or created + KEY_LIFE,
            "revoked_at": world.maybe(entry.get("revoked")),
            "last_used_at": world.maybe(entry.get("used")),
        }


def sessions(world: World) -> Iterator[Row]:
    for entry in world.file.get("sessions", ()):
        started = world.at(entry["started"])
        yield {
            "id": entry["id"],
            "issuer": ISSUER,
            "subject": entry["id"],
            "user_id": world.id("people", entry["by"]),
            "device": entry["device"],
            "place": entry["place"],
            "started_at": started,
            "last_seen_at": world.at(entry["seen"]),
            "expires_at": started + SESSION_LIFE,
            "ended_at": world.maybe(entry.get("ended")),
            "end_reason": entry.get("reason"),
        }


def audit(world: World) -> Iterator[Row]:
    """What the people of this world must have done for it to look as it does, oldest first."""
    people = {email: entry["id"] for email, entry in world.file["people"].items()}
    tenants = world.file["tenants"]
    told: list[Row] = []

    def tell(when: str, who: str, event: AuditEvent, tenant: str, target: str, details: dict[str, Any]) -> None:
        told.append(
            {
                "at": world.at(when),
                "request_id": f"world-{len(told) + 1:04}",
                "actor_kind": "session",
                "actor_id": people[who],
                "organization_id": world.id("organizations", tenants[tenant]["organization"]),
                "tenant_id": tenants[tenant]["id"],
                "operation": event.value,
                "target": target,
                "outcome": "done",
                "details": details,
            }
        )

    for handle, entry in tenants.items():
        name = {"displayName": entry["name"]}
        tell(entry["created"], entry["by"], AuditEvent.TENANT_CREATE, handle, f"tenant:{entry['id']}", name)
    for key, entry in world.file.get("keys", {}).items():
        target = f"api_key:{entry['id']}"
        tell(entry["created"], entry["by"], AuditEvent.API_KEY_CREATE, entry["tenant"], target, {"name": key})
        if "revoked" in entry:
            tell(entry["revoked"], entry["by"], AuditEvent.API_KEY_REVOKE, entry["tenant"], target, {"name": key})
    for entry in world.file.get("identities", {}).values():
        target = f"workload_identity:{entry['id']}"
        details = {"namespace": entry["namespace"], "serviceAccount": entry["service_account"]}
        tell(entry["created"], entry["by"], AuditEvent.WORKLOAD_IDENTITY_CREATE, entry["tenant"], target, details)
    for entry in world.file.get("groups", {}).values():
        target = f"group:{entry['id']}"
        tell(entry["created"], entry["by"], AuditEvent.GROUP_CREATE, entry["tenant"], target, {"name": entry["name"]})
    for entry in world.file.get("policies", {}).values():
        target = f"policy:{entry['id']}"
        tell(entry["created"], entry["by"], AuditEvent.POLICY_CREATE, entry["tenant"], target, {"name": entry["name"]})
        for kind, identifier in map(partial(demo_access.principal, world), entry.get("attached", ())):
            details = {"attacheeType": kind, "attacheeId": identifier}
            tell(entry["created"], entry["by"], AuditEvent.POLICY_ATTACH, entry["tenant"], target, details)
    yield from sorted(told, key=lambda row: row["at"])
