"""Applies over HTTP: started, one at a time, previewed, listed, undone, followed."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from sqlalchemy import select, update

from service.db.engine import Database
from service.db.tables import audit_log, resources, tenants
from tests.api import Answer
from tests.people import BOREALIS_OWNER, MEMBER, NEWSROOM, OWNER, SANDBOX, STAGING, UNKNOWN_ID, WEB_SHOP
from tests.service.access import Iam, allow, code, deny, details
from tests.service.account import Key
from tests.service.conftest import KINDS, DemoUrl
from tests.service.live import EventReader
from tests.service.queries import execute, fetch
from tests.service.running import Running
from tests.waiting import at_once, until


@pytest.fixture(scope="module", params=KINDS)
def platform(request: pytest.FixtureRequest, demo_url: DemoUrl) -> Iterator[Running]:
    """A platform whose applies pause between their batches, so that tests see them run."""
    with Running(demo_url(request.param), FROST_PLATFORM_APPLY_PACE="0.03") as running:
        yield running


def base(tenant: str = WEB_SHOP) -> str:
    return f"/api/v1/tenants/{tenant}"


def ask(platform: Running, path: str, body: Any = None, *, person: str = OWNER, tenant: str = WEB_SHOP) -> Answer:
    return platform.ask("POST", f"{base(tenant)}/default-tags/{path}", as_=person, body=body)


def put(platform: Running, tags: dict[str, str], tenant: str = WEB_SHOP) -> None:
    answer = platform.ask("PUT", f"{base(tenant)}/default-tags", as_=OWNER, body={"tags": tags})
    assert answer.status == 200, answer


def operation(platform: Running, run_id: str, tenant: str = WEB_SHOP) -> dict[str, Any]:
    return dict(Iam(platform, tenant=tenant).get(f"/operations/{run_id}"))


def ended(platform: Running, run_id: str, tenant: str = WEB_SHOP) -> dict[str, Any]:
    until(lambda: operation(platform, run_id, tenant)["status"] not in ("pending", "running"), 60)
    return operation(platform, run_id, tenant)


def applied(platform: Running, tenant: str = WEB_SHOP) -> dict[str, Any]:
    answer = ask(platform, "apply", tenant=tenant)
    assert answer.status == 202, answer
    return ended(platform, answer.json()["runId"], tenant)


def runs(platform: Running, tenant: str = WEB_SHOP) -> list[dict[str, Any]]:
    return list(Iam(platform, tenant=tenant).get("/default-tags/runs")["runs"])


def tags_of(database: Database, tenant: str) -> dict[str, dict[str, str]]:
    query = select(resources.c.id, resources.c.tags).where(resources.c.tenant_id == tenant)
    return {row.id: row.tags for row in fetch(database, query)}


@pytest.mark.slow
def test_a_run_is_answered_at_once_followed_and_audited(platform: Running, platform_database: Database) -> None:
    tags = {"env": "prod", "one": "1"}
    put(platform, tags)
    preview = ask(platform, "preview", {}).json()
    answer = ask(platform, "apply")
    started = answer.json()
    assert answer.status == 202
    assert set(started) == {"operationId", "runId", "status", "resourceType", "createdAt"}
    assert (started["operationId"], started["status"]) == (f"apply-default-tags-{WEB_SHOP}", "pending")
    assert started["resourceType"] == "tenant_default_tags"
    states = []
    until(lambda: states.append(operation(platform, started["operationId"])) or states[-1]["status"] == "completed", 60)
    running = [one for one in states if one["status"] == "running"]
    assert all("result" not in one and set(one["counts"]) >= {"summary", "byType"} for one in running)
    assert [one["progress"] for one in states] == sorted(one["progress"] for one in states)
    assert any("(" in (one["currentStep"] or "") for one in running)
    done = operation(platform, started["runId"])
    assert done == states[-1]
    assert (done["progress"], done["seq"] > 10) == (100, True)
    affected = preview.pop("affected")
    assert done["result"] == preview
    assert sum(counts.get("one", 0) for counts in affected.values()) == done["result"]["summary"]["updated"]
    updated = sum("one" in tags for tags in tags_of(platform_database, WEB_SHOP).values())
    assert updated == done["result"]["summary"]["updated"]
    ask(platform, "apply", person=MEMBER)
    mine = audit_log.c.tenant_id == WEB_SHOP, audit_log.c.operation.startswith("default_tags.apply")
    last = select(audit_log).where(*mine).order_by(audit_log.c.id.desc()).limit(3)
    refused, end, start = fetch(platform_database, last)
    assert (start.actor_kind, start.operation, start.outcome) == ("session", "default_tags.apply", "done")
    assert start.details == {"runId": done["runId"], "tags": tags}
    assert (end.actor_kind, end.operation) == ("platform", "default_tags.apply.complete")
    assert end.details == {"runId": done["runId"], "summary": done["result"]["summary"]}
    assert (refused.operation, refused.outcome) == ("default_tags.apply", "refused")


@pytest.mark.slow
def test_a_second_start_is_refused_with_the_ids_of_the_first(platform: Running) -> None:
    put(platform, {"env": "prod", "two": "2"})
    first = ask(platform, "apply").json()
    for path, body in (("apply", None), (f"runs/{runs(platform)[-1]['runId']}/undo", {"preview": False})):
        refused = ask(platform, path, body)
        assert code(refused) == (409, "APPLY_IN_PROGRESS")
        error = refused.json()["error"]
        assert (error["operationId"], error["runId"]) == (first["operationId"], first["runId"])
    put(platform, {"env": "prod", "two": "2", "three": "3"})
    assert ended(platform, first["runId"])["result"]["appliedTags"] == {"env": "prod", "two": "2"}
    second = applied(platform)
    assert second["result"]["appliedTags"] == {"env": "prod", "two": "2", "three": "3"}
    assert operation(platform, first["operationId"])["runId"] == second["runId"]
    assert [run["runId"] for run in runs(platform)[:2]] == [second["runId"], first["runId"]]


@pytest.mark.slow
def test_of_twenty_starts_at_the_same_instant_one_runs(platform: Running) -> None:
    put(platform, {"env": "prod", "many": "x"})
    answers = at_once([partial(ask, platform, "apply")] * 20)
    assert sorted(answer.status for answer in answers) == [202] + [409] * 19
    [run_id] = {(answer.json().get("error") or answer.json())["runId"] for answer in answers}
    assert ended(platform, run_id)["status"] == "completed"


def test_an_apply_needs_valid_tags_and_a_provisioned_tenant(platform: Running, platform_database: Database) -> None:
    put(platform, {})
    for path, body in (("apply", None), ("preview", {})):
        assert code(ask(platform, path, body, tenant=SANDBOX)) == (400, "TENANT_NOT_PROVISIONED")
    reserved = {"os_type": "x"}
    execute(platform_database, update(tenants).where(tenants.c.id == STAGING).values(default_tags=reserved))
    refused = ask(platform, "apply", tenant=STAGING)
    assert code(refused) == (422, "INVALID_DEFAULT_TAGS")
    assert details(refused) == {"reason": "reserved_prefix", "key": "os_type"}
    assert platform.get(f"{base(STAGING)}/default-tags", as_=OWNER).json() == {"tags": reserved}
    put(platform, {}, STAGING)


def test_a_preview_of_other_tags_writes_nothing(platform: Running, platform_database: Database) -> None:
    put(platform, {"env": "prod"})
    before = tags_of(platform_database, WEB_SHOP), runs(platform)
    other = ask(platform, "preview", {"tags": {"new-key": "x"}}).json()
    assert other["appliedTags"] == {"new-key": "x"}
    assert other["summary"]["updated"] > 100
    assert other["affected"]["volume"]["new-key"] == other["byType"]["volume"]["updated"]
    for body in ({"tags": {"os_x": ""}}, {"tags": None}, {"tag": {}}):
        assert code(ask(platform, "preview", body)) == (400, "INVALID_INPUT")
    empty = ask(platform, "preview", {"tags": {}}).json()
    assert (empty["summary"]["updated"], empty["affected"]) == (0, {})
    assert (tags_of(platform_database, WEB_SHOP), runs(platform)) == before
    assert platform.get(f"{base()}/default-tags", as_=OWNER).json() == {"tags": {"env": "prod"}}


def test_an_apply_takes_no_body_or_an_empty_object(platform: Running) -> None:
    put(platform, {}, tenant=STAGING)
    path, plain = f"{base(STAGING)}/default-tags/apply", {"Authorization": f"Bearer {platform.token(OWNER)}"}
    typed = plain | {"Content-Type": "application/json"}
    for content in (None, b"", b"{}", b" \n", b"{ }"):
        # The body was accepted: there is nothing to apply, so that the test needs no run.
        for headers in (plain, typed):
            assert code(platform.request("POST", path, headers, content)) == (400, "NOTHING_TO_APPLY")
    before = runs(platform, STAGING)
    put(platform, {"env": "prod"}, tenant=STAGING)
    invalid = {b'{"preview":true}': "unknown_member", b'{"tags":{"a":"b"}}': "unknown_member"}
    invalid |= dict.fromkeys((b"[]", b"null", b'"x"'), "unexpected_body")
    for content, reason in (invalid | dict.fromkeys((b"{", b"tags=x"), "invalid_json")).items():
        answer = platform.request("POST", path, typed, content)
        assert (code(answer), details(answer)["reason"]) == ((400, "INVALID_INPUT"), reason)
    assert runs(platform, STAGING) == before


@pytest.mark.slow
def test_an_undo_restores_all_tags_and_is_listed(platform: Running, platform_database: Database) -> None:
    put(platform, {"undo-me": "x", "env": "prod"})
    before = tags_of(platform_database, WEB_SHOP)
    done = applied(platform)
    assert tags_of(platform_database, WEB_SHOP) != before
    listed = runs(platform)
    assert len(listed) <= 10
    assert [one["startedAt"] for one in listed] == sorted((one["startedAt"] for one in listed), reverse=True)
    latest = listed[0]
    assert (latest["runId"], latest["kind"], latest["status"]) == (done["runId"], "apply", "completed")
    assert (latest["undoable"], latest["undoneBy"], latest["undoes"]) == (True, None, None)
    assert latest["summary"] == done["result"]["summary"]
    assert latest["appliedTags"] == {"env": "prod", "undo-me": "x"}
    assert latest["startedBy"]["email"] == OWNER
    undo_path = f"runs/{done['runId']}/undo"
    preview = ask(platform, undo_path, {"preview": True}).json()
    answer = ask(platform, undo_path, {"preview": False})
    assert (answer.status, answer.json()["operationId"]) == (202, f"undo-default-tags-{WEB_SHOP}")
    undo = ended(platform, answer.json()["runId"])
    assert preview == undo["result"] | {"affected": preview["affected"]}
    assert undo["kind"] == done["kind"]
    assert tags_of(platform_database, WEB_SHOP) == before
    [undoing, undone, *_] = runs(platform)
    assert (undoing["kind"], undoing["undoes"], undoing["undoable"]) == ("undo", done["runId"], False)
    assert (undone["undoable"], undone["undoneBy"]) == (False, undoing["runId"])
    refused = ask(platform, undo_path, {"preview": False})
    assert code(refused) == (409, "NOTHING_TO_UNDO")
    assert details(refused) == {"undoneBy": undoing["runId"]}
    assert code(ask(platform, f"runs/{undoing['runId']}/undo", {"preview": True})) == (409, "NOTHING_TO_UNDO")


@pytest.mark.slow
def test_signals_come_while_it_runs_and_its_result_needs_access_to_default_tags(platform: Running) -> None:
    """A result has tags and names of resources; every key of the tenant reads the progress."""
    put(platform, {"env": "prod", "signals": "x"})
    reader = EventReader(platform, WEB_SHOP, platform.token(OWNER))
    assert reader.next() == ("resync", {})
    run_id = applied(platform)["runId"]
    signals = [signal for _, signal in reader.until("operation.completed")]
    types = [signal["type"] for signal in signals if signal["resourceType"] == "tenant_default_tags"]
    assert types[0] in ("operation.started", "operation.progress")
    assert types.count("operation.progress") >= 3
    assert types[-1] == "operation.completed"
    reader.close()
    one, every = f"{base()}/operations/{run_id}", f"{base()}/operations"
    iam, keys = Iam(platform), [Key(platform, f"organizations:{scope}") for scope in ("read", "write", "read")]
    iam.attach(iam.policy("no tags", allow("*"), deny("organizations:default-tags:*")), "api_key", keys[2].id)
    for key, has_result in zip((*keys, Key(platform, "dns:read")), (True, True, False, False), strict=True):
        document = key.use("GET", one).json()
        assert (document["status"], "result" in document) == ("completed", has_result)
        listed = key.use("GET", every).json()["operations"]
        assert next("result" in other for other in listed if other["runId"] == run_id) == has_result


def test_an_unknown_run_and_one_of_another_tenant_are_not_found(platform: Running) -> None:
    for run_id in (UNKNOWN_ID, "x", "apply-default-tags", "%27"):
        for preview in (True, False):
            assert code(ask(platform, f"runs/{run_id}/undo", {"preview": preview})) == (404, "NOT_FOUND")
    put(platform, {"tenant": "here"})
    run_id = applied(platform)["runId"]
    for tenant, person in ((STAGING, OWNER), (NEWSROOM, BOREALIS_OWNER)):
        for identifier in (run_id, f"apply-default-tags-{WEB_SHOP}"):
            answer = platform.get(f"{base(tenant)}/operations/{identifier}", as_=person)
            assert code(answer) == (404, "NOT_FOUND")
        undo = ask(platform, f"runs/{run_id}/undo", {"preview": True}, person=person, tenant=tenant)
        assert code(undo) == (404, "NOT_FOUND")
