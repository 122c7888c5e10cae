"""Default tags over HTTP: read and replaced, their history, and the tags of new resources."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from client.models.validation import problem_of_set
from service.db.engine import Database
from service.db.tables import audit_log, default_tag_versions
from tests.api import Answer
from tests.people import ADMIN, AURORA, OWNER, SANDBOX, STAGING, WEB_SHOP
from tests.service.access import Iam, allow, code, deny, details
from tests.service.account import Key
from tests.service.queries import execute, fetch
from tests.service.running import Running

# `tests/client/test_tag_rules.py` has all the rules.
INVALID = [("reserved_prefix", "OS_Type", ""), ("key_charset", "o\u017f_type", ""), ("value_charset", "env", "\u202e")]


NOT_STRINGS = '"tags" must be an object of string values'
INVALID_BODIES = {
    b"{}": '"tags" is required',
    b'{"tags":{},"more":1}': 'unknown member "more"',
    **dict.fromkeys((b'{"tags":null}', b'{"tags":[]}', b'{"tags":{"a":{"b":"c"}}}'), NOT_STRINGS),
    b'{"tags":{"good":"x","bad":null}}': '"bad"',
    b'{"tags":{"a":"1","a":"2"}}': "invalid request body",
}


def test_nothing_is_written_of_an_invalid_body_or_one_bad_tag_among_good_ones(platform: Running) -> None:
    assert put(platform, {"env": "kept"}).status == 200
    before = history(platform)
    for reason, key, value in INVALID:
        tags = {"a-good": "one", "zz": "good", key: value}
        refused = put(platform, tags)
        assert code(refused) == (400, "INVALID_INPUT")
        problem = problem_of_set(tags)
        assert problem is not None
        assert refused.json()["error"]["message"] == problem.message, "as commands and screens say it"
        assert {"member": "tags", "reason": reason, "key": key}.items() <= details(refused).items()
    refused = put(platform, {f"k{number}": "" for number in range(11)})
    assert code(refused) == (400, "INVALID_INPUT")
    assert details(refused) == {"member": "tags", "reason": "count", "max": 10, "count": 11}
    for content, text in INVALID_BODIES.items():
        refused = Iam(platform).raw("PUT", "/default-tags", content)
        assert code(refused) == (400, "INVALID_INPUT")
        assert text in refused.json()["error"]["message"]
    assert (stored(platform), history(platform)) == ({"env": "kept"}, before)


NEW = {"name": "made-here", "region": "se-sto-1"}


def path(tenant: str = WEB_SHOP, rest: str = "") -> str:
    return f"/api/v1/tenants/{tenant}/default-tags{rest}"


def put(platform: Running, tags: Any, *, person: str = OWNER, tenant: str = WEB_SHOP, **headers: str) -> Answer:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return platform.ask("PUT", path(tenant), as_=person, body={"tags": tags}, headers=sent)


def stored(platform: Running, tenant: str = WEB_SHOP) -> dict[str, str]:
    return dict(platform.get(path(tenant), as_=OWNER).json()["tags"])


def history(platform: Running, tenant: str = WEB_SHOP, query: str = "") -> Any:
    return platform.get(path(tenant, f"/history{query}"), as_=OWNER).json()


def create(platform: Running, kind: str = "instance", tenant: str = WEB_SHOP, **members: Any) -> Answer:
    headers = members.pop("headers", {})
    place = f"/api/v1/tenants/{tenant}/resources/{kind}"
    return platform.ask("POST", place, as_=OWNER, body=NEW | members, headers=headers)


def new_tenant(platform: Running) -> str:
    body = {"displayName": "Brand New"}
    return str(platform.ask("POST", f"/api/v1/organizations/{AURORA}/tenants", as_=OWNER, body=body).json()["id"])


def test_a_set_is_replaced_as_a_whole_and_sorted_by_key(platform: Running, platform_database: Database) -> None:
    edges = {"k" * 64: "v" * 255, "a": "", "Team_Name.v2": "Platform Ops", "eq": "x=y+z"}
    edges |= {f"n{number}": "user@example.com" for number in range(6)}
    staging = stored(platform, STAGING)
    for tags in ({"only": "this"}, {}, edges):
        assert put(platform, tags).json() == {"tags": tags}
        assert stored(platform) == tags
    assert stored(platform, STAGING) == staging
    answer = put(platform, {"team": "a", "env": "prod"})
    assert answer.body == platform.get(path(), as_=OWNER).body == b'{"tags":{"env":"prod","team":"a"}}'
    assert answer.headers["x-frost-changed"] == "true"
    # The same set again changes nothing.
    before = history(platform)
    again = put(platform, {"env": "prod", "team": "a"})
    assert (again.status, again.headers["x-frost-changed"]) == (200, "false")
    assert again.headers["etag"] == answer.headers["etag"]
    assert history(platform) == before
    mine = audit_log.c.operation == "default_tags.update", audit_log.c.target == f"tenant:{WEB_SHOP}"
    [row] = fetch(platform_database, select(audit_log).where(*mine).order_by(audit_log.c.id.desc()).limit(1))
    assert (row.outcome, row.details["from"], row.details["to"]) == ("done", edges, {"env": "prod", "team": "a"})
    # A tenant can have default tags while it is provisioned.
    assert put(platform, {"env": "early"}, tenant=SANDBOX).status == 200


def test_a_write_from_an_older_version_is_refused_with_the_current_one(platform: Running) -> None:
    old = put(platform, {"env": "one"}).headers["etag"]
    new = put(platform, {"env": "two"}, If_Match=old)
    assert new.status == 200
    refused = put(platform, {"env": "three"}, If_Match=old)
    assert code(refused) == (412, "STALE_VERSION")
    assert details(refused)["tags"] == {"env": "two"}
    assert refused.headers["etag"] == new.headers["etag"]
    assert stored(platform) == {"env": "two"}
    assert put(platform, {"env": "four"}, If_Match="*").status == 200
    for wrong in ('"x"', "3", 'W/"3"', '"1", "2"'):
        assert code(put(platform, {"env": "five"}, If_Match=wrong)) == (400, "INVALID_INPUT")


def test_policies_decide_about_keys(platform: Running) -> None:
    iam, narrow = Iam(platform), Key(platform, "organizations:*")
    own = allow("organizations:default-tags:*", targets=(f"frn:organizations:*:*:default-tags/{WEB_SHOP}",))
    iam.attach(iam.policy("own", own), "api_key", narrow.id)
    assert narrow.use("PUT", path(), {"tags": {"env": "dev"}}).status == 200
    iam.attach(iam.policy("tags", allow("*"), deny("organizations:default-tags:update")), "api_key", narrow.id)
    assert code(narrow.use("PUT", path(), {"tags": {}})) == (403, "INSUFFICIENT_PERMISSIONS")
    assert stored(platform) == {"env": "dev"}
    # Rights do not depend on default tags.
    key, place = Key(platform, "compute:*"), f"/api/v1/tenants/{WEB_SHOP}/resources/instance"
    only_dev = allow("compute:instances:create", equals={"frn:requestTag/env": "dev"})
    iam.attach(iam.policy("dev only", only_dev), "api_key", key.id)
    assert code(key.use("POST", place, NEW)) == (403, "INSUFFICIENT_PERMISSIONS")
    assert key.use("POST", place, NEW | {"tags": {"env": "dev"}}).status == 201


def test_the_history_names_the_person_is_paged_and_can_be_restored(platform: Running) -> None:
    tenant = new_tenant(platform)
    assert stored(platform, tenant) == {}
    put(platform, {"env": "a"}, tenant=tenant)
    put(platform, {"env": "b"}, tenant=tenant, person=ADMIN)
    versions = history(platform, tenant)["versions"]
    assert [one["tags"] for one in versions] == [{"env": "b"}, {"env": "a"}, {}]
    assert [one["current"] for one in versions] == [True, False, False]
    assert [one["changedBy"]["email"] for one in versions[:2]] == [ADMIN, OWNER]
    pages = [*platform.pages(path(tenant, "/history?limit=2"), as_=OWNER)]
    assert [version for page in pages for version in page["versions"]] == versions
    elsewhere = platform.get(path(STAGING, f"/history?cursor={pages[0]['nextCursor']}"), as_=OWNER)
    assert code(elsewhere) == (400, "INVALID_CURSOR")
    first = history(platform, STAGING, "?limit=200")["versions"][-1]
    assert (first["version"], first["tags"], first["changedBy"]) == (1, {"env": "dev"}, None)
    back = put(platform, versions[1]["tags"], tenant=tenant, If_Match=f'"{versions[0]["version"]}"')
    assert back.status == 200
    assert history(platform, tenant)["versions"][0]["tags"] == {"env": "a"}


def test_fifty_merges_at_once_each_survive_or_are_refused_for_the_limit(platform: Running) -> None:
    assert put(platform, {}).status == 200

    def merge(number: int) -> int:
        while True:
            current = platform.get(path(), as_=OWNER)
            tags = current.json()["tags"] | {f"k{number:02}": str(number)}
            answer = put(platform, tags, If_Match=current.headers["etag"])
            if answer.status != 412:
                return answer.status

    with ThreadPoolExecutor(16) as threads:
        statuses = dict(enumerate(threads.map(merge, range(50))))
    merged = {f"k{number:02}": str(number) for number, status in statuses.items() if status == 200}
    assert stored(platform) == merged
    assert len(merged) == 10
    assert sorted(set(statuses.values())) == [200, 400]
    numbers = [one["version"] for one in history(platform, query="?limit=11")["versions"]]
    assert numbers == list(range(numbers[0], numbers[0] - 11, -1))


def test_a_new_resource_gets_them_and_keeps_its_own(platform: Running) -> None:
    put(platform, {"env": "prod", "team": "shop"})
    made = create(platform).json()
    assert made["tags"] == {"env": "prod", "team": "shop"}
    own = {"env": "dev", "app": "x"}
    assert create(platform, "bucket", tags=own).json()["tags"] == own | {"team": "shop"}
    assert create(platform, "key_pair").json()["tags"] == {}
    # Later changes of the set change no resource.
    put(platform, {"env": "other", "more": "x"})
    assert platform.get(f"/api/v1/tenants/{WEB_SHOP}/resources/instance/{made['id']}", as_=OWNER).json() == made


def test_an_older_provider_is_refused_if_there_are_default_tags(platform: Running) -> None:
    put(platform, {"env": "prod"})
    secrets = f"/api/v1/tenants/{WEB_SHOP}/resources/secret?limit=200"
    before = platform.get(secrets, as_=OWNER).json()
    older = [{"X-FM-Provider-Version": version} for version in OLDER_PROVIDERS]
    for headers in older:
        refused = create(platform, "secret", headers=headers)
        assert code(refused) == (400, "PROVIDER_TOO_OLD")
        assert details(refused) == {"version": headers["X-FM-Provider-Version"], "minimum": "0.62.0"}
    assert platform.get(secrets, as_=OWNER).json() == before
    for version in NEWER_PROVIDERS:
        assert create(platform, "secret", headers={"X-FM-Provider-Version": version}).status == 201
    put(platform, {})
    for headers in older:
        assert create(platform, "secret", headers=headers).status == 201


OLDER_PROVIDERS = ("0.61.9", "v0.61.99", "0.0.1", "0.62.0-rc.1", "0.9.0", "v0.61.0+build.5")
NEWER_PROVIDERS = ("0.62.0", "v0.62.0", "0.62.1", "0.100.0", "1.0.0", "1.0.0-rc.1", "0.62.0+x")
NEWER_PROVIDERS += ("dev", "", "x" * 500, "0.61")
"""Versions that are newer or unknown."""


@pytest.mark.slow
def test_new_resources_get_the_former_set_for_a_while() -> None:
    versions = default_tag_versions.c
    with (
        Running(None, FROST_PLATFORM_TAG_PROPAGATION="600") as platform,
        closing(Database(platform.database_url)) as database,
    ):
        former = stored(platform)
        for tags in ({"env": "between"}, {"env": "new"}):
            put(platform, tags)
        assert create(platform).json()["tags"] == former
        assert create(platform, headers={"X-FM-Provider-Version": "0.1.0"}).status == 400
        earlier = datetime.now(UTC) - timedelta(seconds=601)
        of_shop = update(default_tag_versions).where(versions.tenant_id == WEB_SHOP, versions.changed_at > earlier)
        execute(database, of_shop.values(changed_at=earlier))
        assert create(platform, "secret").json()["tags"] == {"env": "new"}
        tenant = new_tenant(platform)
        put(platform, {"env": "first"}, tenant=tenant)
        assert create(platform, "secret", tenant).json()["tags"] == {}
