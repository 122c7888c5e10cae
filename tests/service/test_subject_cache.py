"""Decisions about cached subjects use no data from before a change, whichever process made the change."""

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Executable, delete, insert, select, update

from service.authz.grant_caches import SubjectCache
from service.authzen import routes
from service.authzen.evaluation import MAX_SHORT_COMPARISONS
from service.db import tables
from service.db.engine import Database
from tests.people import AURORA, OWNER, WEB_SHOP
from tests.service import factories
from tests.service.access import STOREFRONT
from tests.service.conftest import KINDS, DemoUrl
from tests.service.counted import Demo
from tests.service.queries import execute, fetch_scalars
from tests.waiting import until

STATEMENTS = {"sqlite": 2, "postgresql": 1}
"""Of a decision about a cached subject: the revisions of the caller, and the decision."""
ALLOW = '{"schemaVersion":"1","rules":[{"access":"allow","operations":["compute:*"],"targets":["*"]}]}'
DENY = ALLOW.replace("allow", "deny")
KEY, IDENTITY, POLICY, GROUP, PERSON = "key", "identity", "policy", "group", "person"
EMAIL, FLY = "ada@x.example", "compute:instances:fly"
AT, LATE = datetime(2025, 1, 1, tzinfo=UTC), datetime(2999, 1, 1, tzinfo=UTC)
TIMES, HERE = {"created_at": AT, "updated_at": AT}, {"tenant_id": WEB_SHOP}
ID_OF_OWNER = select(tables.users.c.id).where(tables.users.c.email == OWNER).scalar_subquery()


def add_member(user_id: str) -> Executable:
    return insert(tables.memberships).values(factories.membership(AT, user_id=user_id, organization_id=AURORA))


def add_key(key_id: str) -> Executable:
    row = factories.api_key(key_id, AT, user_id=PERSON, scopes=["compute:write"], expires_at=LATE)
    return insert(tables.api_keys).values(row | HERE)


def add_identity(identity_id: str) -> Executable:
    row = {"id": identity_id, "service_account": identity_id, "cluster_id": STOREFRONT, "namespace": "n"}
    row |= {"scopes": ["compute:write"], "created_by": ID_OF_OWNER} | TIMES | HERE
    return insert(tables.workload_identities).values(row)


class Subjects(Demo):
    """A person with the role `owner`, and a key and a workload identity of theirs with a policy through a group."""

    def reset(self) -> None:
        """Store the subjects and the resource as before any change."""
        ids = (KEY, IDENTITY, POLICY, GROUP, PERSON, "new", self.instance)
        owners = {tables.group_members: "group_id", tables.policy_attachments: "policy_id"}
        owners |= dict.fromkeys((tables.policies, tables.groups, tables.api_keys, tables.workload_identities), "id")
        owners |= {tables.memberships: "user_id", tables.users: "id", tables.resources: "id"}
        operations = tables.catalogue_operations
        attachment = {"policy_id": POLICY, "attachee_type": "group", "attachee_id": GROUP}
        members = [("api_key", KEY), ("workload_identity", IDENTITY)]
        added = {"group_id": GROUP, "added_at": AT, "added_by": PERSON} | HERE
        policy = {"id": POLICY, "name": "p of test", "document": ALLOW, "authored_by": PERSON}
        execute(
            self.platform.database,
            *(delete(table).where(table.c[column].in_(ids)) for table, column in owners.items()),
            delete(operations).where(operations.c.name == FLY),
            insert(tables.resources).values(factories.resource(self.instance, AT) | HERE),
            insert(tables.users).values(factories.user(PERSON, AT, email=EMAIL)),
            *(add_member(PERSON), add_key(KEY), add_identity(IDENTITY)),
            insert(tables.groups).values({"id": GROUP, "name": "g of test", "created_by": PERSON} | TIMES | HERE),
            insert(tables.policies).values(policy | TIMES | HERE),
            insert(tables.policy_attachments).values(attachment | {"attached_by": PERSON, "attached_at": AT} | HERE),
            insert(tables.group_members).values(
                [added | {"member_type": kind, "member_id": member} for kind, member in members]
            ),
        )

    def change(self, *changes: Executable) -> None:
        """Change the database in another process."""
        with closing(Database(self.platform.settings.database_url)) as other:
            execute(other, *changes)

    def evaluates(self, number: int) -> list[dict[str, bool]]:
        subject, resource = {"type": "user", "id": PERSON}, {"type": "instance", "id": self.instance}
        body = {"subject": subject, "resource": resource, "evaluations": [{"action": {"name": "start"}}] * number}
        return list(self.asked("/access/v1/evaluations", body)["evaluations"])

    def decides(self, kind: str, name: str, action: str = "start") -> bool:
        return bool(self.asked("/access/v1/evaluation", self.question(kind, name, action))["decision"])

    def question(self, kind: str, name: str, action: str = "start") -> dict[str, Any]:
        resource = {"type": "instance", "id": self.instance}
        return {"subject": {"type": kind, "id": name}, "action": {"name": action}, "resource": resource}

    def count(self, kind: str, name: str) -> int:
        self.forget()
        self.decides(kind, name)
        return len(self.without_leases())

    def until_cached(self, kind: str, name: str) -> None:
        """Wait for a decision without further statements: a busy server may not answer the event loop in time."""
        until(lambda: self.count(kind, name) == STATEMENTS[self.platform.database.kind])


