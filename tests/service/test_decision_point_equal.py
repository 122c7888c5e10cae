"""The decision point and the platform decide alike, for any principal, operation and resource.

The demo data are changed at random: documents and authors of policies, scopes of keys and identities, roles of people.
Then the same question goes to `/access/v1/evaluations`, and through the guard and the decisions of the routes.
"""

import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Connection, delete, insert, select, update
from starlette.requests import Request

from service.api.authorization import Credential, look_up
from service.api.enforcement import enforce, request_context, require, target_in
from service.authz import context as authz_context
from service.authz.context import TenantContext
from service.authz.entitlements import Entitlements
from service.authz.route_policies import ROUTE_POLICIES, RoutePolicy
from service.catalogue.operations import enforced_scopes, operations, roles
from service.catalogue.resource_types import kinds
from service.db import tables
from service.errors import ApiError
from service.principal import Principal
from service.principals import live_credentials
from service.resources import interactive, queries, routes
from tests.people import OUTSIDER, OWNER, PEOPLE, UNKNOWN_ID, WEB_SHOP
from tests.service.access import allow, deny, document_text
from tests.service.conftest import KINDS, DemoUrl
from tests.service.inside import Inside
from tests.service.queries import execute, fetch, fetch_scalars

ASKING = "tenant-reader"
SEEDS = range(4)
QUESTIONS = 200
TENANT = "/api/v1/tenants/{tenant_id}"
VERBS = {
    "list": ("GET", routes.RESOURCES),
    "create": ("POST", routes.RESOURCES),
    "read": ("GET", f"{routes.RESOURCES}/{{resource_id}}"),
    "update": ("PATCH", f"{routes.RESOURCES}/{{resource_id}}"),
    "delete": ("DELETE", f"{routes.RESOURCES}/{{resource_id}}"),
    **{verb: ("POST", f"{routes.RESOURCES}/{{resource_id}}/{verb}") for verb in ("start", "stop", "restart")},
}
REGIONS = ("fi-hel-1", "fi-hel-2", "de-fra-1")
TAGS: tuple[dict[str, str], ...] = ({"env": "dev"}, {"env": "prod"}, {"env": "dev", "team": "web"}, {})
ADDRESSES = ("203.0.113.7", "198.51.100.9", "2001:db8::7")
NAMES = tuple(operation.name for operation in operations())


