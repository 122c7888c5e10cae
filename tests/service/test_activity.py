"""Reading the audit log of a tenant and of an organization."""

from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from sqlalchemy import delete, func, insert, select

from service.activity.queries import Target, target_of
from service.db.engine import Database
from service.db.tables import audit_log
from tests.homes import Answer
from tests.service.access import IDENTITIES, KEYS, Iam, allow, code
from tests.service.audited import trace
from tests.service.running import (
    ADMIN,
    AURORA,
    BOREALIS,
    BOREALIS_OWNER,
    DATA_LAKE,
    MEMBER,
    NEWSROOM,
    NOBODY,
    OUTSIDER,
    OWNER,
    STAGING,
    WEB_SHOP,
    Running,
)

OF_WEB_SHOP = f"/api/v1/tenants/{WEB_SHOP}/activity"
OF_AURORA = f"/api/v1/organizations/{AURORA}/activity"


def ask(platform: Running, path: str = OF_WEB_SHOP, person: str = OWNER, **query: str) -> Answer:
    return platform.get(f"{path}?{urlencode(query)}", as_=person)


def read(platform: Running, path: str = OF_WEB_SHOP, person: str = OWNER, **query: str) -> list[dict[str, Any]]:
    """The first page."""
    answer = ask(platform, path, person, limit="200", **query)
    assert answer.status == 200, answer
    entries: list[dict[str, Any]] = answer.json()["entries"]
    return entries


def of(platform: Running, request_id: str, path: str = OF_WEB_SHOP) -> dict[str, Any]:
    (entry,) = [one for one in read(platform, path) if one["requestId"] == request_id]
    return entry


def renamed(platform: Running, name: str, **how: Any) -> str:
    request_id, headers = trace()
    platform.ask("PATCH", f"/api/v1/tenants/{WEB_SHOP}", body={"displayName": name}, headers=headers, **how)
    return request_id


def test_an_entry_names_the_actor_the_operation_and_the_target(platform: Running) -> None:
    iam = Iam(platform)
    policy = iam.policy("readers", allow("compute:*:read"))
    entry = next(one for one in read(platform, operation="policy.create") if one["targetId"] == policy)
    me = platform.get("/api/v1/me", as_=OWNER).json()
    assert entry["actor"] == {"kind": "session", "id": me["id"], "name": me["name"], "email": OWNER}
    assert (entry["credentialId"], entry["credentialName"]) == (me["credential"]["id"], None)
    assert (entry["target"], entry["targetKind"], entry["targetName"]) == (f"policy:{policy}", "policy", "readers")
    assert (entry["operation"], entry["outcome"], entry["details"]) == ("policy.create", "done", {"name": "readers"})
    iam.ask("DELETE", f"/iam/policies/{policy}")
    gone = [one for one in read(platform, operation="policy") if one["targetId"] == policy]
    assert [one["operation"] for one in gone] == ["policy.delete", "policy.create"]
    assert {one["targetName"] for one in gone} == {None}


def test_an_entry_of_a_key_names_the_key_and_its_creator(platform: Running) -> None:
    entry = of(platform, renamed(platform, "Shop of keys", key="terraform"))
    assert (entry["actor"]["kind"], entry["actor"]["email"]) == ("api_key", ADMIN)
    assert (entry["credentialId"], entry["credentialName"]) == (KEYS["terraform"], "terraform")
    assert (entry["targetKind"], entry["targetName"]) == ("tenant", "Shop of keys")


@pytest.mark.parametrize("caller", [{"as_": BOREALIS_OWNER}, {"as_": OUTSIDER}, {"key": "cms"}])
def test_refusals_of_strangers_are_in_no_activity_of_others(
    platform: Running, platform_database: Database, caller: dict[str, str]
) -> None:
    request_id = renamed(platform, "mine", **caller)
    elsewhere, headers = trace()
    creation = f"/api/v1/organizations/{AURORA}/tenants"
    platform.ask("POST", creation, body={"displayName": "mine"}, headers=headers, **caller)
    shown = [one["requestId"] for path in (OF_WEB_SHOP, OF_AURORA) for one in read(platform, path)]
    assert not {request_id, elsewhere} & set(shown)
    with platform_database.read() as connection:
        logged = select(audit_log).where(audit_log.c.request_id.in_([request_id, elsewhere])).order_by(audit_log.c.id)
        rows = connection.execute(logged).all()
    assert [row.operation for row in rows] == ["tenant.rename", "tenant.create"]
    assert {row.outcome for row in rows} == {"refused"}
    me = platform.get("/api/v1/me", **caller).json()
    assert {(row.actor_id, row.organization_id, row.tenant_id) for row in rows} == {(me["id"], None, None)}