@pytest.fixture(scope="module", params=KINDS)
def opened(
    request: pytest.FixtureRequest, demo_url: DemoUrl, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Subjects]:
    opened = Subjects(tmp_path_factory.mktemp("platform"), demo_url(request.param))
    yield opened
    opened.close()


@pytest.fixture
def demo(opened: Subjects) -> Subjects:
    opened.reset()
    opened.platform.subjects = SubjectCache()
    return opened


def change(table: Any, value: str, **values: Any) -> Executable:
    column = table.c.user_id if table is tables.memberships else table.c.id
    return update(table).where(column == value).values(values)


def remove(table: Any, column: str, value: str) -> Executable:
    return delete(table).where(table.c[column] == value)


PEOPLE_CHANGES: dict[str, Executable] = {
    "role changed": change(tables.memberships, PERSON, role="viewer"),
    "member removed": remove(tables.memberships, "user_id", PERSON),
    "member limited": change(tables.memberships, PERSON, limited=True),
    "person deleted": change(tables.users, PERSON, deleted_at=tables.users.c.created_at),
}
POLICY_CHANGES: dict[str, Executable] = {
    "document changed": change(tables.policies, POLICY, document=DENY, version=2),
    "author changed": change(tables.policies, POLICY, authored_by=ID_OF_OWNER),
    "policy removed from the group": remove(tables.policy_attachments, "policy_id", POLICY),
    "removed from the group": remove(tables.group_members, "group_id", GROUP),
}
KEY_CHANGES: dict[str, Executable] = {
    "scopes changed": change(tables.api_keys, KEY, scopes=["compute:read"]),
    "key revoked": change(tables.api_keys, KEY, revoked_at=tables.api_keys.c.created_at),
    "key removed": remove(tables.api_keys, "id", KEY),
}
IDENTITY_CHANGES: dict[str, Executable] = {
    "scopes changed": change(tables.workload_identities, IDENTITY, scopes=["compute:read"]),
    "identity removed": remove(tables.workload_identities, "id", IDENTITY),
}
RESOURCE_CHANGES: dict[str, Executable] = {"resource removed": delete(tables.resources)}
# The group gives a key nothing: without a policy, its creator's role limits it alone.
STILL_PERMITTED = {"policy removed from the group", "removed from the group", "author changed"}
CASES = [
    (kind, name, of, changes[of])
    for kind, name, changes in (
        ("user", PERSON, PEOPLE_CHANGES | RESOURCE_CHANGES),
        ("user", EMAIL, PEOPLE_CHANGES | {"e-mail changed": change(tables.users, PERSON, email="b@x.example")}),
        ("api_key", KEY, PEOPLE_CHANGES | POLICY_CHANGES | KEY_CHANGES | RESOURCE_CHANGES),
        ("workload_identity", IDENTITY, PEOPLE_CHANGES | POLICY_CHANGES | IDENTITY_CHANGES | RESOURCE_CHANGES),
    )
    for of in changes
]


@pytest.mark.parametrize(
    ("kind", "name", "of", "changes"), CASES, ids=[f"{kind}-{name}-{of}" for kind, name, of, _ in CASES]
)
def test_the_first_decision_after_a_change_uses_it(
    demo: Subjects, kind: str, name: str, of: str, changes: Executable
) -> None:
    assert demo.decides(kind, name)
    demo.until_cached(kind, name)
    demo.change(changes)
    decision = demo.decides(kind, name)
    demo.platform.subjects = SubjectCache()
    assert decision == demo.decides(kind, name) == (of in STILL_PERMITTED)


