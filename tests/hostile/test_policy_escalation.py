"""Attempts to gain, or take from others, more than one holds."""

import json
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import delete, update

from service.db import tables
from service.db.engine import Database
from tests.service.access import IDENTITIES, KEYS, Iam, allow, code, deny, details, document
from tests.service.running import ADMIN, MEMBER, OUTSIDER, OWNER, VIEWER, WEB_SHOP, Running

READS = [
    f"compute:{resource}:read"
    for resource in ("instances", "images", "instance-snapshots", "launch-templates", "scale-groups", "key-pairs")
]
PEOPLE = {
    ADMIN: "d163ed25-e98a-4276-adff-ba7d1c098f94",
    MEMBER: "9be37e75-5512-480a-ac08-d7e9a1984954",
    VIEWER: "322bfd05-52f7-4066-907a-59b0da17e629",
}
AURORA = "21b19d01-a6e8-4950-818c-144893bd4e01"


@pytest.fixture(scope="module")
def platform() -> Iterator[Running]:
    """A platform of this module's own: its people are demoted, leave and come back."""
    with Running() as running:
        yield running


@pytest.fixture
def iam(platform: Running) -> Iam:
    return Iam(platform)


def have_role(database: Database, person: str, role: str) -> None:
    with database.write() as connection:
        connection.execute(
            update(tables.memberships).where(tables.memberships.c.user_id == PEOPLE[person]).values(role=role)
        )


def test_a_viewer_writes_no_policy_for_everything_and_nothing_is_stored(iam: Iam) -> None:
    before = iam.get("/iam/policies?limit=200")
    answer = iam.as_(VIEWER).create("all", allow("*:*:*"))
    assert code(answer) == (403, "POLICY_EXCEEDS_AUTHOR")
    assert details(answer)["counterexamples"]
    assert iam.get("/iam/policies?limit=200") == before


def test_patterns_are_compared_as_patterns_over_a_catalogue_that_grows(iam: Iam, platform_database: Database) -> None:
    """The author holds each of today's operations by name through a role like this; a star would outgrow them."""
    from client.policy.containment import Answer, check
    from client.policy.coverage import Catalogue
    from client.policy.document import parse_document
    from client.policy.engine import granted_rules
    from service.catalogue.operations import operations

    names = [operation.name for operation in operations()]
    today = [name for name in names if name.startswith("dns:")]
    author = parse_document(json.dumps(document(allow(*today))), Catalogue(names)).document
    draft = parse_document(json.dumps(document(allow("dns:*"))), Catalogue(names)).document
    found = check(draft, granted_rules(author), tenant="t", catalogue=names)
    assert found.answer is Answer.BEYOND
    assert found.examples
    assert all(example.future for example in found.examples)
    # On the wire: a viewer holds five finer compute operations by name, and compute:*:read as a pattern.
    answer = iam.as_(VIEWER).create("p", allow("compute:instances:*"))
    assert code(answer) == (403, "POLICY_EXCEEDS_AUTHOR")


def test_who_edits_a_stronger_persons_policy_becomes_its_author_within_their_own_rights(iam: Iam) -> None:
    policy = iam.policy("strong", allow("organizations:*", "compute:*"))
    assert iam.attach(policy, "api_key", KEYS["tenant-writer"]).status == 204
    viewer = iam.as_(VIEWER)
    assert code(viewer.edit(policy, allow("organizations:*", "compute:instances:read"))) == (
        403,
        "POLICY_EXCEEDS_AUTHOR",
    )
    assert iam.get(f"/iam/policies/{policy}")["author"]["email"] == OWNER
    assert viewer.edit(policy, allow("compute:instances:read")).json()["author"]["email"] == VIEWER
    rename = {"displayName": "Web Shop"}
    path = f"/api/v1/tenants/{WEB_SHOP}"
    assert iam.platform.ask("PATCH", path, key="tenant-writer", body=rename).status == 403
    iam.ask("DELETE", f"/iam/policies/{policy}")


@pytest.mark.parametrize("change", [{"name": "mine"}, {"description": "mine"}, {"name": "mine", "description": "x"}])
def test_a_stronger_persons_policy_is_not_renamed_by_a_weaker_person(iam: Iam, change: dict[str, str]) -> None:
    policy = iam.policy("strong", allow("*"))
    before = iam.get(f"/iam/policies/{policy}")
    weaker = iam.as_(VIEWER)
    assert code(weaker.ask("PATCH", f"/iam/policies/{policy}", change)) == (403, "POLICY_EXCEEDS_AUTHOR")
    assert iam.get(f"/iam/policies/{policy}") == before
    within = iam.policy("weak", allow("compute:instances:read"))
    assert weaker.done(weaker.ask("PATCH", f"/iam/policies/{within}", change))
    assert iam.done(iam.ask("PATCH", f"/iam/policies/{policy}", change))