def test_a_refused_member_is_shown_in_the_organization(platform: Running) -> None:
    request_id, headers = trace()
    path = f"/api/v1/tenants/{DATA_LAKE}"
    platform.ask("PATCH", path, as_=MEMBER, body={"displayName": "mine"}, headers=headers)
    assert of(platform, request_id, OF_AURORA)["outcome"] == "refused"
    assert request_id not in {one["requestId"] for one in read(platform, path + "/activity")}


def test_the_author_of_an_orphaned_policy_has_a_name_and_no_address(platform: Running) -> None:
    kept = platform.get(f"/api/v1/tenants/{WEB_SHOP}/iam/policies", as_=OWNER).json()["policies"]
    author = next(one["author"] for one in kept if one["orphaned"])
    entries = [one for one in read(platform) if one["actor"]["id"] == author["id"]]
    assert entries
    assert {(one["actor"]["name"], one["actor"]["email"]) for one in entries} == {(author["name"], None)}


def test_an_entry_is_shown_in_its_tenant_only(platform: Running) -> None:
    request_id = renamed(platform, "Shop told once", as_=OWNER)
    for path, person in (
        (f"/api/v1/tenants/{STAGING}/activity", OWNER),
        (OF_AURORA, OWNER),
        (f"/api/v1/tenants/{NEWSROOM}/activity", BOREALIS_OWNER),
        (f"/api/v1/organizations/{BOREALIS}/activity", BOREALIS_OWNER),
    ):
        assert request_id not in {one["requestId"] for one in read(platform, path, person)}, path
    assert request_id in {one["requestId"] for one in read(platform, person=ADMIN)}
    for person in (MEMBER, BOREALIS_OWNER, OUTSIDER):
        for path in (OF_WEB_SHOP, OF_AURORA):
            assert platform.get(path, as_=person).status == 403


def test_an_entry_without_a_tenant_is_shown_in_the_organization(platform: Running) -> None:
    request_id, headers = trace()
    platform.ask("POST", f"/api/v1/organizations/{AURORA}/tenants", as_=MEMBER, body={}, headers=headers)
    entry = of(platform, request_id, OF_AURORA)
    assert (entry["operation"], entry["outcome"]) == ("tenant.create", "refused")
    assert (entry["targetKind"], entry["targetName"]) == ("organization", "Aurora Labs")
    assert request_id not in {one["requestId"] for one in read(platform)}


def test_filters_choose_the_entries_they_name(platform: Running) -> None:
    # The admin made that key, and answers for what it does.
    by_admin, refused = renamed(platform, "Shop of the admin", as_=ADMIN), renamed(platform, "x", as_=MEMBER)
    by_key = renamed(platform, "Shop of a key", key="terraform")
    admin = platform.get("/api/v1/me", as_=ADMIN).json()["id"]

    def found(**query: str) -> set[str]:
        return {one["requestId"] for one in read(platform, **query)} & {by_admin, refused, by_key}

    assert found() == {by_admin, refused, by_key}
    assert found(actor=ADMIN) == found(actor=ADMIN.upper()) == found(actor=admin) == {by_admin, by_key}
    assert found(actor=KEYS["terraform"]) == {by_key}
    assert found(actor=BOREALIS_OWNER) == set()
    assert found(outcome="refused") == {refused}
    assert found(operation="tenant.rename") == found(operation="tenant") == {by_admin, refused, by_key}
    assert found(operation="ten") == found(operation="policy") == set()
    assert found(target=f"tenant:{WEB_SHOP}") == {by_admin, refused, by_key}
    assert found(target=f"tenant:{STAGING}") == set()
    at = of(platform, by_key)["at"]
    assert by_key in found(since=at)
    assert found(since="2099-01-01T00:00:00Z") == set()


def test_everything_about_one_thing_holds_what_was_refused_too(platform: Running) -> None:
    iam = Iam(platform)
    group = iam.group("night watch")
    iam.as_(MEMBER).ask("PATCH", f"/iam/groups/{group}", {"name": ""})
    about = read(platform, target=f"group:{group}")
    assert [(one["operation"], one["outcome"]) for one in about] == [
        ("group.update", "refused"),
        ("group.create", "done"),
    ]
    assert {(one["targetKind"], one["targetName"]) for one in about} == {("group", "night watch")}


