"""Groups and their members over the wire, on both databases."""

from datetime import UTC, datetime
from uuid import uuid4

import pytest
from sqlalchemy import insert, select

from service.db.engine import Database
from service.db.tables import group_members
from tests.service.access import IDENTITIES, KEYS, Iam, allow, code, details
from tests.service.running import DATA_LAKE, NOBODY, STAGING, WEB_SHOP


def name() -> str:
    return f"group {uuid4()}"


def test_a_new_group_has_the_given_members_and_a_version(iam: Iam) -> None:
    called = name()
    answer = iam.ask("POST", "/iam/groups", {"name": called, "description": "on call"})
    group = answer.json()
    assert answer.status == 201
    assert answer.headers["etag"] == '"1"'
    assert (group["name"], group["description"], group["tenantId"]) == (called, "on call", WEB_SHOP)
    assert (group["version"], group["memberCount"], group["policyCount"]) == (1, 0, 0)
    assert iam.get(f"/iam/groups/{group['id']}") == group
    assert iam.get(f"/iam/groups/{iam.group(name())}")["description"] == ""
    assert code(Iam(iam.platform, tenant=STAGING).ask("GET", f"/iam/groups/{group['id']}")) == (404, "NOT_FOUND")


@pytest.mark.parametrize("bad", ["", "   ", "a\u0000b", "a\u202eb", "x" * 129, "line\nbreak"])
def test_an_invalid_name_is_refused(iam: Iam, bad: str) -> None:
    answer = iam.ask("POST", "/iam/groups", {"name": bad})
    assert code(answer) == (400, "INVALID_INPUT")
    assert details(answer)["member"] == "name"


def test_a_second_group_of_the_name_is_a_conflict_that_names_the_first(iam: Iam) -> None:
    called = name()
    first = iam.group(called)
    answer = iam.ask("POST", "/iam/groups", {"name": f"  {called} "})
    assert code(answer) == (409, "GROUP_NAME_TAKEN")
    assert details(answer) == {"groupId": first}
    assert iam.ask("PATCH", f"/iam/groups/{iam.group(name())}", {"name": called}).status == 409
    assert iam.done(iam.ask("PATCH", f"/iam/groups/{first}", {"name": called})) is False
    assert Iam(iam.platform, tenant=STAGING).group(called) != first


@pytest.mark.parametrize("id_", [NOBODY, "nonsense", "00000000", WEB_SHOP.upper(), "{" + NOBODY + "}"])
def test_an_unknown_id_is_flatly_not_found(iam: Iam, id_: str) -> None:
    for method, body in (("GET", None), ("PATCH", {"name": "x"}), ("DELETE", None)):
        answer = iam.ask(method, f"/iam/groups/{id_}", body)
        assert (answer.status, answer.json()) == (404, {"code": "NOT_FOUND", "message": "resource not found"})


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


def test_a_stale_write_is_refused_with_the_current_group(iam: Iam) -> None:
    group = iam.group(name())
    newer = name()
    assert iam.ask("PATCH", f"/iam/groups/{group}", {"name": newer}, if_match='"1"').status == 200
    for method, body in (("PATCH", {"name": name()}), ("DELETE", None)):
        answer = iam.ask(method, f"/iam/groups/{group}", body, if_match='"1"')
        assert code(answer) == (412, "STALE_VERSION")
        assert (details(answer)["expected"], details(answer)["current"]) == (1, 2)
        assert details(answer)["resource"]["name"] == newer
    assert code(iam.ask("DELETE", f"/iam/groups/{group}", if_match="1")) == (400, "INVALID_INPUT")
    assert iam.ask("DELETE", f"/iam/groups/{group}", if_match='"2"').status == 204


def test_a_stale_write_names_the_members_that_changed_since_its_version(iam: Iam) -> None:
    called = name()
    group = iam.group(called, description="one")
    for body in ({"description": "two"}, {"name": name()}, {"name": called}, {"description": "three"}):
        assert iam.ask("PATCH", f"/iam/groups/{group}", body).status == 200

    def changed(version: int) -> list[str]:
        answer = iam.ask("DELETE", f"/iam/groups/{group}", if_match=f'"{version}"')
        assert code(answer) == (412, "STALE_VERSION")
        found: list[str] = details(answer)["changed"]
        return found

    # Version 3 alone had another name; of a version that never was nothing can be said.
    assert [changed(version) for version in (1, 2, 3, 4)] == [
        ["description"],
        ["description"],
        ["description", "name"],
        ["description"],
    ]
    assert changed(9) == []


def test_deleting_takes_membership_and_attachments_and_leaves_the_rest(iam: Iam) -> None:
    group, policy = iam.group(name()), iam.policy("p", allow("organizations:*"))
    assert iam.add(group, "api_key", KEYS["tenant-writer"]).status == 204
    assert iam.attach(policy, "group", group).status == 204
    assert iam.ask("DELETE", f"/iam/groups/{group}").status == 204
    assert iam.get(f"/iam/policies/{policy}/attachments")["attachments"] == []
    assert iam.get(f"/iam/policies/{policy}")["attachmentCount"] == 0
    key = KEYS["tenant-writer"]
    access = iam.get(f"/iam/access?principalType=api_key&principalId={key}")
    assert access["policies"] == []