class World:
    """The demo data in this process, changed at random, and the platform's decisions about them."""

    def __init__(self, inside: Inside, folder: Path) -> None:
        self.inside = inside
        self.platform = inside.platform
        keys = json.loads((folder / "world-keys.json").read_text())
        self.secrets = {name: key["secret"] for name, key in keys.items()}
        database = self.platform.database
        execute(database, update(tables.api_keys).values(rate_limit=60_000))
        self.people = {row.email: row.id for row in fetch(database, select(tables.users))}
        rows = fetch(database, select(tables.api_keys).order_by(tables.api_keys.c.name))
        rows.sort(key=lambda row: row.tenant_id != WEB_SHOP)
        self.keys = {row.name: row.id for row in rows[: 3 + sum(row.tenant_id == WEB_SHOP for row in rows)]}
        self.identities = fetch_scalars(database, select(tables.workload_identities.c.id))
        self.policies, self.groups = (
            fetch_scalars(database, select(table.c.id).where(table.c.tenant_id == WEB_SHOP))
            for table in (tables.policies, tables.groups)
        )
        columns = tables.resources.c
        self.resources = [
            row
            for kind in ("instance", "volume", "database")
            for here, most in ((columns.tenant_id == WEB_SHOP, 12), (columns.tenant_id != WEB_SHOP, 2))
            for row in fetch(database, select(tables.resources).where(columns.kind == kind, here).limit(most))
        ]

    def change(self, dice: random.Random) -> None:
        def some_scopes(*numbers: int) -> list[str]:
            return dice.sample(scopes, dice.choice(numbers))

        members = [self.people[email] for email in PEOPLE if email != OUTSIDER]
        owner, membership = self.people[OWNER], tables.memberships.c.user_id
        scopes = [scope for scope in enforced_scopes() if scope != "*"]
        identities, policy_id = tables.workload_identities, tables.policies.c.id
        others = [key for name, key in self.keys.items() if name != ASKING]
        changes: list[tuple[Column[str], Iterable[str], Callable[[], dict[str, Any]]]] = [
            (membership, members, lambda: {"role": dice.choice((*roles(), *["owner"] * 5, *["regional"] * 2))}),
            # The key that asks belongs to the owner, and must remain able to.
            (membership, [owner], lambda: {"role": "owner"}),
            (
                tables.resources.c.id,
                [resource.id for resource in self.resources],
                lambda: {"region": dice.choice(REGIONS), "tags": dice.choice(TAGS)},
            ),
            (policy_id, self.policies, lambda: {"document": random_document(dice), "version": dice.randrange(10**6)}),
            (policy_id, self.policies, lambda: {"authored_by": dice.choice((*members, *[owner] * 12))}),
            (tables.api_keys.c.id, [self.keys[ASKING]], lambda: {"scopes": ["decisions:*"]}),
            (tables.api_keys.c.id, others, lambda: {"scopes": some_scopes(5, 30, len(scopes), len(scopes))}),
            (identities.c.id, self.identities, lambda: {"scopes": some_scopes(0, 0, 30, len(scopes))}),
        ]
        attachees = {"group": self.groups, "api_key": others, "workload_identity": self.identities}
        with self.platform.database.write() as connection:
            for column, ids, values in changes:
                for one in ids:
                    connection.execute(update(column.table).where(column == one).values(values()))
            connection.execute(delete(tables.policy_attachments))
            for kind, attachee in ((kind, one) for kind, ids in attachees.items() for one in ids):
                for policy in dice.sample(self.policies, dice.choice((0, 1, 1, 1))):
                    row = {"policy_id": policy, "attachee_type": kind, "attachee_id": attachee}
                    by = {"tenant_id": WEB_SHOP, "attached_by": members[0], "attached_at": datetime.now(UTC)}
                    connection.execute(insert(tables.policy_attachments).values(row | by))

    def caller(self, connection: Connection, kind: str, name: str) -> Principal:
        if kind == "user":
            return Principal("session", "r", user_id=self.people.get(name, UNKNOWN_ID))
        if kind == "api_key":
            if name not in self.secrets:
                raise ApiError(401, "X", "x")
            return look_up(self.platform, Credential.of("api_key", self.secrets[name]))
        query = select(tables.workload_identities).where(tables.workload_identities.c.id == name)
        row = connection.execute(query).one_or_none()
        if row is None or not live_credentials.workload_has_grant(connection, row.tenant_id, row.id, row.scopes):
            raise ApiError(401, "X", "x")
        return Principal("workload", "r", workload_id=row.id, tenant_id=row.tenant_id, scopes=tuple(row.scopes))

    def does(self, subject: tuple[str, str], address: str, ask: Callable[[Connection, Any], None]) -> bool:
        """Return whether the platform accepts the caller's request from this address."""
        request = Request({"type": "http", "client": (address, 1), "headers": []})
        with self.platform.database.read() as connection:
            try:
                caller = self.caller(connection, *subject)
                ask(connection, (caller, request))
            except ApiError:
                return False
        return True

    def admitted(self, connection: Connection, by: Any, rule: RoutePolicy, path: dict[str, str]) -> TenantContext:
        """Authorize a request as the guard does before a route."""
        caller, request = by
        entitlements = Entitlements(caller, self.platform.decisions, connection)
        context = authz_context.authorize(rule, entitlements, path)
        facts = request_context(self.platform, request, context, self.platform.clock.now())
        grants = enforce(rule, entitlements, context, facts)
        assert isinstance(context, TenantContext)
        return replace(context, facts=facts, grants=grants)


Question = tuple[dict[str, Any], Callable[[Connection, Any], None]]


def on_resource(world: World, dice: random.Random) -> Question:
    verb = dice.choice([*VERBS])
    row = dice.choice(world.resources)
    kind = kinds()[row.kind]
    identifier = dice.choice((*[row.id] * 7, UNKNOWN_ID))
    tags = dice.choice((None, *TAGS)) if verb in ("update", "create") else None
    region = dice.choice(REGIONS)
    rule = ROUTE_POLICIES[VERBS[verb]]

    def ask(connection: Connection, by: Any) -> None:
        path = {"tenant_id": WEB_SHOP, "kind": kind.name, "resource_id": identifier}
        context = world.admitted(connection, by, rule, path)
        if tags is not None:
            context = replace(context, facts=replace(context.facts, request_tags=tags))
        if verb == "create":
            facts = replace(context.facts, region=region)
            require(world.platform, connection, context, target_in(context, None, region), facts)
        else:
            routes.get_resource_or_404(connection, world.platform, context, kind, identifier)

    name = dice.choice((verb, kind.operation(verb)))
    named = {"type": kind.name, "id": "*" if verb == "create" else identifier, "properties": {"region": region}}
    return {"action": {"name": name, "properties": tags or {}}, "resource": named}, ask


