"""Reading the audit log of a tenant and of an organization."""

from typing import Any
from urllib.parse import urlencode

import pytest
from sqlalchemy import delete, func, insert, select

from service.activity.queries import Target, target_of
from service.db.engine import Database
from service.db.tables import audit_log
from tests import people as seed
from tests.api import Answer
from tests.people import ADMIN, AURORA, BOREALIS_OWNER, DATA_LAKE, MEMBER, OWNER, UNKNOWN_ID, WEB_SHOP
from tests.service import factories
from tests.service.access import IDENTITIES, KEYS, Iam, allow, code
from tests.service.audited import trace
from tests.service.queries import execute, fetch, fetch_scalars
from tests.service.running import Running

OF_WEB_SHOP = f"/api/v1/tenants/{WEB_SHOP}/activity"
OF_AURORA = f"/api/v1/organizations/{AURORA}/activity"


def ask(platform: Running, path: str = OF_WEB_SHOP, person: str = OWNER, **query: str) -> Answer:
    return platform.get(f"{path}?{urlencode(query)}", as_=person)


def read(platform: Running, path: str = OF_WEB_SHOP, person: str = OWNER, **query: str) -> list[dict[str, Any]]:
    answer = ask(platform, path, person, limit="200", **query)
    assert answer.status == 200, answer
    return list(answer.json()["entries"])


def of(platform: Running, request_id: str, path: str = OF_WEB_SHOP) -> dict[str, Any]:
    (entry,) = [one for one in read(platform, path) if one["requestId"] == request_id]
    return entry


def rename(platform: Running, name: str, tenant: str = WEB_SHOP, **caller: Any) -> str:
    """Return the id of a request that renames a tenant."""
    return send(platform, "PATCH", f"/api/v1/tenants/{tenant}", name, **caller)


def create_tenant(platform: Running, name: str, **caller: Any) -> str:
    return send(platform, "POST", f"/api/v1/organizations/{AURORA}/tenants", name, **caller)


def send(platform: Running, method: str, path: str, name: str, **caller: Any) -> str:
    request_id, headers = trace()
    platform.ask(method, path, body={"displayName": name}, headers=headers, **caller)
    return request_id


def ids(platform: Running, path: str = OF_WEB_SHOP, person: str = OWNER, **query: str) -> set[str]:
    return {one["requestId"] for one in read(platform, path, person, **query)}


def test_an_entry_names_its_actor_and_its_target(platform: Running) -> None:
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
    # The author of an orphaned policy has a name and no address.
    author = next(one["author"] for one in iam.get("/iam/policies")["policies"] if one["orphaned"])
    entries = [one for one in read(platform) if one["actor"]["id"] == author["id"]]
    assert {(one["actor"]["name"], one["actor"]["email"]) for one in entries} == {(author["name"], None)}
    entry = of(platform, rename(platform, "Shop of keys", key="terraform"))
    assert (entry["actor"]["kind"], entry["actor"]["email"]) == ("api_key", ADMIN)
    assert (entry["credentialId"], entry["credentialName"]) == (KEYS["terraform"], "terraform")
    assert (entry["targetKind"], entry["targetName"]) == ("tenant", "Shop of keys")


@pytest.mark.parametrize("caller", [{"as_": BOREALIS_OWNER}, {"as_": seed.OUTSIDER}, {"key": "cms"}])
def test_refusals_of_other_callers_are_in_no_activity(
    platform: Running, platform_database: Database, caller: dict[str, str]
) -> None:
    refused = [rename(platform, "mine", **caller), create_tenant(platform, "mine", **caller)]
    assert not {*refused} & (ids(platform) | ids(platform, OF_AURORA))
    for path in (OF_WEB_SHOP, OF_AURORA):
        assert platform.get(path, **caller).status == 403
    rows = fetch(platform_database, select(audit_log).where(audit_log.c.request_id.in_(refused)))
    assert {row.operation for row in rows} == {"tenant.rename", "tenant.create"}
    actor = platform.get("/api/v1/me", **caller).json()["id"]
    refusal = ("refused", actor, None, None)
    assert {(row.outcome, row.actor_id, row.organization_id, row.tenant_id) for row in rows} == {refusal}


def test_an_entry_is_shown_in_its_tenant_and_a_refused_member_in_the_organization(platform: Running) -> None:
    refused = rename(platform, "mine", DATA_LAKE, as_=MEMBER)
    assert of(platform, refused, OF_AURORA)["outcome"] == "refused"
    assert refused not in ids(platform, f"/api/v1/tenants/{DATA_LAKE}/activity")
    refused = create_tenant(platform, "", as_=MEMBER)
    entry = of(platform, refused, OF_AURORA)
    assert (entry["operation"], entry["outcome"]) == ("tenant.create", "refused")
    assert (entry["targetKind"], entry["targetName"]) == ("organization", "Aurora Labs")
    assert refused not in ids(platform)
    request_id = rename(platform, "Shop renamed once", as_=OWNER)
    for path, person in (
        (f"/api/v1/tenants/{seed.STAGING}/activity", OWNER),
        (OF_AURORA, OWNER),
        (f"/api/v1/tenants/{seed.NEWSROOM}/activity", BOREALIS_OWNER),
        (f"/api/v1/organizations/{seed.BOREALIS}/activity", BOREALIS_OWNER),
    ):
        assert request_id not in ids(platform, path, person), path
    assert request_id in ids(platform, person=ADMIN)


