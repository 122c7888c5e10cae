"""Attempts to gain, or take from others, more than one holds."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import delete, update

from client.policy.containment import Answer, check
from client.policy.coverage import Catalogue
from client.policy.document import parse_document
from client.policy.engine import Engine, granted_rules
from client.policy.model import RequestContext
from service.authz.decisions import DENY_ALL, CatalogueSnapshot, CompiledGrants, role_engine
from service.authz.route_policies import ROUTE_POLICIES
from service.catalogue.operations import operations
from service.db import tables
from service.db.engine import Database
from service.principals.grants import PrincipalGrants
from tests.service.access import IDENTITIES, KEYS, Iam, allow, code, deny, details, document
from tests.service.running import ADMIN, OWNER, VIEWER, WEB_SHOP, Running

ADMIN_ID = "d163ed25-e98a-4276-adff-ba7d1c098f94"
PATH = f"/api/v1/tenants/{WEB_SHOP}"
EXCEEDS_AUTHOR, EXCEEDS_PRINCIPAL = (403, "POLICY_EXCEEDS_AUTHOR"), (403, "PRINCIPAL_EXCEEDS_AUTHOR")


@pytest.fixture(scope="module")
def platform() -> Iterator[Running]:
    """A platform of this module's own: its people are demoted, leave and come back."""
    with Running() as running:
        yield running


def read_status(iam: Iam) -> int:
    """The status for a key whose scope is reading the tenant."""
    return iam.platform.get(PATH, key="tenant-reader").status


def attached_policy(iam: Iam, *rules: dict[str, Any], author: Iam | None = None) -> str:
    """A policy of the author, attached to that key by the owner."""
    policy = (author or iam).policy("attached", *rules)
    assert iam.attach(policy, "api_key", KEYS["tenant-reader"]).status == 204
    return policy


def test_a_viewer_writes_no_policy_for_everything_and_nothing_is_stored(iam: Iam) -> None:
    before = iam.get("/iam/policies?limit=200")
    answer = iam.as_(VIEWER).create("all", allow("*:*:*"))
    assert code(answer) == EXCEEDS_AUTHOR
    assert details(answer)["counterexamples"]
    assert iam.get("/iam/policies?limit=200") == before


def test_patterns_are_compared_as_patterns_over_a_catalogue_that_grows(iam: Iam, platform_database: Database) -> None:
    names = [operation.name for operation in operations()]
    present = [name for name in names if name.startswith("dns:")]
    author = parse_document(json.dumps(document(allow(*present))), Catalogue(names)).document
    draft = parse_document(json.dumps(document(allow("dns:*"))), Catalogue(names)).document
    found = check(draft, granted_rules(author), tenant="t", catalogue=names)
    assert found.answer is Answer.BEYOND
    assert found.examples
    assert all(example.future for example in found.examples)
    # A viewer has compute:*:read and five more operations by name.
    assert code(iam.as_(VIEWER).create("p", allow("compute:instances:*"))) == EXCEEDS_AUTHOR


def test_the_editor_of_a_stronger_policy_becomes_its_author(iam: Iam) -> None:
    policy = iam.policy("strong", allow("organizations:*", "compute:*"))
    assert iam.attach(policy, "api_key", KEYS["tenant-writer"]).status == 204
    viewer = iam.as_(VIEWER)
    assert code(viewer.edit(policy, allow("organizations:*", "compute:instances:read"))) == EXCEEDS_AUTHOR
    assert iam.get(f"/iam/policies/{policy}")["author"]["email"] == OWNER
    assert viewer.edit(policy, allow("compute:instances:read")).json()["author"]["email"] == VIEWER
    assert iam.platform.ask("PATCH", PATH, key="tenant-writer", body={"displayName": "Web Shop"}).status == 403
    iam.ask("DELETE", f"/iam/policies/{policy}")