@pytest.mark.parametrize(
    "query",
    [
        {"outcome": "maybe"},
        {"operation": "Policy%"},
        {"operation": ""},
        {"actor": ""},
        {"since": "yesterday"},
        {"since": "2026-11-21T10:00:00"},
        {"target": "policy"},
        {"target": f"/api/v1/tenants/{WEB_SHOP}"},
        {"limit": "0"},
        {"limit": "201"},
    ],
    ids=lambda query: "=".join(*query.items()),
)
def test_a_filter_that_means_nothing_is_refused_by_name(demo: Running, query: dict[str, str]) -> None:
    answer = ask(demo, **query)
    assert code(answer) == (400, "INVALID_INPUT")
    assert next(iter(query)) in answer.json()["error"]["message"]


def test_a_cursor_is_good_only_for_the_list_it_was_given_in(platform: Running) -> None:
    for _ in range(3):
        renamed(platform, "x", as_=MEMBER)
    answer = ask(platform, limit="1", outcome="refused").json()
    cursor = answer["nextCursor"]
    assert cursor

    def status(path: str = OF_WEB_SHOP, person: str = OWNER, **query: str) -> tuple[int, str]:
        asked = ask(platform, path, person, cursor=cursor, **query)
        return (200, "") if asked.status == 200 else code(asked)

    refused = (400, "INVALID_CURSOR")
    assert status(outcome="refused") == (200, "")
    assert status(outcome="refused", person=ADMIN) == (200, "")  # it holds no right of its own
    assert status() == status(outcome="done") == refused
    assert status(outcome="refused", actor=MEMBER) == refused
    assert status(outcome="refused", operation="tenant") == refused
    assert status(outcome="refused", target=f"tenant:{WEB_SHOP}") == refused
    assert status(outcome="refused", since="2020-01-01T00:00:00Z") == refused
    assert status(f"/api/v1/tenants/{STAGING}/activity", outcome="refused") == refused
    assert status(OF_AURORA, outcome="refused") == refused
    assert status(f"/api/v1/tenants/{NEWSROOM}/activity", BOREALIS_OWNER, outcome="refused") == refused


def test_pages_have_each_entry_once_and_the_newest_first(platform: Running, platform_database: Database) -> None:
    request_id = str(uuid4())
    entry = {"actor_kind": "platform", "actor_id": "platform", "tenant_id": WEB_SHOP, "organization_id": AURORA}
    entry |= {"operation": "proof.many", "target": "platform", "outcome": "done", "details": {}}
    with platform_database.write() as connection:
        at = connection.scalar(select(func.max(audit_log.c.at)))
        for number in range(23):
            connection.execute(insert(audit_log).values(entry | {"at": at, "request_id": f"{request_id}-{number}"}))
    seen, cursor = [], ""
    while True:
        answer = ask(platform, limit="5", operation="proof", **({"cursor": cursor} if cursor else {})).json()
        seen += [one["requestId"].rpartition("-")[2] for one in answer["entries"]]
        cursor = answer["nextCursor"]
        if not cursor:
            break
    assert seen == [str(number) for number in reversed(range(23))]
    with platform_database.write() as connection:
        connection.execute(delete(audit_log).where(audit_log.c.operation == "proof.many"))


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (f"policy:{NOBODY}", Target("policy", NOBODY)),
        (f"floating_ip:{NOBODY}", Target("floating_ip", NOBODY)),
        (f"/api/v1/tenants/{WEB_SHOP}", Target("tenant", WEB_SHOP)),
        (f"/api/v1/tenants/{WEB_SHOP}/default-tags/apply", Target("tenant", WEB_SHOP)),
        (f"/api/v1/tenants/{WEB_SHOP}/iam/policies/{NOBODY}/attachments", Target("policy", NOBODY)),
        (f"/api/v1/tenants/{WEB_SHOP}/iam/policies/%00", Target("tenant", WEB_SHOP)),
        (f"/api/v1/tenants/{WEB_SHOP}/api-keys/{NOBODY.upper()}/revoke", Target("api_key", NOBODY)),
        (f"/api/v1/tenants/{WEB_SHOP}/resources/instance/{NOBODY}/start", Target("instance", NOBODY)),
        (f"/api/v1/organizations/{AURORA}/tenants", Target("organization", AURORA)),
        ("platform", None),
        ("user_code", None),
        ("/api/v1/tenants/\x1b]52;c;x\x07", None),
        (f"policy:{IDENTITIES['checkout']}\n", None),
    ],
)
def test_the_target_of_an_entry(text: str, target: Target | None) -> None:
    assert target_of(text) == target
