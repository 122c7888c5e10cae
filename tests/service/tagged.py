"""A tenant with resources of all sorts, straight in a database, and an apply of default tags over them."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Table, insert, select, update

from service.catalogue.resource_types import kinds
from service.clock import FixedClock
from service.db.engine import Database
from service.db.tables import (
    applied_tags,
    audit_log,
    memberships,
    operations,
    organizations,
    platform_state,
    resources,
    tenants,
    users,
)
from service.default_tags import apply_job
from service.default_tags.apply_batch import TagChange
from service.default_tags.apply_job import ApplyJob
from service.default_tags.tag_rules import plan_add
from tests.service import factories
from tests.service.queries import execute, fetch, fetch_row

BEFORE = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
NOW = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)
DEFAULTS = {"cost-center": "eu.core:7", "env": "prod", "team": "platform"}
REST = {"name": "r", "region": "se-sto-1", "attributes": {}, "created_at": BEFORE, "updated_at": BEFORE}


def ready(kind: str) -> str:
    """A state in which a resource of a kind takes tags."""
    return next(state for state in kinds()[kind].states if state not in kinds()[kind].refuses_tags)


@dataclass
class Tagged:
    """A tenant of an organization with one owner, on a database; `size` is how many resources a portion has."""

    database: Database
    size: int = 2_000
    organization_id: str = field(default_factory=lambda: str(uuid4()))
    tenant_id: str = field(default_factory=lambda: str(uuid4()))
    owner_id: str = field(default_factory=lambda: str(uuid4()))

    def __post_init__(self) -> None:
        ids = {"user_id": self.owner_id, "organization_id": self.organization_id}
        rows: dict[Table, factories.Row | list[factories.Row]] = {
            users: factories.user(self.owner_id, BEFORE),
            organizations: factories.organization(self.organization_id, BEFORE),
            memberships: factories.membership(BEFORE, **ids),
            tenants: factories.tenant(self.tenant_id, BEFORE, organization_id=self.organization_id),
        }
        with self.database.write() as connection:
            factories.add(connection, rows)

    @property
    def applying(self) -> ApplyJob:
        return ApplyJob(self.database, FixedClock(NOW), pace=0, least=self.size, most=self.size, max_retry_seconds=0.05)

    # State

    def resource(self, kind: str = "instance", **members: Any) -> str:
        return self.many(1, kind, **members)[0]

    def many(self, number: int, kind: str = "instance", **members: Any) -> list[str]:
        given = {"state": ready(kind), "tags": {}, "relations": {}} | members
        rows = [REST | {"id": str(uuid4()), "tenant_id": self.tenant_id, "kind": kind} | given for _ in range(number)]
        with self.database.write() as connection:
            factories.add(connection, {resources: rows})
        return [str(row["id"]) for row in rows]

    def change(self, resource_id: str, **members: Any) -> None:
        execute(self.database, update(resources).where(resources.c.id == resource_id).values(**members))

    def fail_listings(self, *kinds: str) -> None:
        """Make the backends of these kinds of the tenant unreachable."""
        value = json.dumps([{"tenantId": self.tenant_id, "kind": kind} for kind in kinds])
        execute(
            self.database,
            platform_state.delete().where(platform_state.c.name == "failing_listings"),
            insert(platform_state).values(name="failing_listings", value=value),
        )

    def row(self, resource_id: str) -> dict[str, Any]:
        return fetch_row(self.database, select(resources).where(resources.c.id == resource_id))

    def tags(self, resource_id: str) -> dict[str, str]:
        return dict(self.row(resource_id)["tags"])

    def all_rows(self) -> dict[str, dict[str, Any]]:
        rows = fetch(self.database, select(resources).where(resources.c.tenant_id == self.tenant_id))
        return {row.id: dict(row._mapping) for row in rows}

    # Runs

    def planned(self, tags: Mapping[str, str] = DEFAULTS, undoes: str | None = None) -> str:
        with self.database.write() as connection:
            job = TagChange(self.tenant_id, dict(tags), undoes)
            return apply_job.plan(connection, job, started_by=self.owner_id, at=BEFORE)

    def carried(self, run_id: str) -> dict[str, Any]:
        """Execute the run to its end; return its row."""
        going = self.applying.start(run_id)
        while going:
            going = self.applying.run_batch(run_id, self.size)
        self.applying.prune_undo_log(run_id)
        return self.operation(run_id)

    def applied(self, tags: Mapping[str, str] = DEFAULTS) -> dict[str, Any]:
        row = self.carried(self.planned(tags))
        assert row["status"] == "completed", row
        result: dict[str, Any] = row["result"]
        return result

    def undone(self, run_id: str) -> dict[str, Any]:
        result: dict[str, Any] = self.carried(self.planned(DEFAULTS, run_id))["result"]
        return result

    def preview(self, tags: Mapping[str, str] = DEFAULTS, undoes: str | None = None) -> dict[str, Any]:
        with self.database.read() as connection:
            return apply_job.preview(connection, TagChange(self.tenant_id, tags, undoes))

    def operation(self, run_id: str) -> dict[str, Any]:
        return fetch_row(self.database, select(operations).where(operations.c.run_id == run_id))

    def remembered(self, run_id: str) -> dict[str, list[str]]:
        rows = fetch(self.database, select(applied_tags).where(applied_tags.c.run_id == run_id))
        return {row.resource_id: row._mapping["keys"] for row in rows}

    def audited(self) -> list[tuple[str, str, str]]:
        entries = select(audit_log).where(audit_log.c.tenant_id == self.tenant_id).order_by(audit_log.c.id)
        return [(row.actor_kind, row.operation, row.outcome) for row in fetch(self.database, entries)]

    # Invariants

    def expected(self, before: dict[str, dict[str, Any]]) -> dict[str, Counter[str]]:
        """The expected result of each resource by the rules, counted by kind."""
        counts: dict[str, Counter[str]] = {}
        for row in before.values():
            outcome = plan_add(kinds()[row["kind"]], row["state"], row["tags"], row["relations"], DEFAULTS)
            counts.setdefault(row["kind"], Counter())[outcome.what] += 1
        return counts

    def is_all_or_none(self, before: dict[str, dict[str, Any]], run_id: str) -> None:
        """Check that each resource has all its missing keys, with a log, or is unchanged, and that the counts match."""
        remembered, updated = self.remembered(run_id), 0
        for resource_id, row in self.all_rows().items():
            if resource_id in remembered:
                assert row["tags"] == {**DEFAULTS, **before[resource_id]["tags"]}
                assert sorted(remembered[resource_id]) == sorted(DEFAULTS.keys() - before[resource_id]["tags"].keys())
                assert row["updated_at"] == NOW
                updated += 1
            else:
                assert row == before[resource_id]
        assert self.operation(run_id)["counts"]["summary"]["updated"] == updated


def every_sort(tagged: Tagged, each: int = 1) -> None:
    """Resources that an apply does all its different things with."""
    owner = {"owner": {"kind": "kubernetes_cluster", "id": "c"}}
    nearly_full = {f"k{number}": "" for number in range(48)}
    for _ in range(each):
        for tags in ({}, {"env": "dev"}, DEFAULTS, {"env": "prod", "app": "web", "Env": "x"}, nearly_full):
            tagged.resource("instance", tags=tags)
        tagged.resource("instance", state="building")
        tagged.resource("instance", state="building", tags=DEFAULTS)
        tagged.resource("instance", relations={"owner": {"kind": "node_pool", "id": "p"}})
        tagged.resource("image")
        tagged.resource("instance_snapshot")
        tagged.resource("volume", relations={"bootVolume": True, "attachedTo": {"kind": "instance", "id": "i"}})
        tagged.resource("volume", relations={"attachedTo": {"kind": "instance", "id": "i"}})
        tagged.resource("volume", relations=owner)
        tagged.resource("security_group", relations={"managed": True})
        tagged.resource("security_group")
        tagged.resource("load_balancer", relations=owner)
        tagged.resource("load_balancer")
        tagged.resource("lb_listener", relations={"parent": {"kind": "load_balancer", "id": "l"}})
        tagged.resource("public_ip", relations=owner)
        tagged.resource("kubernetes_cluster", tags={"of": "cluster"})
        tagged.resource("node_pool", relations={"parent": {"kind": "kubernetes_cluster", "id": "c"}})
        tagged.resource("database")
        tagged.resource("message_broker")
        tagged.resource("key_pair")