@pytest.mark.parametrize("change", [{"name": "mine"}, {"description": "mine"}, {"name": "mine", "description": "x"}])
def test_a_stronger_persons_policy_is_not_renamed_by_a_weaker_person(iam: Iam, change: dict[str, str]) -> None:
    policy = iam.policy("strong", allow("*"))
    before = iam.get(f"/iam/policies/{policy}")
    weaker = iam.as_(VIEWER)
    assert code(weaker.ask("PATCH", f"/iam/policies/{policy}", change)) == EXCEEDS_AUTHOR
    assert iam.get(f"/iam/policies/{policy}") == before
    within = iam.policy("weak", allow("compute:instances:read"))
    assert weaker.done(weaker.ask("PATCH", f"/iam/policies/{within}", change))
    assert iam.done(iam.ask("PATCH", f"/iam/policies/{policy}", change))


def test_a_deny_that_protects_a_stronger_key_is_not_edited_away(iam: Iam) -> None:
    wide, narrow = attached_policy(iam, allow("*")), attached_policy(iam, deny("organizations:*"))
    viewer = iam.as_(VIEWER)
    assert code(viewer.edit(narrow, allow("compute:instances:read"))) == EXCEEDS_PRINCIPAL
    assert code(viewer.detach(narrow, "api_key", KEYS["tenant-reader"])) == EXCEEDS_PRINCIPAL
    assert code(viewer.ask("DELETE", f"/iam/policies/{narrow}")) == EXCEEDS_PRINCIPAL
    assert read_status(iam) == 403
    for policy in (wide, narrow):
        assert iam.ask("DELETE", f"/iam/policies/{policy}").status == 204


def test_a_deny_does_not_reach_a_stronger_key_by_an_edit_or_a_step_back(iam: Iam) -> None:
    harmless, other = attached_policy(iam, allow("compute:instances:read")), attached_policy(iam, allow("*"))
    viewer = iam.as_(VIEWER)
    assert code(viewer.edit(harmless, allow("compute:instances:read"), deny("*"))) == EXCEEDS_PRINCIPAL
    assert read_status(iam) == 200
    assert iam.edit(harmless, allow("compute:instances:read"), deny("organizations:*")).status == 200
    assert iam.edit(harmless, allow("compute:instances:read")).status == 200
    assert code(viewer.ask("POST", f"/iam/policies/{harmless}/rollback", {"version": 2})) == EXCEEDS_PRINCIPAL
    assert read_status(iam) == 200
    for policy in (harmless, other):
        assert iam.ask("DELETE", f"/iam/policies/{policy}").status == 204


def test_a_rollback_beyond_the_rights_of_the_person_is_refused(iam: Iam) -> None:
    policy = iam.policy("p", allow("*"))
    iam.edit(policy, allow("compute:instances:read"))
    assert code(iam.as_(VIEWER).ask("POST", f"/iam/policies/{policy}/rollback", {"version": 1})) == EXCEEDS_AUTHOR
    assert iam.get(f"/iam/policies/{policy}")["version"] == 2


def test_a_weak_person_does_not_attach_a_strong_policy(iam: Iam) -> None:
    policy = iam.policy("strong", allow("compute:*"))
    viewer = iam.as_(VIEWER)
    group = viewer.group("viewer's")
    assert viewer.add(group, "api_key", KEYS["viewer-dashboard"]).status == 204
    for kind, identifier in (("api_key", KEYS["viewer-dashboard"]), ("group", group)):
        answer = viewer.attach(policy, kind, identifier)
        assert code(answer) == EXCEEDS_AUTHOR
        assert details(answer)["policyName"] == "strong"
    assert iam.get(f"/iam/policies/{policy}")["attachmentCount"] == 0


def test_a_weak_key_is_not_added_to_a_strong_group_and_the_policy_is_named(iam: Iam) -> None:
    policy, group = iam.policy("strong", allow("compute:*")), iam.group("strong")
    assert iam.attach(policy, "group", group).status == 204
    answer = iam.as_(VIEWER).add(group, "api_key", KEYS["viewer-dashboard"])
    assert code(answer) == EXCEEDS_AUTHOR
    assert (details(answer)["policyId"], details(answer)["policyName"]) == (policy, "strong")
    assert iam.get(f"/iam/groups/{group}/members")["members"] == []