def on_session(world: World, dice: random.Random) -> Question:
    row = dice.choice(world.resources)
    operation = dice.choice([*interactive.KINDS_BY_OPERATION])
    path = f"/api/v1/tenants/{{tenant_id}}/interactive/{operation.split(':')[1]}"

    def ask(connection: Connection, by: Any) -> None:
        context = world.admitted(connection, by, ROUTE_POLICIES["POST", path], {"tenant_id": WEB_SHOP})
        resource = queries.find_of_kinds(connection, WEB_SHOP, interactive.KINDS_BY_OPERATION[operation], row.id)
        if resource is None:
            raise ApiError(404, "X", "x")
        facts = routes.request_context_of(context, resource)
        require(world.platform, connection, context, target_in(context, resource), facts)

    return {"action": {"name": operation}, "resource": {"type": row.kind, "id": row.id}}, ask


def on_tenant(world: World, dice: random.Random) -> Question:
    own = [rule for (_, path), rule in ROUTE_POLICIES.items() if path.startswith(TENANT) and rule.who == "principal"]
    rule = dice.choice([rule for rule in own if rule.permission and not rule.enforced_for_users])

    def ask(connection: Connection, by: Any) -> None:
        world.admitted(connection, by, rule, {"tenant_id": WEB_SHOP})

    return {"action": {"name": rule.permission}, "resource": {"type": "tenant", "id": WEB_SHOP}}, ask


def random_document(dice: random.Random) -> str:
    """Return a policy that allows much and denies some; sometimes an invalid one."""
    if dice.random() < 0.02:
        return document_text(allow("gone:*"))
    rules = [random_rule(dice) for _ in range(dice.randrange(1, 5))]
    if dice.random() < 0.7:
        rules.append(random_rule(dice) | {"access": "allow", "operations": ["*"], "targets": ["*"]})
    return document_text(*rules)


CONSTRAINTS: tuple[Callable[[random.Random], dict[str, Any]], ...] = (
    lambda dice: {},
    *[lambda dice: {"equals": {"frn:resourceTag/env": dice.choice(("dev", "prod"))}}] * 3,
    *[lambda dice: {"equals": {"frn:region": dice.choice(REGIONS)}}] * 2,
    lambda dice: {"notEquals": {"frn:requestTag/env": "prod"}},
    lambda dice: {"ipInRange": {"frn:sourceIp": [dice.choice(("203.0.113.0/24", "2001:db8::/32"))]}},
    lambda dice: {"equals": {"frn:principalType": dice.choice(("user", "api_key", "workload_identity"))}},
    lambda dice: {"before": {"frn:currentTime": f"{dice.choice((2020, 2099))}-01-01T00:00:00Z"}},
    lambda dice: {"equals": {"frn:tenant": dice.choice((WEB_SHOP, UNKNOWN_ID))}},
)


def random_rule(dice: random.Random) -> dict[str, Any]:
    operations = (dice.choice(NAMES), "*", "compute:*", "storage:*", f"*:*:{dice.choice([*VERBS])}")
    region, kind = dice.choice(("*", "*", *REGIONS)), dice.choice(("instances", "volumes", "databases", "*"))
    make, target = dice.choice((allow, allow, allow, deny)), dice.choice(("*", f"frn:*:{region}:*:{kind}/*"))
    return make(dice.choice(operations), targets=(target,), **dice.choice(CONSTRAINTS)(dice))


@pytest.fixture(scope="module", params=KINDS)
def world(
    request: pytest.FixtureRequest, demo_url: DemoUrl, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("platform")
    inside = Inside(folder, demo_url(request.param), "demo")
    yield World(inside, folder)
    inside.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_decision_point_and_the_platform_decide_alike(world: World, seed: int) -> None:
    dice = random.Random(seed)
    world.change(dice)
    subjects = [
        ("user", [*PEOPLE, "nobody@aurora.example"]),
        ("api_key", [*world.keys]),
        ("workload_identity", [*world.identities, UNKNOWN_ID]),
    ]
    questions, done = [], []
    for _ in range(QUESTIONS):
        kind, names = dice.choice(subjects)
        name = dice.choice(names)
        question, ask = dice.choice((on_resource, on_resource, on_session, on_tenant))(world, dice)
        address = dice.choice(ADDRESSES)
        identifier = world.keys[name] if kind == "api_key" else name
        subject = {"type": kind, "id": identifier, "properties": {"role": "owner", "scopes": ["*"]}}
        questions.append(question | {"subject": subject, "context": {"ip": address}})
        done.append(world.does((kind, name), address, ask))
    headers = {"X-API-Key": world.secrets[ASKING]}
    answer = world.inside.ask("POST", "/access/v1/evaluations", headers, {"evaluations": questions})
    assert answer.status_code == 200, answer.text
    decisions = [one["decision"] for one in answer.json()["evaluations"]]
    assert [(one, a, b) for one, a, b in zip(questions, decisions, done, strict=True) if a is not b] == []
    # Otherwise the test would prove little.
    assert min(sum(done), len(done) - sum(done)) >= QUESTIONS // 20
