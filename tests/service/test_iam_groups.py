"""Groups and their members over the wire, on both databases."""

from datetime import UTC, datetime
from functools import partial
from uuid import uuid4

import pytest
from sqlalchemy import insert, select

from client.models.validation import name_key
from service.db.engine import Database
from service.db.tables import group_members, groups
from service.iam import group_queries
from tests.people import DATA_LAKE, STAGING, UNKNOWN_ID, WEB_SHOP
from tests.service.access import IDENTITIES, KEYS, Iam, allow, code, details
from tests.waiting import at_once

WIDE = {ord("q"): "\uff51"}
"""A letter and its compatibility character."""
NOT_FOUND = (404, b'{"code":"NOT_FOUND","message":"resource not found"}')


def name() -> str:
    return f"group {uuid4()}"


def test_a_new_group_has_the_given_members_and_a_version(iam: Iam) -> None:
    called, elsewhere = name(), Iam(iam.platform, tenant=STAGING)
    answer = iam.ask("POST", "/iam/groups", {"name": called, "description": "on call"})
    group = answer.json()
    assert (answer.status, answer.headers["etag"]) == (201, '"1"')
    assert (group["name"], group["description"], group["tenantId"]) == (called, "on call", WEB_SHOP)
    assert (group["version"], group["memberCount"], group["policyCount"]) == (1, 0, 0)
    assert iam.get(f"/iam/groups/{group['id']}") == group
    other = iam.group(name())
    assert iam.get(f"/iam/groups/{other}")["description"] == ""
    assert code(elsewhere.ask("GET", f"/iam/groups/{group['id']}")) == (404, "NOT_FOUND")
    for bad in ("", "   ", "a\u0000b", "a\u202eb", "x" * 129, "line\nbreak"):
        answer = iam.ask("POST", "/iam/groups", {"name": bad})
        assert (code(answer), details(answer)["member"]) == ((400, "INVALID_INPUT"), "name"), bad
    # A name is used once in a tenant.
    answer = iam.ask("POST", "/iam/groups", {"name": f"  {called} "})
    assert (code(answer), details(answer)) == ((409, "GROUP_NAME_TAKEN"), {"groupId": group["id"]})
    assert iam.ask("PATCH", f"/iam/groups/{other}", {"name": called}).status == 409
    assert iam.done(iam.ask("PATCH", f"/iam/groups/{group['id']}", {"name": called})) is False
    assert elsewhere.group(called) != group["id"]


def test_a_name_that_differs_only_in_case_or_in_what_is_not_seen_is_refused(iam: Iam) -> None:
    called, own = f"Équipe {uuid4()}", name()
    group, other = iam.group(called), iam.group(own)
    spellings = (
        called.upper(),
        called.lower(),
        called.replace(" ", "\u00a0"),
        f"{called}\ufe0f",
        called.translate(WIDE),
    )
    for spelling in spellings:
        for method, path in (("POST", "/iam/groups"), ("PATCH", f"/iam/groups/{other}")):
            answer = iam.ask(method, path, {"name": spelling})
            assert code(answer) == (409, "GROUP_NAME_TAKEN"), spelling
            assert details(answer) == {"groupId": group, "name": called}
    # The spelling of a group's own name can be changed, and the same name is free in another tenant.
    assert iam.done(iam.ask("PATCH", f"/iam/groups/{group}", {"name": called.upper()})) is True
    assert Iam(iam.platform, tenant=STAGING).group(called) != group
    look_alike = called.replace("e", "\u0435")  # a Cyrillic letter
    assert iam.group(look_alike) != group


def test_of_similar_names_created_at_the_same_moment_one_is_taken(iam: Iam) -> None:
    called = name()
    spellings = (called, called.upper(), called.title(), f"{called}\ufe0f")
    answers = at_once([partial(iam.ask, "POST", "/iam/groups", {"name": spelling}) for spelling in spellings])
    assert sorted(answer.status for answer in answers) == [201, 409, 409, 409]