def test_a_strong_group_does_not_widen_a_weak_key(iam: Iam) -> None:
    viewer = iam.as_(VIEWER)
    group = viewer.group("grows")
    assert viewer.add(group, "api_key", KEYS["viewer-dashboard"]).status == 204
    policy = iam.policy("everything", allow("*"))
    assert iam.attach(policy, "group", group).status == 204
    access = iam.get(f"/iam/access?principalType=api_key&principalId={KEYS['viewer-dashboard']}")
    operations = {one["operation"] for one in access["operations"] if one["access"] != "denied"}
    assert operations
    assert all(name.startswith("compute:") for name in operations)
    for operation in ("compute:instances:delete", "storage:buckets:read", "organizations:tenants:read"):
        assert operation not in operations
        assert not iam.decision("api_key", KEYS["viewer-dashboard"], operation)
    assert iam.decision("api_key", KEYS["viewer-dashboard"], "compute:instances:read")


def test_a_weak_person_does_not_lift_the_scopes_of_an_identity(iam: Iam) -> None:
    viewer = iam.as_(VIEWER)
    binding = viewer.binding("mine", ["compute:read"])
    policy = iam.policy("everything", allow("*"))
    assert iam.attach(policy, "workload_identity", binding).status == 204
    assert not iam.decision("workload_identity", binding, "storage:buckets:delete")
    assert code(viewer.ask("PUT", f"/workload-identity/bindings/{binding}", {})) == EXCEEDS_AUTHOR
    assert iam.ask("PUT", f"/workload-identity/bindings/{binding}", {}).status == 200
    assert iam.decision("workload_identity", binding, "storage:buckets:delete")


def test_a_key_manages_no_access_with_any_scope(iam: Iam) -> None:
    asked = 0
    for (method, path), rule in ROUTE_POLICIES.items():
        if rule.who != "person" or rule.tenancy != "tenant":
            continue
        real = path.replace("{tenant_id}", WEB_SHOP)
        for name in ("group_id", "policy_id", "key_id", "version"):
            real = real.replace("{" + name + "}", IDENTITIES["checkout"])
        answer = iam.platform.ask(method, real, key="terraform", body={} if method not in ("GET", "DELETE") else None)
        assert code(answer) == (403, "SESSION_REQUIRED"), (method, path)
        asked += 1
    assert asked >= 45


def test_a_demoted_authors_policy_gives_only_what_they_hold_now(iam: Iam, platform_database: Database) -> None:
    policy = attached_policy(iam, allow("organizations:*:read"), author=iam.as_(ADMIN))
    seats = tables.memberships
    for role, status in (("admin", 200), ("viewer", 403), ("member", 200), ("admin", 200)):
        with platform_database.write() as connection:
            connection.execute(update(seats).where(seats.c.user_id == ADMIN_ID).values(role=role))
        assert read_status(iam) == status, role
    iam.ask("DELETE", f"/iam/policies/{policy}")


def test_an_orphaned_policy_gives_nothing_and_still_denies(iam: Iam, platform_database: Database) -> None:
    policy = attached_policy(iam, allow("organizations:*:read"), deny("compute:*"), author=iam.as_(ADMIN))
    seats, users = tables.memberships, tables.users
    seat, account = seats.c.user_id == ADMIN_ID, users.c.id == ADMIN_ID

    def effect() -> tuple[int, bool]:
        return read_status(iam), iam.get(f"/iam/policies/{policy}")["orphaned"]

    with platform_database.write() as connection:
        kept = dict(connection.execute(seats.select().where(seat)).mappings().one())
        connection.execute(delete(seats).where(seat))
    assert effect() == (403, True)
    with platform_database.write() as connection:
        connection.execute(seats.insert().values(kept))
        connection.execute(update(users).where(account).values(deleted_at=kept["created_at"]))
    assert effect() == (403, True)
    with platform_database.write() as connection:
        connection.execute(update(users).where(account).values(deleted_at=None))
    assert effect() == (200, False)
    iam.ask("DELETE", f"/iam/policies/{policy}")


def test_the_worlds_own_orphan_is_listed_as_one(iam: Iam) -> None:
    listed = iam.get("/iam/policies?limit=200")["policies"]
    assert [one["name"] for one in listed if one["orphaned"]] == ["contractor access"]


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


