"""Under mixed load, no permit that a decision from the tables denies."""

import json
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import Connection, select, update

from client.policy.coverage import Catalogue
from client.policy.document import parse_document
from client.policy.model import AccessRequest, RequestContext, Rule
from service.catalogue.operations import operations, roles, scope_of
from service.db import tables
from service.db.engine import Database
from tests.api import UnixConnection, exchange
from tests.people import ADMIN, MEMBER, OWNER, WEB_SHOP
from tests.policy import reference
from tests.service.access import READ, Iam, allow, deny
from tests.service.account import Key
from tests.service.conftest import KINDS, DemoUrl
from tests.service.queries import execute
from tests.service.running import Running

SECONDS = 25.0
AT_MOST_SECONDS = 240.0
"""A slow machine has this long to see what the proof rests on."""
SEEN, CHANGED = 20, 30
CATALOGUE = Catalogue([operation.name for operation in operations()])
LEVELS = {operation.name: operation.access_level for operation in operations()}
VERBS = {"GET": "read", "PATCH": "update"}


def rules(text: str) -> list[Rule]:
    return list(parse_document(text, CATALOGUE).document.rules)


ROLES = {name: rules(json.dumps(role.document)) for name, role in roles().items()}


def permitted(connection: Connection, key_id: str, question: AccessRequest) -> bool:
    """What a key may do by the tables alone: its scopes, its maker's role, its policies within their authors' roles."""
    keys, seats = tables.api_keys, tables.memberships
    key = connection.execute(select(keys).where(keys.c.id == key_id)).one()
    needed = scope_of(question.operation, LEVELS[question.operation])
    if key.revoked_at is not None or not {needed, f"{needed.partition(':')[0]}:*"} & {*key.scopes}:
        return False
    tenant = connection.execute(select(tables.tenants).where(tables.tenants.c.id == key.tenant_id)).one()

    def has_right(user_id: str) -> bool:
        seat = (seats.c.user_id == user_id) & (seats.c.organization_id == tenant.organization_id)
        role = connection.scalar(select(seats.c.role).where(seat))
        return role is not None and reference.decide(ROLES[role], question) > 0

    if not has_right(key.user_id):
        return False
    members, attached = tables.group_members, tables.policy_attachments
    groups = connection.scalars(select(members.c.group_id).where(members.c.member_id == key_id)).all()
    attachees = {("api_key", key_id), *(("group", group) for group in groups)}
    attachments = connection.execute(select(attached)).all()
    policies = {one.policy_id for one in attachments if (one.attachee_type, one.attachee_id) in attachees}
    if not policies:
        return True
    is_allowed = False
    for policy in connection.execute(select(tables.policies).where(tables.policies.c.id.in_(policies))):
        for rule in rules(policy.document):
            truth = reference.rule_truth(rule, question)
            if rule.effect == "deny" and truth != reference.FALSE:
                return False
            is_allowed |= rule.effect == "allow" and truth == reference.TRUE and has_right(policy.authored_by)
    return is_allowed


def grants(connection: Connection) -> str:
    parts = []
    for table, columns in (
        (tables.policies, ("id", "version", "authored_by")),
        (tables.policy_attachments, ("policy_id", "attachee_type", "attachee_id")),
        (tables.group_members, ("group_id", "member_id")),
        (tables.memberships, ("user_id", "organization_id", "role")),
        (tables.api_keys, ("id", "scopes", "revoked_at")),
    ):
        rows = connection.execute(select(*(table.c[name] for name in columns)))
        parts.append(sorted(map(str, rows)))
    return repr(parts)