def test_members_are_a_set_of_type_and_id(iam: Iam) -> None:
    group = iam.group(name())
    assert iam.done(iam.add(group, "api_key", KEYS["tenant-reader"])) is True
    assert iam.done(iam.add(group, "workload_identity", IDENTITIES["not-granted-yet"])) is True
    assert iam.done(iam.add(group, "api_key", KEYS["tenant-reader"])) is False
    members = iam.get(f"/iam/groups/{group}/members")["members"]
    assert [(one["memberType"], one["memberId"], one["memberName"]) for one in members] == [
        ("api_key", KEYS["tenant-reader"], "tenant-reader"),
        ("workload_identity", IDENTITIES["not-granted-yet"], "default/not-granted-yet"),
    ]
    found = iam.get(f"/iam/groups?limit=200&memberType=api_key&memberId={KEYS['tenant-reader']}")["groups"]
    assert group in {one["id"] for one in found}
    assert iam.ask("DELETE", f"/iam/groups/{group}").status == 204


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


@pytest.mark.parametrize("kind", ["group", "user", "API_KEY", ""])
def test_other_types_are_refused_with_the_values(iam: Iam, kind: str) -> None:
    group = iam.group(name())
    for answer in (iam.add(group, kind, KEYS["terraform"]), iam.drop(group, kind, KEYS["terraform"])):
        assert code(answer) == (400, "INVALID_INPUT")
        assert details(answer)["known"] == ["api_key", "workload_identity"]


def test_adding_an_absent_or_foreign_principal_is_the_same_404(iam: Iam) -> None:
    group = iam.group(name())
    answers = [
        iam.add(group, "api_key", str(uuid4())),
        iam.add(group, "api_key", "not an id"),
        iam.add(group, "api_key", KEYS["ci-preview"]),
        iam.add(group, "api_key", KEYS["cms"]),
        iam.add(group, "workload_identity", KEYS["terraform"]),
    ]
    assert {(answer.status, answer.body) for answer in answers} == {
        (404, b'{"code":"NOT_FOUND","message":"resource not found"}')
    }


def test_a_member_is_removed_once(iam: Iam) -> None:
    group = iam.group(name())
    assert iam.add(group, "api_key", KEYS["tenant-reader"]).status == 204
    assert iam.drop(group, "api_key", KEYS["tenant-reader"]).status == 204
    assert code(iam.drop(group, "api_key", KEYS["tenant-reader"])) == (404, "NOT_FOUND")
    assert code(iam.ask("DELETE", f"/iam/groups/{group}/members?memberType=api_key")) == (400, "INVALID_INPUT")


def test_a_revoked_key_stays_a_member_without_access(iam: Iam) -> None:
    group, policy = iam.group(name()), iam.policy("p", allow("compute:*"))
    assert iam.add(group, "api_key", KEYS["contractor-2025"]).status == 204
    assert iam.attach(policy, "group", group).status == 204
    assert iam.get(f"/iam/groups/{group}/members")["members"][0]["memberId"] == KEYS["contractor-2025"]
    assert not iam.decision("api_key", KEYS["contractor-2025"], "compute:instances:read")
    assert iam.ask("DELETE", f"/iam/groups/{group}").status == 204


def test_pages_hold_every_group_once_in_the_order_they_were_made(iam: Iam) -> None:
    other = Iam(iam.platform, tenant=DATA_LAKE)
    made = [other.group(name()) for _ in range(25)]
    pages = [page["groups"] for page in iam.platform.pages(f"{other.base}/iam/groups?limit=10", as_=iam.person)]
    assert [len(page) for page in pages] == [10, 10, 5]
    assert [group["id"] for page in pages for group in page] == made
    assert [group["id"] for group in other.get("/iam/groups")["groups"]] == made
    for group in made:
        assert other.ask("DELETE", f"/iam/groups/{group}").status == 204
    assert other.get("/iam/groups") == {"groups": [], "nextCursor": ""}


@pytest.mark.parametrize("limit", ["0", "201", "-1", "abc", "1.5", "٣", "1_0", "+5", "", "%2010"])
def test_a_limit_outside_1_to_200_is_refused_and_never_cut(iam: Iam, limit: str) -> None:
    answer = iam.ask("GET", "/iam/groups?limit=" + (limit if limit != "٣" else "%D9%A3"))
    assert code(answer) == (400, "INVALID_INPUT")
    assert (details(answer)["min"], details(answer)["max"]) == (1, 200)


def test_groups_deleted_between_two_pages_hide_no_others(iam: Iam) -> None:
    other = Iam(iam.platform, tenant=DATA_LAKE)
    made = [other.group(name()) for _ in range(6)]
    page = other.get("/iam/groups?limit=3")
    for gone in (made[2], made[3]):
        assert other.ask("DELETE", f"/iam/groups/{gone}").status == 204
    rest = other.get(f"/iam/groups?limit=3&cursor={page['nextCursor']}")
    assert [group["id"] for group in rest["groups"]] == made[4:]
    for group in (*made[:2], *made[4:]):
        other.ask("DELETE", f"/iam/groups/{group}")