def test_members_that_are_not_the_callers_to_set_are_refused_as_unknown(iam: Iam) -> None:
    policy, group = iam.policy("p", allow("compute:*")), iam.group("a19")
    before = iam.get(f"/iam/policies/{policy}")
    for member in ("authoredBy", "tenantId", "version", "id", "orphaned", "createdAt"):
        for path, method in ((f"/iam/policies/{policy}", "PATCH"), ("/iam/policies", "POST")):
            body = {"name": "x", "document": document(allow("compute:*")), member: before.get(member, 1)}
            answer = iam.ask(method, path, body)
            assert code(answer) == (400, "INVALID_INPUT")
            assert details(answer) == {"member": member, "reason": "unknown_member"}
        assert code(iam.ask("PATCH", f"/iam/groups/{group}", {"name": "x", member: 1})) == (400, "INVALID_INPUT")
    assert iam.get(f"/iam/policies/{policy}") == before


@pytest.mark.parametrize("query", ["target=*", "role=owner", "organizationId=x", "isAdmin=true", "asAuthor=false"])
def test_nothing_in_a_query_reaches_the_decision(iam: Iam, query: str) -> None:
    viewer = iam.as_(VIEWER)
    body: Any = {"name": "p", "document": document(allow("*"))}
    assert code(viewer.ask("POST", f"/iam/policies?{query}", body)) == EXCEEDS_AUTHOR
    planted = body | {query.partition("=")[0]: "owner"}
    assert code(viewer.ask("POST", "/iam/policies", planted)) == (400, "INVALID_INPUT")
    assert iam.platform.get(f"{PATH}?{query}", key="tenant-writer").status == 403


def test_a_key_never_has_more_rights_than_its_creator() -> None:
    """Random graphs of roles, scopes, policies and authors."""
    chance = random.Random(17)
    shipped = operations()
    names = [operation.name for operation in shipped]
    catalogue = Catalogue(names)
    known = CatalogueSnapshot(catalogue, {one.name: one.access_level for one in shipped})
    roles = ["owner", "admin", "member", "viewer", "regional", None]
    scopes = ["compute:*", "compute:read", "storage:write", "organizations:*", "network:read", "quotas:write"]
    regions, tags = ["fi-hel-1", "se-sto-1"], ["dev", "prod"]
    given = 0
    for _ in range(600):
        creator = chance.choice(roles)
        rules = []
        for number in range(chance.randint(0, 3)):
            operations_of = chance.sample([*names, "compute:*", "*", "*:*:read", "storage:*"], 2)
            values = chance.choice([{}, {}, {"frn:region": chance.choice(regions)}, {"frn:resourceTag/env": "dev"}])
            constraints = {"equals": values} if values else {}
            rule = chance.choice((allow, allow, deny))(*operations_of, **constraints)
            parsed = parse_document(json.dumps(document(rule)), catalogue).document
            author = chance.choice(roles)
            rules += [(one, author) for one in granted_rules(parsed, str(number), "", role_engine(author))]
        policies = Engine(one for one, _ in rules) if rules else None
        mine = tuple(chance.sample(scopes, chance.randint(1, 3)))
        grants = PrincipalGrants("api_key", "k", "t", "o", creator, mine)
        compiled = CompiledGrants(grants, known, role_engine(creator), policies)
        for _ in range(25):
            operation = chance.choice(names)
            service, kind, _ = operation.split(":")
            target = f"frn:{service}:{chance.choice([*regions, '*'])}:t:{kind}/x"
            facts = RequestContext(
                region=chance.choice([*regions, None]),
                resource_tags=chance.choice([None, {}, {"env": chance.choice(tags)}]),
                request_tags=chance.choice([None, {"env": "dev"}]),
            )
            if not compiled.decide(operation, target, facts).allowed:
                continue
            given += 1
            assert role_engine(creator).decide(operation, target, facts) > 0
            assert known.scope_of(operation)
            if policies is not None:
                deciding = policies.source(policies.decide(operation, target, facts))
                author = next(author for one, author in rules if one.source == deciding)
                assert role_engine(author).decide(operation, target, facts) > 0
    assert given > 150
    assert DENY_ALL.decide("compute:instances:read", "*", RequestContext()) == 0