def test_only_names_that_are_new_since_the_comparison_are_compared_in_the_transaction(
    iam: Iam, demo_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = name()
    iam.group(name())
    with demo_database.read() as connection:
        compared = group_queries.compare_names(connection, WEB_SHOP, called.upper())
    assert list(compared.values()).count(True) == 0
    iam.group(called)
    folded: list[str] = []

    def fold(text: str) -> str:
        folded.append(text)
        return name_key(text)

    monkeypatch.setattr(group_queries, "name_key", fold)
    with demo_database.write() as connection:
        assert group_queries.similar_name(connection, WEB_SHOP, called.upper(), None, compared) == called
    assert set(folded) == {called.upper(), called}


def test_groups_that_have_similar_names_already_keep_them(iam: Iam, demo_database: Database) -> None:
    called = name()
    group, second = iam.group(called), str(uuid4())
    with demo_database.write() as connection:
        row = dict(connection.execute(select(groups).where(groups.c.id == group)).mappings().one())
        connection.execute(insert(groups).values(row | {"id": second, "name": called.upper()}))
    for identifier, own in ((group, called), (second, called.upper())):
        changed = iam.ask("PATCH", f"/iam/groups/{identifier}", {"name": own, "description": "still used"})
        assert (changed.status, changed.json()["name"]) == (200, own)
        assert code(iam.ask("POST", "/iam/groups", {"name": own})) == (409, "GROUP_NAME_TAKEN")
    assert iam.done(iam.ask("PATCH", f"/iam/groups/{second}", {"name": name()})) is True


def test_a_change_keeps_the_other_members_and_without_effect_the_version(iam: Iam) -> None:
    called, other = name(), name()
    group = iam.group(called, description="before")
    changed = iam.ask("PATCH", f"/iam/groups/{group}", {"name": other})
    assert (changed.json()["name"], changed.json()["description"]) == (other, "before")
    cleared = iam.ask("PATCH", f"/iam/groups/{group}", {"description": ""})
    assert (cleared.json()["name"], cleared.json()["description"]) == (other, "")
    assert cleared.headers["etag"] == '"3"'
    assert code(iam.ask("PATCH", f"/iam/groups/{group}", {})) == (400, "INVALID_INPUT")
    same = iam.ask("PATCH", f"/iam/groups/{group}", {"name": other, "description": ""})
    assert (iam.done(same), same.json()["version"]) == (False, 3)
    for identifier in (UNKNOWN_ID, "nonsense", "00000000", WEB_SHOP.upper(), "{" + UNKNOWN_ID + "}"):
        for method, body in (("GET", None), ("PATCH", {"name": "x"}), ("DELETE", None)):
            answer = iam.ask(method, f"/iam/groups/{identifier}", body)
            assert (answer.status, answer.body) == NOT_FOUND


def test_a_stale_write_is_refused_with_the_current_group_and_what_changed(iam: Iam) -> None:
    called = name()
    group = iam.group(called, description="one")
    path = f"/iam/groups/{group}"
    assert code(iam.ask("DELETE", path, if_match="1")) == (400, "INVALID_INPUT")
    assert iam.ask("PATCH", path, {"description": "two"}, if_match='"1"').status == 200
    for body in ({"name": name()}, {"name": called}, {"description": "three"}):
        assert iam.ask("PATCH", path, body).status == 200
    # Version 3 alone had another name; a version that never existed has no changes.
    only = ["description"]
    for version, changed in ((1, only), (2, only), (3, [*only, "name"]), (4, only), (9, [])):
        for method, change in (("PATCH", {"name": name()}), ("DELETE", None)):
            answer = iam.ask(method, path, change, if_match=f'"{version}"')
            assert code(answer) == (412, "STALE_VERSION")
            stale = details(answer)
            assert (stale["expected"], stale["current"], stale["changed"]) == (version, 5, changed)
            assert stale["resource"]["description"] == "three"
    assert iam.ask("DELETE", path, if_match='"5"').status == 204


def test_deleting_takes_membership_and_attachments_and_leaves_the_rest(iam: Iam) -> None:
    group, policy, revoked = iam.group(name()), iam.policy("p", allow("organizations:*")), KEYS["contractor-2025"]
    assert iam.attach(policy, "group", group).status == 204
    for key in (KEYS["tenant-writer"], revoked):
        assert iam.add(group, "api_key", key).status == 204
    # A revoked key stays a member without access.
    assert revoked in {one["memberId"] for one in iam.get(f"/iam/groups/{group}/members")["members"]}
    assert iam.decision("api_key", KEYS["tenant-writer"], "organizations:tenants:update")
    assert not iam.decision("api_key", revoked, "organizations:tenants:update")
    assert iam.ask("DELETE", f"/iam/groups/{group}").status == 204
    assert iam.get(f"/iam/policies/{policy}/attachments")["attachments"] == []
    assert iam.get(f"/iam/policies/{policy}")["attachmentCount"] == 0
    assert iam.access("api_key", KEYS["tenant-writer"])["policies"] == []


def test_members_are_a_set_of_type_and_id(iam: Iam) -> None:
    group, reader = iam.group(name()), KEYS["tenant-reader"]
    path, identity = f"/iam/groups/{group}", IDENTITIES["not-granted-yet"]
    assert iam.done(iam.add(group, "api_key", reader)) is True
    assert iam.done(iam.add(group, "workload_identity", identity)) is True
    assert iam.done(iam.add(group, "api_key", reader)) is False
    members = iam.get(f"{path}/members")["members"]
    assert [(one["memberType"], one["memberId"], one["memberName"]) for one in members] == [
        ("api_key", reader, "tenant-reader"),
        ("workload_identity", identity, "default/not-granted-yet"),
    ]
    found = iam.get(f"/iam/groups?limit=200&memberType=api_key&memberId={reader}")["groups"]
    assert group in {one["id"] for one in found}
    for kind in ("group", "user", "API_KEY", ""):
        for answer in (iam.add(group, kind, KEYS["terraform"]), iam.drop(group, kind, KEYS["terraform"])):
            assert code(answer) == (400, "INVALID_INPUT")
            assert details(answer)["known"] == ["api_key", "workload_identity"]
    # Keys that are unknown, of another tenant, of another organization.
    keys = (str(uuid4()), "not an id", KEYS["ci-preview"], KEYS["cms"])
    for kind, identifier in (*(("api_key", key) for key in keys), ("workload_identity", KEYS["terraform"])):
        answer = iam.add(group, kind, identifier)
        assert (answer.status, answer.body) == NOT_FOUND
    assert iam.drop(group, "api_key", reader).status == 204
    assert code(iam.drop(group, "api_key", reader)) == (404, "NOT_FOUND")
    assert code(iam.ask("DELETE", f"{path}/members?memberType=api_key")) == (400, "INVALID_INPUT")
    assert iam.ask("DELETE", path).status == 204


def test_a_group_is_answered_with_its_first_200_members(iam: Iam, demo_database: Database) -> None:
    group = iam.group(name())
    assert iam.get(f"/iam/groups/{group}")["members"] == []
    identity = IDENTITIES["not-granted-yet"]
    for kind, identifier in (("workload_identity", identity), ("api_key", KEYS["terraform"])):
        iam.done(iam.add(group, kind, identifier))
    both = [{"type": "workload_identity", "id": identity}, {"type": "api_key", "id": KEYS["terraform"]}]
    for answer in (iam.get(f"/iam/groups/{group}"), iam.ask("PATCH", f"/iam/groups/{group}", {"name": name()}).json()):
        assert (answer["members"], answer["membersTruncated"], answer["memberCount"]) == (both, False, 2)
    assert all("members" not in one for one in iam.get("/iam/groups")["groups"])
    with demo_database.write() as connection:
        row = connection.execute(select(group_members).where(group_members.c.group_id == group)).mappings().first()
        later = {"added_at": datetime(2999, 1, 1, tzinfo=UTC)}
        connection.execute(
            insert(group_members), [{**(row or {}), **later, "member_id": str(uuid4())} for _ in range(199)]
        )
    answer = iam.get(f"/iam/groups/{group}")
    assert (len(answer["members"]), answer["membersTruncated"], answer["memberCount"]) == (200, True, 201)
    assert answer["members"][:2] == both


def test_pages_hold_every_group_once_in_the_order_they_were_made(iam: Iam) -> None:
    other = Iam(iam.platform, tenant=DATA_LAKE)
    made = [other.group(name()) for _ in range(10)]
    pages = [page["groups"] for page in iam.platform.pages(f"{other.base}/iam/groups?limit=4", as_=iam.person)]
    assert [len(page) for page in pages] == [4, 4, 2]
    assert [group["id"] for page in pages for group in page] == made
    assert [group["id"] for group in other.get("/iam/groups")["groups"]] == made
    # Groups deleted between two pages hide no others.
    page = other.get("/iam/groups?limit=3")
    for group in made[2:-3]:
        assert other.ask("DELETE", f"/iam/groups/{group}").status == 204
    rest = other.get(f"/iam/groups?limit=3&cursor={page['nextCursor']}")
    assert [group["id"] for group in rest["groups"]] == made[-3:]
    for group in (*made[:2], *made[-3:]):
        assert other.ask("DELETE", f"/iam/groups/{group}").status == 204
    assert other.get("/iam/groups") == {"groups": [], "nextCursor": ""}
    # A limit outside 1 to 200 is refused.
    for limit in ("0", "201", "-1", "abc", "1.5", "%D9%A3", "1_0", "+5", "", "%2010"):
        answer = iam.ask("GET", f"/iam/groups?limit={limit}")
        assert code(answer) == (400, "INVALID_INPUT"), limit
        assert (details(answer)["min"], details(answer)["max"]) == (1, 200)