@dataclass
class Load:
    platform: Running
    ends: float
    database: Database = field(init=False)
    checked: Counter[str] = field(default_factory=Counter)
    changes: Counter[int] = field(default_factory=Counter)
    wrong: list[Any] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.database = Database(self.platform.database_url)

    def goes_on(self) -> bool:
        """For its time, and then until enough was compared to be a proof."""
        now = time.monotonic()
        return now < self.ends or (now < self.ends + AT_MOST_SECONDS and not self.is_enough())

    def is_enough(self) -> bool:
        compared = min(self.checked["allowed"], self.checked["denied"])
        return compared > SEEN and sum(count for status, count in [*self.changes.items()] if status < 300) > CHANGED

    def change(self, seed: int, person: str, keys: list[Key]) -> None:
        chance, iam = random.Random(seed), Iam(self.platform, person)
        mine, groups = list[str](), list[str]()
        targets = ("*", f"frn:compute:*:{WEB_SHOP}:instances/*", "frn:compute:se-sto-1:*:*/*")

        while self.goes_on():
            key = chance.choice(keys)
            operation = chance.choice(("compute:*", "compute:instances:*", READ, "*", "storage:*"))
            rule = chance.choice((allow, allow, deny))(operation, targets=(chance.choice(targets),))
            step = chance.randrange(8)
            if step == 0 or not mine:
                answer = iam.create(f"load {seed}", rule)
                mine += [answer.json()["id"]] if answer.status == 201 else []
            elif step == 1 or not groups:
                answer = iam.ask("POST", "/iam/groups", {"name": f"load {seed} {chance.random()}"})
                groups += [answer.json()["id"]] if answer.status == 201 else []
            elif step == 2:
                answer = iam.attach(chance.choice(mine), "api_key", key.id)
            elif step == 3:
                answer = iam.detach(chance.choice(mine), "api_key", key.id)
            elif step == 4:
                answer = iam.attach(chance.choice(mine), "group", chance.choice(groups))
            elif step == 5:
                answer = iam.add(chance.choice(groups), "api_key", key.id)
            elif step == 6:
                answer = iam.edit(chance.choice(mine), rule)
            else:
                pool, path = chance.choice(((mine, "policies"), (groups, "groups")))
                answer = iam.ask("DELETE", f"/iam/{path}/{pool.pop(chance.randrange(len(pool)))}")
            assert answer.status < 500, answer
            self.changes[answer.status] += 1
            time.sleep(chance.uniform(0, 0.08))

    def demote(self, seed: int) -> None:
        """The admin is one thing and then another."""
        chance, seats = random.Random(seed), tables.memberships
        with self.database.read() as connection:
            admin = connection.scalar(select(tables.users.c.id).where(tables.users.c.email == ADMIN))
        while self.goes_on():
            role = chance.choice(("admin", "admin", "member", "viewer"))
            execute(self.database, update(seats).where(seats.c.user_id == admin).values(role=role))
            time.sleep(chance.uniform(0.1, 0.5))

    def use(self, seed: int, keys: list[Key], resources: list[dict[str, Any]]) -> None:
        """Use keys on resources; compare each answer if nothing has changed during the request."""
        chance = random.Random(seed)
        while self.goes_on():
            key, resource = chance.choice(keys), chance.choice(resources)
            method = chance.choice(("GET", "GET", "PATCH"))
            path = f"/api/v1/tenants/{WEB_SHOP}/resources/instance/{resource['id']}"
            with self.database.read() as connection:
                before = grants(connection)
            headers = {"X-API-Key": key.secret, "Content-Type": "application/json"}
            content = b"{}" if method == "PATCH" else None  # Refused as empty, once it is let in.
            answer = exchange(UnixConnection(self.platform.socket), method, path, headers, content)
            assert answer.status in (200, 400, 403, 409), answer
            facts = RequestContext(
                current_time=time.time(),
                region=resource["region"],
                principal_type="api_key",
                tenant=WEB_SHOP,
                request_tags={},
                resource_tags=resource["tags"],
            )
            name = f"frn:compute:{resource['region']}:{WEB_SHOP}:instances/{resource['id']}"
            question = AccessRequest(f"compute:instances:{VERBS[method]}", name, facts)
            with self.database.read() as connection:
                same = grants(connection) == before
                may = permitted(connection, key.id, question) if same else None
                same = same and grants(connection) == before
            with self.lock:
                if not same:
                    self.checked["changed meanwhile"] += 1
                elif method == "GET":
                    self.checked["allowed" if may else "denied"] += 1
                    if (answer.status == 200) is not may:
                        self.wrong.append((method, key.id, name, answer.status, may))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_permit_that_a_decision_from_scratch_denies(kind: str, demo_url: DemoUrl) -> None:
    with Running(demo_url(kind)) as platform:
        for person in (OWNER, ADMIN, MEMBER):
            platform.token(person)
        keys = [
            Key(platform, *scopes, person=person, rateLimit=60_000)
            for person in (OWNER, ADMIN, MEMBER)
            for scopes in (("compute:*",), ("compute:read", "storage:read"))
        ]
        resources = Iam(platform).get("/resources/instance?limit=20")["resources"]
        load = Load(platform, time.monotonic() + SECONDS)
        with ThreadPoolExecutor(6) as threads:
            jobs = [threads.submit(load.change, seed, person, keys) for seed, person in enumerate((OWNER, ADMIN))]
            jobs += [threads.submit(load.use, seed, keys, resources) for seed in (10, 11, 12)]
            jobs.append(threads.submit(load.demote, 20))
            for job in jobs:
                job.result()
        load.database.close()
    assert load.wrong == []
    assert load.is_enough(), (load.checked, load.changes)


def test_the_comparison_sees_a_permit_too_many(own: Running) -> None:
    iam, key = Iam(own), Key(own, "compute:*")
    resource = iam.get("/resources/instance")["resources"][0]
    name = f"frn:compute:{resource['region']}:{WEB_SHOP}:instances/{resource['id']}"
    question = AccessRequest("compute:instances:read", name, RequestContext(region=resource["region"], tenant=WEB_SHOP))
    database = Database(own.database_url)
    with database.read() as connection:
        assert permitted(connection, key.id, question)
    policy = iam.policy("all but this", allow("*"), deny("compute:instances:read"))
    group = iam.group("through a group")
    assert iam.add(group, "api_key", key.id).status == 204
    assert iam.attach(policy, "group", group).status == 204
    with database.read() as connection:
        assert not permitted(connection, key.id, question)
    database.close()
