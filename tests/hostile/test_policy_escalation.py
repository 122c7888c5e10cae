"""Attempts to gain, or take from others, more than one holds."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import delete, update

from client.policy.coverage import Catalogue
from client.policy.document import parse_document
from client.policy.engine import Engine, granted_rules
from client.policy.model import RequestContext
from service.authz.decisions import DENY_ALL, CatalogueSnapshot, CompiledGrants, role_engine
from service.catalogue.operations import operations
from service.db import tables
from service.db.engine import Database
from service.principals.grants import PrincipalGrants
from tests.people import ADMIN, OWNER, VIEWER, WEB_SHOP
from tests.service.access import IDENTITIES, KEYS, READ, Iam, allow, code, deny, details, document_text
from tests.service.queries import execute
from tests.service.running import Running

ADMIN_ID = "d163ed25-e98a-4276-adff-ba7d1c098f94"
PATH = f"/api/v1/tenants/{WEB_SHOP}"
EXCEEDS_AUTHOR, EXCEEDS_PRINCIPAL = (403, "POLICY_EXCEEDS_AUTHOR"), (403, "PRINCIPAL_EXCEEDS_AUTHOR")


@pytest.fixture(scope="module")
def platform() -> Iterator[Running]:
    """A platform of this module's own: its people are demoted, leave and come back."""
    with Running() as running:
        yield running


def read_status(iam: Iam) -> int:
    return iam.platform.get(PATH, key="tenant-reader").status


def attached_policy(iam: Iam, *rules: dict[str, Any], author: Iam | None = None) -> str:
    policy = (author or iam).policy("attached", *rules)
    assert iam.attach(policy, "api_key", KEYS["tenant-reader"]).status == 204
    return policy


def delete_policies(iam: Iam, *policies: str) -> None:
    for policy in policies:
        assert iam.ask("DELETE", f"/iam/policies/{policy}").status == 204


def test_a_stronger_policy_is_changed_within_the_rights_of_its_editor_who_becomes_its_author(iam: Iam) -> None:
    policy, within, viewer = iam.policy("strong", allow("organizations:*", "compute:*")), allow(READ), iam.as_(VIEWER)
    path = f"/iam/policies/{policy}"
    assert iam.attach(policy, "api_key", KEYS["tenant-writer"]).status == 204
    before = iam.get(path)
    for answer in (
        viewer.edit(policy, allow("organizations:*", READ)),
        viewer.ask("PATCH", path, {"name": "mine"}),
        viewer.ask("PATCH", path, {"description": "mine"}),
    ):
        assert code(answer) == EXCEEDS_AUTHOR
    assert (iam.get(path), before["author"]["email"]) == (before, OWNER)
    assert viewer.edit(policy, within).json()["author"]["email"] == VIEWER
    assert viewer.done(viewer.ask("PATCH", path, {"name": "mine"}))
    assert iam.platform.ask("PATCH", PATH, key="tenant-writer", body={"displayName": "Web Shop"}).status == 403
    assert code(viewer.ask("POST", f"{path}/rollback", {"version": 1})) == EXCEEDS_AUTHOR
    assert iam.get(path)["version"] == 3
    delete_policies(iam, policy)


def test_a_deny_of_a_stronger_key_is_not_edited_away_and_not_added(iam: Iam) -> None:
    wide, narrow = attached_policy(iam, allow("*")), attached_policy(iam, deny("organizations:*"))
    viewer = iam.as_(VIEWER)
    for answer in (
        viewer.edit(narrow, allow(READ)),
        viewer.detach(narrow, "api_key", KEYS["tenant-reader"]),
        viewer.ask("DELETE", f"/iam/policies/{narrow}"),
    ):
        assert code(answer) == EXCEEDS_PRINCIPAL
    assert read_status(iam) == 403
    assert iam.edit(narrow, allow(READ)).status == 200
    for answer in (
        viewer.edit(narrow, allow(READ), deny("*")),
        viewer.ask("POST", f"/iam/policies/{narrow}/rollback", {"version": 1}),
    ):
        assert code(answer) == EXCEEDS_PRINCIPAL
    assert read_status(iam) == 200
    delete_policies(iam, wide, narrow)


def test_a_weak_person_does_not_give_a_strong_policy_to_a_weak_key(iam: Iam) -> None:
    policy, viewer, key = iam.policy("strong", allow("compute:*")), iam.as_(VIEWER), KEYS["viewer-dashboard"]
    mine, strong = viewer.group("viewer's"), iam.group("strong")
    assert viewer.add(mine, "api_key", key).status == 204
    for answer in (viewer.attach(policy, "api_key", key), viewer.attach(policy, "group", mine)):
        assert (code(answer), details(answer)["policyName"]) == (EXCEEDS_AUTHOR, "strong")
    assert iam.get(f"/iam/policies/{policy}")["attachmentCount"] == 0
    assert iam.attach(policy, "group", strong).status == 204
    answer = viewer.add(strong, "api_key", key)
    assert code(answer) == EXCEEDS_AUTHOR
    assert (details(answer)["policyId"], details(answer)["policyName"]) == (policy, "strong")
    assert iam.get(f"/iam/groups/{strong}/members")["members"] == []


def test_a_weak_person_does_not_lift_the_scopes_of_an_identity(iam: Iam) -> None:
    viewer, deleting = iam.as_(VIEWER), "storage:buckets:delete"
    binding = viewer.binding("mine", ["compute:read"])
    path = f"/workload-identity/bindings/{binding}"
    assert iam.attach(iam.policy("everything", allow("*")), "workload_identity", binding).status == 204
    assert not iam.decision("workload_identity", binding, deleting)
    assert code(viewer.ask("PUT", path, {})) == EXCEEDS_AUTHOR
    assert iam.ask("PUT", path, {}).status == 200
    assert iam.decision("workload_identity", binding, deleting)