def test_a_deny_that_protects_a_stronger_key_is_not_edited_away(iam: Iam) -> None:
    """A viewer who holds a narrowed key of the owner must not open it by an edit that looks harmless."""
    wide, shut = iam.policy("wide", allow("*")), iam.policy("shut", deny("organizations:*"))
    for policy in (wide, shut):
        assert iam.attach(policy, "api_key", KEYS["tenant-reader"]).status == 204
    viewer = iam.as_(VIEWER)
    assert code(viewer.edit(shut, allow("compute:instances:read"))) == (403, "PRINCIPAL_EXCEEDS_AUTHOR")
    assert code(viewer.detach(shut, "api_key", KEYS["tenant-reader"])) == (403, "PRINCIPAL_EXCEEDS_AUTHOR")
    assert code(viewer.ask("DELETE", f"/iam/policies/{shut}")) == (403, "PRINCIPAL_EXCEEDS_AUTHOR")
    assert iam.platform.get(f"/api/v1/tenants/{WEB_SHOP}", key="tenant-reader").status == 403
    for policy in (wide, shut):
        assert iam.ask("DELETE", f"/iam/policies/{policy}").status == 204


def test_a_deny_does_not_reach_a_stronger_key_by_an_edit_or_a_step_back(iam: Iam) -> None:
    """Attaching a deny to it is refused; so is writing one into what is attached to it already."""
    harmless, other = iam.policy("harmless", allow("compute:instances:read")), iam.policy("all", allow("*"))
    for policy in (harmless, other):
        assert iam.attach(policy, "api_key", KEYS["tenant-reader"]).status == 204
    viewer = iam.as_(VIEWER)
    path = f"/api/v1/tenants/{WEB_SHOP}"
    answer = viewer.edit(harmless, allow("compute:instances:read"), deny("*"))
    assert code(answer) == (403, "PRINCIPAL_EXCEEDS_AUTHOR")
    assert iam.platform.get(path, key="tenant-reader").status == 200
    assert iam.edit(harmless, allow("compute:instances:read"), deny("organizations:*")).status == 200
    assert iam.edit(harmless, allow("compute:instances:read")).status == 200
    answer = viewer.ask("POST", f"/iam/policies/{harmless}/rollback", {"version": 2})
    assert code(answer) == (403, "PRINCIPAL_EXCEEDS_AUTHOR")
    assert iam.platform.get(path, key="tenant-reader").status == 200
    for policy in (harmless, other):
        assert iam.ask("DELETE", f"/iam/policies/{policy}").status == 204


def test_nobody_rolls_back_to_what_exceeds_them(iam: Iam) -> None:
    policy = iam.policy("p", allow("*"))
    iam.edit(policy, allow("compute:instances:read"))
    answer = iam.as_(VIEWER).ask("POST", f"/iam/policies/{policy}/rollback", {"version": 1})
    assert code(answer) == (403, "POLICY_EXCEEDS_AUTHOR")
    assert iam.get(f"/iam/policies/{policy}")["version"] == 2


def test_a_strong_policy_is_not_attached_by_the_weak_to_a_key_or_group_of_theirs(iam: Iam) -> None:
    policy = iam.policy("strong", allow("compute:*"))
    viewer = iam.as_(VIEWER)
    group = viewer.group("viewer's")
    assert viewer.add(group, "api_key", KEYS["viewer-dashboard"]).status == 204
    for kind, identifier in (("api_key", KEYS["viewer-dashboard"]), ("group", group)):
        answer = viewer.attach(policy, kind, identifier)
        assert code(answer) == (403, "POLICY_EXCEEDS_AUTHOR")
        assert details(answer)["policyName"] == "strong"
    assert iam.get(f"/iam/policies/{policy}")["attachmentCount"] == 0


def test_a_weak_key_is_not_added_to_a_strong_group_and_the_policy_is_named(iam: Iam) -> None:
    policy, group = iam.policy("strong", allow("compute:*")), iam.group("strong")
    assert iam.attach(policy, "group", group).status == 204
    answer = iam.as_(VIEWER).add(group, "api_key", KEYS["viewer-dashboard"])
    assert code(answer) == (403, "POLICY_EXCEEDS_AUTHOR")
    assert (details(answer)["policyId"], details(answer)["policyName"]) == (policy, "strong")
    assert iam.get(f"/iam/groups/{group}/members")["members"] == []