def test_filters_choose_the_entries_they_name(platform: Running) -> None:
    # In the same session a repeated refusal is only counted.
    platform.tokens.clear()
    # The admin created the key and is the actor of its changes.
    by_admin, refused = rename(platform, "Shop of the admin", as_=ADMIN), rename(platform, "x", as_=MEMBER)
    by_key = rename(platform, "Shop of a key", key="terraform")
    admin, at = platform.get("/api/v1/me", as_=ADMIN).json()["id"], of(platform, by_key)["at"]
    everything = {by_admin, refused, by_key}

    def matches(**query: str) -> set[str]:
        return ids(platform, **query) & everything

    assert matches() == everything
    assert matches(actor=ADMIN) == matches(actor=ADMIN.upper()) == matches(actor=admin) == {by_admin, by_key}
    assert matches(actor=KEYS["terraform"]) == {by_key}
    assert matches(actor=BOREALIS_OWNER) == set()
    assert matches(outcome="refused") == {refused}
    assert matches(operation="tenant.rename") == matches(operation="tenant") == everything
    assert matches(operation="ten") == matches(operation="policy") == set()
    assert matches(target=f"tenant:{WEB_SHOP}") == everything
    assert matches(target=f"tenant:{seed.STAGING}") == set()
    assert by_key in matches(since=at)
    assert matches(since="2099-01-01T00:00:00Z") == set()
    group = Iam(platform).group("night watch")
    Iam(platform, MEMBER).ask("PATCH", f"/iam/groups/{group}", {"name": ""})
    about = read(platform, target=f"group:{group}")
    outcomes = [("group.update", "refused"), ("group.create", "done")]
    assert [(one["operation"], one["outcome"]) for one in about] == outcomes
    assert {(one["targetKind"], one["targetName"]) for one in about} == {("group", "night watch")}


INVALID = {"outcome": ["maybe"], "operation": ["Policy%", ""], "actor": [""], "limit": ["0", "201"]}
INVALID |= {"since": ["yesterday", "2026-11-21T10:00:00"], "target": ["policy", OF_WEB_SHOP]}


def test_an_invalid_filter_is_refused_by_name(platform: Running) -> None:
    for name, value in ((name, value) for name, values in INVALID.items() for value in values):
        answer = ask(platform, **{name: value})
        assert code(answer) == (400, "INVALID_INPUT")
        assert name in answer.json()["error"]["message"]


def test_a_cursor_is_good_only_for_the_list_it_was_given_in(platform: Running) -> None:
    for _ in range(2):
        platform.tokens.clear()
        rename(platform, "x", as_=MEMBER)
    cursor = ask(platform, limit="1", outcome="refused").json()["nextCursor"]
    assert cursor
    assert ask(platform, cursor=cursor, outcome="refused").status == 200
    # A cursor holds no right of its own.
    assert ask(platform, cursor=cursor, outcome="refused", person=ADMIN).status == 200
    more = {"actor": MEMBER, "operation": "tenant", "target": f"tenant:{WEB_SHOP}", "since": "2020-01-01T00:00:00Z"}
    for query in ({}, {"outcome": "done"}, *({"outcome": "refused", name: value} for name, value in more.items())):
        assert code(ask(platform, cursor=cursor, **query)) == (400, "INVALID_CURSOR"), query
    elsewhere = {f"/api/v1/tenants/{seed.STAGING}/activity": OWNER, OF_AURORA: OWNER}
    for path, person in (elsewhere | {f"/api/v1/tenants/{seed.NEWSROOM}/activity": BOREALIS_OWNER}).items():
        assert code(ask(platform, path, person, cursor=cursor, outcome="refused")) == (400, "INVALID_CURSOR"), path


def test_pages_have_each_entry_once_and_the_newest_first(platform: Running, platform_database: Database) -> None:
    request_id, _ = trace()
    [at] = fetch_scalars(platform_database, select(func.max(audit_log.c.at)))
    members = {"operation": "proof.many", "tenant_id": WEB_SHOP, "organization_id": AURORA}
    entries = [factories.entry(at=at, request_id=f"{request_id}-{number}", **members) for number in range(23)]
    execute(platform_database, *(insert(audit_log).values(entry) for entry in entries))
    pages = platform.pages(f"{OF_WEB_SHOP}?limit=5&operation=proof", as_=OWNER)
    numbers = [one["requestId"].rpartition("-")[2] for page in pages for one in page["entries"]]
    assert numbers == [str(number) for number in reversed(range(23))]
    execute(platform_database, delete(audit_log).where(audit_log.c.operation == "proof.many"))


@pytest.mark.parametrize(
    ("text", "target"),
    [
        (f"policy:{UNKNOWN_ID}", Target("policy", UNKNOWN_ID)),
        (f"floating_ip:{UNKNOWN_ID}", Target("floating_ip", UNKNOWN_ID)),
        (f"/api/v1/tenants/{WEB_SHOP}", Target("tenant", WEB_SHOP)),
        (f"/api/v1/tenants/{WEB_SHOP}/default-tags/apply", Target("tenant", WEB_SHOP)),
        (f"/api/v1/tenants/{WEB_SHOP}/iam/policies/{UNKNOWN_ID}/attachments", Target("policy", UNKNOWN_ID)),
        (f"/api/v1/tenants/{WEB_SHOP}/iam/policies/%00", Target("tenant", WEB_SHOP)),
        (f"/api/v1/tenants/{WEB_SHOP}/api-keys/{UNKNOWN_ID.upper()}/revoke", Target("api_key", UNKNOWN_ID)),
        (f"/api/v1/tenants/{WEB_SHOP}/resources/instance/{UNKNOWN_ID}/start", Target("instance", UNKNOWN_ID)),
        (f"/api/v1/organizations/{AURORA}/tenants", Target("organization", AURORA)),
        ("platform", None),
        ("user_code", None),
        ("/api/v1/tenants/\x1b]52;c;x\x07", None),
        (f"policy:{IDENTITIES['checkout']}\n", None),
    ],
)
def test_the_target_of_an_entry(text: str, target: Target | None) -> None:
    assert target_of(text) == target