OPERATION = {"name": FLY, "position": 10**6, "access_level": "write", "description": "Fly"}
NEW: dict[str, tuple[str, str, Executable]] = {
    "key": ("api_key", "new", add_key("new")),
    "identity": ("workload_identity", "new", add_identity("new")),
    "member": ("user", "new", add_member("new")),
    "e-mail": ("user", "b@x.example", change(tables.users, PERSON, email="b@x.example")),
    "restored person": ("user", EMAIL, change(tables.users, PERSON, deleted_at=None)),
    "operation": ("user", PERSON, insert(tables.catalogue_operations).values(OPERATION)),
}


@pytest.mark.parametrize("subject", NEW)
def test_an_unknown_subject_is_cached_until_it_exists(demo: Subjects, subject: str) -> None:
    kind, name, adds = NEW[subject]
    action = "fly" if subject == "operation" else "start"
    if subject == "member":
        demo.change(insert(tables.users).values(factories.user("new", AT)))
    if subject == "restored person":
        demo.change(PEOPLE_CHANGES["person deleted"])
    assert not demo.decides(kind, name, action)
    demo.until_cached(kind, name)
    demo.change(adds)
    assert demo.decides(kind, name, action)


def test_a_cached_key_is_denied_at_its_expiry(demo: Subjects, monkeypatch: pytest.MonkeyPatch) -> None:
    expires_at = demo.platform.clock.now() + timedelta(minutes=1)
    demo.change(change(tables.api_keys, KEY, expires_at=expires_at))
    assert demo.decides("api_key", KEY)
    for now, decision in ((expires_at - timedelta(microseconds=1), True), (expires_at, False)):
        monkeypatch.setattr(demo.platform.clock, "now", lambda now=now: now)
        assert demo.decides("api_key", KEY) == decision


def test_subjects_remain_cached_when_another_organization_changes(demo: Subjects) -> None:
    assert demo.decides("user", PERSON)
    others = select(tables.tenants.c.id).where(tables.tenants.c.organization_id != AURORA)
    demo.change(update(tables.api_keys).where(tables.api_keys.c.tenant_id.in_(others)).values(rate_limit=7))
    assert fetch_scalars(demo.platform.database, select(tables.api_keys.c.id).where(tables.api_keys.c.rate_limit == 7))
    demo.until_cached("user", PERSON)


def test_the_cache_keeps_at_most_so_many_rules(demo: Subjects) -> None:
    names = (("api_key", KEY), ("workload_identity", IDENTITY), ("user", PERSON))
    bounded = demo.platform.subjects = SubjectCache(max_rules=1)
    for _ in range(2):
        for kind, name in names:
            assert demo.decides(kind, name)
            assert bounded.subjects.weight <= 1
    few = demo.platform.subjects = SubjectCache(max_subjects=1)
    for kind, name in names:
        assert demo.decides(kind, name)
        assert len(few.subjects) == 1


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    places, original = [], routes.decide_evaluations

    def recorded(*arguments: Any, **options: Any) -> Any:
        is_loop = threading.current_thread() is threading.main_thread()
        places.append("loop" if is_loop else "worker")
        return original(*arguments, **options)

    monkeypatch.setattr(routes, "decide_evaluations", recorded)
    return places


def test_short_requests_are_decided_on_the_event_loop(
    demo: Subjects, threads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def places(number: int = 1) -> list[str]:
        threads.clear()
        assert demo.evaluates(number) == [{"decision": True}] * number
        return list(threads)

    assert [places(), places(), places(50), places(51)] == [["worker"], ["loop"], ["loop"], ["worker"]]
    demo.change(change(tables.memberships, PERSON, role="admin"))
    assert [places(), places()] == [["loop", "worker"], ["loop"]]
    # Many rules are decided in a thread.
    for rules, place in ((MAX_SHORT_COMPARISONS // 3, "loop"), (MAX_SHORT_COMPARISONS // 3 + 1, "worker")):
        monkeypatch.setattr(SubjectCache, "rules_of_current", lambda *_, rules=rules: rules)
        assert places(3) == [place]


def test_a_changed_subject_is_not_read_on_the_event_loop(demo: Subjects) -> None:
    assert demo.decides("api_key", KEY)
    demo.change(change(tables.api_keys, KEY, scopes=["compute:read"]))
    request = routes.parse_evaluation(demo.question("api_key", KEY))
    demo.forget()
    with demo.platform.database.read() as connection, pytest.raises(routes.NotLoaded):
        routes.decide_evaluations(demo.platform, connection, WEB_SHOP, request, load=False)
    assert len(demo.statements) == 1