def test_a_group_that_grows_strong_later_gives_a_weak_key_no_more_than_its_scopes_and_its_creator(iam: Iam) -> None:
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


def test_a_scopeless_identity_of_a_weak_maker_is_not_freed_of_its_scopes_into_a_strong_policy(iam: Iam) -> None:
    viewer = iam.as_(VIEWER)
    binding = viewer.binding("mine", ["compute:read"])
    policy = iam.policy("everything", allow("*"))
    assert iam.attach(policy, "workload_identity", binding).status == 204
    assert not iam.decision("workload_identity", binding, "storage:buckets:delete")
    answer = viewer.ask("PUT", f"/workload-identity/bindings/{binding}", {})
    assert code(answer) == (403, "POLICY_EXCEEDS_AUTHOR")
    assert iam.ask("PUT", f"/workload-identity/bindings/{binding}", {}).status == 200
    assert iam.decision("workload_identity", binding, "storage:buckets:delete")


def test_a_key_manages_no_access_whatever_its_scopes(iam: Iam) -> None:
    from service.authz.route_policies import ROUTE_POLICIES

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
    admin = iam.as_(ADMIN)
    policy = admin.policy("by the admin", allow("organizations:*:read"))
    assert iam.attach(policy, "api_key", KEYS["tenant-reader"]).status == 204
    path = f"/api/v1/tenants/{WEB_SHOP}"
    assert iam.platform.get(path, key="tenant-reader").status == 200
    have_role(platform_database, ADMIN, "viewer")
    assert iam.platform.get(path, key="tenant-reader").status == 403
    have_role(platform_database, ADMIN, "member")
    assert iam.platform.get(path, key="tenant-reader").status == 200
    have_role(platform_database, ADMIN, "admin")
    iam.ask("DELETE", f"/iam/policies/{policy}")


def test_an_orphans_policy_gives_nothing_is_listed_as_such_and_denies_still(
    iam: Iam, platform_database: Database
) -> None:
    policy = iam.as_(ADMIN).policy("of somebody who leaves", allow("organizations:*:read"), deny("compute:*"))
    assert iam.attach(policy, "api_key", KEYS["tenant-reader"]).status == 204
    path = f"/api/v1/tenants/{WEB_SHOP}"
    seats = tables.memberships
    mine = seats.c.user_id == PEOPLE[ADMIN]
    with platform_database.write() as connection:
        kept = dict(connection.execute(seats.select().where(mine)).mappings().one())
        connection.execute(delete(seats).where(mine))
    assert iam.platform.get(path, key="tenant-reader").status == 403
    assert iam.get(f"/iam/policies/{policy}")["orphaned"] is True
    with platform_database.write() as connection:
        connection.execute(seats.insert().values(kept))
        connection.execute(
            update(tables.users).where(tables.users.c.id == PEOPLE[ADMIN]).values(deleted_at=kept["created_at"])
        )
    assert iam.platform.get(path, key="tenant-reader").status == 403
    assert iam.get(f"/iam/policies/{policy}")["orphaned"] is True
    with platform_database.write() as connection:
        connection.execute(update(tables.users).where(tables.users.c.id == PEOPLE[ADMIN]).values(deleted_at=None))
    assert iam.platform.get(path, key="tenant-reader").status == 200
    assert iam.get(f"/iam/policies/{policy}")["orphaned"] is False
    iam.ask("DELETE", f"/iam/policies/{policy}")


def test_the_worlds_own_orphan_is_listed_as_one(iam: Iam) -> None:
    listed = iam.get("/iam/policies?limit=200")["policies"]
    assert [one["name"] for one in listed if one["orphaned"]] == ["contractor access"]