def test_a_demoted_authors_policy_gives_only_what_they_hold_now(iam: Iam, platform_database: Database) -> None:
    policy = attached_policy(iam, allow("organizations:*:read"), author=iam.as_(ADMIN))
    seats = tables.memberships
    for role, status in (("admin", 200), ("viewer", 403), ("member", 200), ("admin", 200)):
        execute(platform_database, update(seats).where(seats.c.user_id == ADMIN_ID).values(role=role))
        assert read_status(iam) == status, role
    iam.ask("DELETE", f"/iam/policies/{policy}")


def test_an_orphaned_policy_gives_nothing_and_still_denies(iam: Iam, platform_database: Database) -> None:
    policy = attached_policy(iam, allow("organizations:*:read"), deny("compute:*"), author=iam.as_(ADMIN))
    seats, users = tables.memberships, tables.users
    seat, account = seats.c.user_id == ADMIN_ID, users.c.id == ADMIN_ID

    def effect() -> tuple[int, bool]:
        return read_status(iam), iam.get(f"/iam/policies/{policy}")["orphaned"]

    with platform_database.write() as connection:
        row = dict(connection.execute(seats.select().where(seat)).mappings().one())
        connection.execute(delete(seats).where(seat))
    assert effect() == (403, True)
    execute(
        platform_database, seats.insert().values(row), update(users).where(account).values(deleted_at=row["created_at"])
    )
    assert effect() == (403, True)
    execute(platform_database, update(users).where(account).values(deleted_at=None))
    assert effect() == (200, False)
    iam.ask("DELETE", f"/iam/policies/{policy}")


def test_a_deny_is_no_weapon_against_a_stronger_key(iam: Iam) -> None:
    viewer = iam.as_(VIEWER)
    policy = viewer.policy("nothing", deny("*"))
    strong = KEYS["terraform"]
    answer = viewer.attach(policy, "api_key", strong)
    assert code(answer) == EXCEEDS_PRINCIPAL
    assert details(answer)["principals"] == [{"type": "api_key", "id": strong, "name": "terraform"}]
    assert {one["role"] for one in details(answer)["counterexamples"]} == {"admin"}
    group = iam.group("holds the strong")
    assert iam.add(group, "api_key", strong).status == 204
    assert code(viewer.attach(policy, "group", group)) == EXCEEDS_PRINCIPAL
    mine = viewer.group("shut")
    assert viewer.attach(policy, "group", mine).status == 204
    assert code(viewer.add(mine, "api_key", strong)) == EXCEEDS_PRINCIPAL
    assert code(viewer.add(mine, "workload_identity", IDENTITIES["image-resizer"])) == EXCEEDS_PRINCIPAL
    assert viewer.attach(policy, "api_key", KEYS["viewer-dashboard"]).status == 204
    assert viewer.detach(policy, "api_key", KEYS["viewer-dashboard"]).status == 204
    # Whose rights cover the key may: an admin over a member's key, the owner over everybody's.
    shut = iam.as_(ADMIN).policy("shut", deny("compute:*"))
    assert iam.as_(ADMIN).attach(shut, "api_key", KEYS["backup-runner"]).status == 204
    assert iam.attach(shut, "api_key", strong).status == 204


def test_a_key_never_has_more_rights_than_its_creator() -> None:
    """Random graphs of roles, scopes, policies and authors."""
    chance, shipped = random.Random(17), operations()
    names = [operation.name for operation in shipped]
    catalogue = Catalogue(names)
    known = CatalogueSnapshot(catalogue, {one.name: one.access_level for one in shipped})
    roles = ["owner", "admin", "member", "viewer", "regional", None]
    scopes = ["compute:*", "compute:read", "storage:write", "organizations:*", "network:read", "quotas:write"]
    regions, tags = ["fi-hel-1", "se-sto-1"], ["dev", "prod"]
    granted = 0
    for _ in range(600):
        creator, rules = chance.choice(roles), []
        for number in range(chance.randint(0, 3)):
            sampled = chance.sample([*names, "compute:*", "*", "*:*:read", "storage:*"], 2)
            values = chance.choice([{}, {}, {"frn:region": chance.choice(regions)}, {"frn:resourceTag/env": "dev"}])
            rule = chance.choice((allow, allow, deny))(*sampled, **({"equals": values} if values else {}))
            parsed, author = parse_document(document_text(rule), catalogue).document, chance.choice(roles)
            rules += [(one, author) for one in granted_rules(parsed, str(number), "", role_engine(author))]
        policies = Engine(one for one, _ in rules) if rules else None
        grants = PrincipalGrants("api_key", "k", "t", "o", creator, tuple(chance.sample(scopes, chance.randint(1, 3))))
        compiled = CompiledGrants(grants, known, role_engine(creator), policies)
        for _ in range(25):
            operation = chance.choice(names)
            service, kind, _ = operation.split(":")
            target = f"frn:{service}:{chance.choice([*regions, '*'])}:t:{kind}/x"
            context = RequestContext(
                region=chance.choice([*regions, None]),
                resource_tags=chance.choice([None, {}, {"env": chance.choice(tags)}]),
                request_tags=chance.choice([None, {"env": "dev"}]),
            )
            if not compiled.decide(operation, target, context).allowed:
                continue
            granted += 1
            assert role_engine(creator).decide(operation, target, context) > 0
            assert known.scope_of(operation)
            if policies is not None:
                deciding = policies.source(policies.decide(operation, target, context))
                author = next(author for one, author in rules if one.source == deciding)
                assert role_engine(author).decide(operation, target, context) > 0
    assert granted > 150
    assert DENY_ALL.decide(READ, "*", RequestContext()) == 0