def test_a_deny_is_no_weapon_against_a_stronger_key(iam: Iam) -> None:
    viewer = iam.as_(VIEWER)
    policy = viewer.policy("nothing", deny("*"))
    strong = KEYS["terraform"]
    answer = viewer.attach(policy, "api_key", strong)
    assert code(answer) == (403, "PRINCIPAL_EXCEEDS_AUTHOR")
    assert details(answer)["principals"] == [{"type": "api_key", "id": strong, "name": "terraform"}]
    assert {one["role"] for one in details(answer)["counterexamples"]} == {"admin"}
    group = iam.group("holds the strong")
    assert iam.add(group, "api_key", strong).status == 204
    assert code(viewer.attach(policy, "group", group)) == (403, "PRINCIPAL_EXCEEDS_AUTHOR")
    mine = viewer.group("shut")
    assert viewer.attach(policy, "group", mine).status == 204
    assert code(viewer.add(mine, "api_key", strong)) == (403, "PRINCIPAL_EXCEEDS_AUTHOR")
    assert code(viewer.add(mine, "workload_identity", IDENTITIES["image-resizer"])) == (
        403,
        "PRINCIPAL_EXCEEDS_AUTHOR",
    )
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
    assert code(viewer.ask("POST", f"/iam/policies?{query}", body)) == (403, "POLICY_EXCEEDS_AUTHOR")
    name = query.partition("=")[0]
    assert code(viewer.ask("POST", "/iam/policies", body | {name: "owner"})) == (400, "INVALID_INPUT")
    assert iam.platform.get(f"/api/v1/tenants/{WEB_SHOP}?{query}", key="tenant-writer").status == 403


PLANTED = {
    "target": "*",
    "role": "owner",
    "organizationId": AURORA,
    "isAdmin": True,
    "tenantId": WEB_SHOP,
    "scopes": ["*"],
    "asAuthor": False,
}


@pytest.mark.slow
def test_on_no_route_do_a_body_or_a_query_decide_who_may(iam: Iam) -> None:
    """Generated over the table of rules: each refusal is the same with and without what could be taken for facts."""
    from service.authz.route_policies import ROUTE_POLICIES

    query = "&".join(f"{name}={json.dumps(value).strip(chr(34))}" for name, value in PLANTED.items())
    ids = {
        "tenant_id": WEB_SHOP,
        "organization_id": AURORA,
        "key_id": KEYS["terraform"],
        "version": "1",
        "kind": "instance",
    }
    asked = 0
    for (method, path), rule in ROUTE_POLICIES.items():
        if rule.local or rule.who == "anyone" or rule.tenancy is None:
            continue
        real = re.sub(r"\{(\w+)\}", lambda found: ids.get(found[1], IDENTITIES["checkout"]), path)
        for who in ({"as_": OUTSIDER}, {"key": "ci-preview"}):
            plain = iam.platform.ask(method, real, **who)
            # Without a tenant in the path a key is in its own, where it may look for itself.
            expected = 404 if rule.home and rule.who == "principal" and "key" in who else 403
            assert plain.status == expected, (method, path, who, plain)
            told = iam.platform.ask(method, f"{real}?{query}", **who)
            given = iam.platform.ask(method, real, **who, body=PLANTED)
            assert code(told) == code(given) == code(plain), (method, path, who)
            asked += 1
    assert asked >= 70


def test_a_key_never_has_more_than_its_creator_whatever_the_graph() -> None:
    """10,000 requests over random graphs of roles, scopes, policies and authors; put to the assembled decision."""
    from client.policy.coverage import Catalogue
    from client.policy.document import parse_document
    from client.policy.engine import Engine, granted_rules
    from client.policy.model import RequestContext
    from service.authz.decisions import DENY_ALL, CatalogueSnapshot, CompiledGrants, role_engine
    from service.catalogue.operations import operations
    from service.principals.grants import PrincipalGrants

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
            constraints = chance.choice(
                [{}, {}, {"frn:region": chance.choice(regions)}, {"frn:resourceTag/env": "dev"}]
            )
            rule = (allow, allow, deny)[chance.randrange(3)](
                *operations_of, **({"equals": constraints} if constraints else {})
            )
            text = json.dumps(document(rule))
            author = chance.choice(roles)
            rules += [
                (one, author)
                for one in granted_rules(parse_document(text, catalogue).document, str(number), "", role_engine(author))
            ]
        policies = Engine(one for one, _ in rules) if rules else None
        mine = tuple(chance.sample(scopes, chance.randint(1, 3)))
        standing = PrincipalGrants("api_key", "k", "t", "o", creator, mine)
        compiled = CompiledGrants(standing, known, role_engine(creator), policies)
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
                author = next(
                    a for one, a in rules if one.source == policies.source(policies.decide(operation, target, facts))
                )
                assert role_engine(author).decide(operation, target, facts) > 0
    assert given > 150
    assert DENY_ALL.decide("compute:instances:read", "*", RequestContext()) == 0
