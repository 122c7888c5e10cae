"""Applying default tags to the resources of a tenant, batch by batch."""

import asyncio
import threading
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, insert, update
from sqlalchemy.exc import IntegrityError

from service.catalogue.resource_types import kinds
from service.db.engine import Database
from service.db.tables import memberships, operations, resources
from service.default_tags import queries as store
from service.default_tags.apply_batch import Tally
from service.default_tags.apply_job import ApplyJob
from service.default_tags.tag_rules import examined_kinds
from tests.service.queries import execute
from tests.service.tagged import BEFORE, DEFAULTS, NOW, REST, Tagged, every_sort

COUNTS = ("examined", "updated", "unchanged", "skipped", "failed", "unlisted")


@pytest.fixture
def tagged(database: Database) -> Tagged:
    return Tagged(database)


def counts(*numbers: int) -> dict[str, int]:
    """Return a summary: examined, updated, unchanged, skipped and failed resources, and unlisted types."""
    return dict.fromkeys(COUNTS, 0) | dict(zip(COUNTS, numbers, strict=False))


def reasons(entries: list[dict[str, Any]]) -> dict[str, str]:
    return {entry["resourceId"]: entry["reason"] for entry in entries}


def test_a_resource_gets_missing_tags_and_keeps_its_own(tagged: Tagged) -> None:
    bare, own = tagged.resource(), tagged.resource(tags={"env": "dev", "app": "web"})
    reserved = tagged.resource(tags={"frostmoln_type": "x", "customer-id": "7"})
    whole = tagged.resource(tags={"cost-center": "", "env": "dev", "team": "x", "more": "y"})
    before = tagged.row(whole)
    others = [
        tagged.resource("volume", relations={"attachedTo": {"kind": "instance", "id": "i"}}),
        tagged.resource("node_pool", relations={"parent": {"kind": "kubernetes_cluster", "id": "c"}}),
    ]
    cluster = tagged.resource("kubernetes_cluster", tags={"of": "cluster", "env": "dev"})
    result = tagged.applied()
    assert [tagged.tags(one) for one in (bare, *others)] == [DEFAULTS] * 3
    assert tagged.tags(cluster) == {**DEFAULTS, "of": "cluster", "env": "dev"}
    assert tagged.tags(own) == {**DEFAULTS, "env": "dev", "app": "web"}
    assert tagged.tags(reserved) == {**DEFAULTS, "frostmoln_type": "x", "customer-id": "7"}
    assert tagged.row(whole) == before
    assert result["appliedTags"] == DEFAULTS
    assert (result["byType"]["instance"], result["summary"]) == (counts(4, 3, 1), counts(7, 6, 1))
    assert tagged.row(bare)["updated_at"] == NOW
    assert tagged.audited() == [("platform", "default_tags.apply.complete", "done")]


def test_a_second_run_updates_nothing_and_tries_what_failed_again(tagged: Tagged) -> None:
    one, other = tagged.resource("container_registry"), tagged.resource()
    building = tagged.resource(state="building")
    tagged.fail_listings("container_registry", "image")
    result = tagged.applied()
    assert [(entry["resourceType"], entry["resourceId"], entry["reason"]) for entry in result["failures"]] == [
        ("instance", building, "invalid_state"),
        ("image", "", "backend_unavailable"),
        ("container_registry", "", "backend_unavailable"),
    ]
    assert result["failures"][0]["resourceName"] == "r"
    assert result["failures"][0]["message"].endswith("run the apply again once it is ready")
    assert result["failures"][1]["message"].endswith("run the apply again later")
    assert result["byType"]["container_registry"] == counts(0, 0, 0, 0, 0, 1)
    assert result["summary"] == counts(2, 1, 0, 0, 1, 2)
    assert (tagged.tags(one), tagged.tags(other)) == ({}, DEFAULTS)
    tagged.fail_listings()
    tagged.change(building, state="running")
    assert tagged.applied()["summary"] == counts(3, 2, 1)
    assert [tagged.tags(each) for each in (one, building)] == [DEFAULTS] * 2


OWNED = {"owner": {"kind": "kubernetes_cluster", "id": "c"}}
SKIPPED: list[tuple[str, dict[str, Any], str]] = [
    ("security_group", {"managed": True}, "platform_managed"),
    ("security_group", {"managed": True, **OWNED}, "platform_managed"),
    ("load_balancer", OWNED, "platform_managed"),
    ("public_ip", OWNED, "platform_managed"),
    ("lb_listener", {"parent": {"kind": "load_balancer", "id": "l"}}, "load_balancer_child"),
    ("lb_pool", {}, "load_balancer_child"),
    ("lb_health_monitor", {}, "load_balancer_child"),
    ("instance", {"owner": {"kind": "node_pool", "id": "p"}}, "inside_managed_service"),
    ("volume", {"owner": {"kind": "database", "id": "d"}}, "inside_managed_service"),
    ("volume", {"owner": {"kind": "node_pool", "id": "p"}, "bootVolume": True}, "inside_managed_service"),
    ("volume", {"bootVolume": True, "attachedTo": {"kind": "instance", "id": "i"}}, "boot_volume"),
    ("image", {}, "image"),
    ("instance_snapshot", {}, "instance_snapshot"),
]


def test_a_skipped_resource_has_a_reason_and_other_kinds_are_not_listed(tagged: Tagged) -> None:
    empty = tagged.applied()
    assert (empty["byType"]["volume"], empty["summary"]) == (counts(), counts())
    listed = {kind.name for kind in examined_kinds()}
    others = kinds().keys() - listed
    assert {"message_broker", "webserver", "application_gateway", "key_pair"} <= others
    assert {"kubernetes_cluster", "node_pool", "database", "cache", "image"} <= listed
    for kind in others:
        tagged.resource(kind)
    expected = {tagged.resource(kind, relations=relations): (kind, reason) for kind, relations, reason in SKIPPED}
    before = tagged.all_rows()
    result = tagged.applied()
    skipped = {one["resourceId"]: (one["resourceType"], one["reason"]) for one in result["skipped"]}
    assert skipped == expected
    assert {one["resourceName"] for one in result["skipped"]} == {"r"}
    assert result["byType"].keys() == listed
    for kind, number in Counter(kind for kind, _, _ in SKIPPED).items():
        assert result["byType"][kind] == counts(number, 0, 0, number)
    assert tagged.all_rows() == before


def test_lists_are_cut_at_200_and_counts_are_not(tagged: Tagged) -> None:
    tagged.size = 90
    tagged.many(201, state="building")
    tagged.many(200, "volume", relations={"bootVolume": True})
    result = tagged.applied()
    assert (len(result["failures"]), result["failuresTruncated"]) == (200, True)
    assert (len(result["skipped"]), result["skippedTruncated"]) == (200, False)
    assert result["summary"] == counts(401, 0, 0, 200, 201)
    assert len(reasons(result["failures"])) == 200


@pytest.mark.parametrize("size", [1, 3, 2_000])
def test_a_preview_matches_the_run_in_batches_of_any_size_and_writes_nothing(tagged: Tagged, size: int) -> None:
    every_sort(tagged, 2)
    tagged.fail_listings("container_registry")
    before = tagged.all_rows()
    preview = tagged.preview()
    assert tagged.all_rows() == before
    affected = preview.pop("affected")
    # Instances that are updated, two of each: one that lacks every key, two that have their own `env`.
    assert affected["instance"] == {"cost-center": 6, "env": 2, "team": 6}
    assert set(affected) == {kind for kind, counts in preview["byType"].items() if counts["updated"]}
    tagged.size = size
    run_id = tagged.planned()
    assert tagged.carried(run_id)["result"] == preview
    for kind, expected in tagged.expected(before).items():
        if kind in preview["byType"]:
            numbers = preview["byType"][kind].items()
            assert {name: number for name, number in numbers if number and name != "examined"} == expected
    tagged.is_all_or_none(before, run_id)
    assert tagged.preview()["affected"] == {}
    updated = len(tagged.remembered(run_id))
    assert tagged.undone(run_id)["summary"] == counts(updated, updated)
    after = tagged.all_rows()
    assert {key: row["tags"] for key, row in after.items()} == {key: row["tags"] for key, row in before.items()}


def test_every_batch_moves_seq_and_the_progress(tagged: Tagged) -> None:
    tagged.size = 2
    tagged.many(3)
    tagged.many(1, "volume")
    run_id = tagged.planned()
    states = []

    def note_state() -> dict[str, Any]:
        row = tagged.operation(run_id)
        updated = row["counts"]["summary"]["updated"]
        states.append((row["seq"], row["status"], row["progress"], row["current_step"], updated))
        return row

    assert tagged.applying.start(run_id)
    note_state()
    while tagged.applying.run_batch(run_id, tagged.size):
        note_state()
    row = note_state()
    number = len(examined_kinds())
    assert states == [
        (1, "running", 0, None, 0),
        (2, "running", 50, f"instance (1/{number})", 2),
        (3, "running", 75, f"instance (1/{number})", 3),
        (4, "running", 99, f"volume (6/{number})", 4),
        (5, "completed", 100, f"volume (6/{number})", 4),
    ]
    assert (row["started_at"], row["completed_at"]) == (NOW, NOW)


async def test_four_processes_at_one_run_do_each_batch_once_at_the_pace(tagged: Tagged) -> None:
    tagged.size = 10
    tagged.many(100)
    before = tagged.all_rows()
    run_id = tagged.planned()
    await asyncio.gather(*(tagged.applying.run(run_id) for _ in range(4)))
    row = tagged.operation(run_id)
    assert (row["status"], row["seq"]) == ("completed", 12)
    assert row["result"]["summary"] == counts(100, 100)
    tagged.is_all_or_none(before, run_id)
    loop = asyncio.get_running_loop()
    began = loop.time()
    await ApplyJob(tagged.database, tagged.applying.clock, pace=0.1, most=50).run(tagged.planned())
    assert loop.time() - began >= 0.2


async def test_a_batch_that_fails_is_rolled_back_and_repeated(tagged: Tagged, monkeypatch: pytest.MonkeyPatch) -> None:
    tagged.many(4)
    before = tagged.all_rows()
    failures = iter([OSError("gone")] * 3)
    add_tags = store.add_tags

    def fail(*args: Any) -> None:
        add_tags(*args)
        for failure in failures:
            raise failure

    monkeypatch.setattr(store, "add_tags", fail)
    run_id = tagged.planned()
    await tagged.applying.run(run_id)
    row = tagged.operation(run_id)
    assert (row["status"], row["seq"], list(failures)) == ("completed", 3, [])
    tagged.is_all_or_none(before, run_id)
    # A finished run is not run again.
    tagged.resource()
    await tagged.applying.run(run_id)
    assert not tagged.applying.run_batch(run_id, tagged.size)
    assert tagged.operation(run_id) == row


def test_the_database_permits_one_open_run_a_tenant(tagged: Tagged) -> None:
    own, other = tagged.resource(), Tagged(tagged.database)
    theirs = other.resource()
    run_id = tagged.planned({"env": "then"})
    with pytest.raises(IntegrityError):
        tagged.planned()
    other.planned()
    result = tagged.carried(run_id)["result"]
    # Only the tenant gets the tags, and those of the start.
    assert (result["summary"]["examined"], result["appliedTags"]) == (1, {"env": "then"})
    assert (other.tags(theirs), tagged.tags(own)) == ({}, {"env": "then"})
    tagged.planned()


def test_a_run_of_a_person_who_lost_the_role_changes_nothing(tagged: Tagged) -> None:
    one = tagged.resource()
    run_id = tagged.planned()
    execute(tagged.database, update(memberships).values(role="member"))
    row = tagged.carried(run_id)
    assert (row["status"], row["error_code"], row["result"]) == ("failed", "forbidden", None)
    assert "nothing was changed" in row["error"]
    assert tagged.tags(one) == {}
    assert tagged.audited() == [("platform", "default_tags.apply.complete", "refused")]


def test_resources_made_removed_and_retagged_during_a_run(tagged: Tagged) -> None:
    tagged.size = 5
    ids = sorted(tagged.many(20))
    run_id = tagged.planned()
    work = tagged.applying
    assert work.start(run_id)
    assert work.run_batch(run_id, tagged.size)
    passed, ahead, changed = ids[0], ids[-1], {"env": "changed", "mine": "1"}
    tagged.change(passed, tags=changed)
    tagged.change(ahead, tags=changed)
    new = REST | {"tenant_id": tagged.tenant_id, "kind": "instance", "state": "running", "relations": {}}
    execute(
        tagged.database,
        delete(resources).where(resources.c.id.in_([ids[1], ids[-2]])),
        insert(resources).values(**new, id="0" * 8, tags=DEFAULTS),
        insert(resources).values(**new, id="f" * 36, tags={"env": "own"}),
    )
    while work.run_batch(run_id, tagged.size):
        pass
    result = tagged.operation(run_id)["result"]
    expected = {passed: changed, ahead: DEFAULTS | changed, "0" * 8: DEFAULTS, "f" * 36: DEFAULTS | {"env": "own"}}
    assert {one: tagged.tags(one) for one in expected} == expected
    assert result["summary"] == counts(20, 20)


def test_a_change_during_a_batch_waits_for_it(tagged: Tagged, monkeypatch: pytest.MonkeyPatch) -> None:
    one = tagged.resource()
    theirs = {f"k{number}": "" for number in range(kinds()["instance"].tag_limit)}
    other = threading.Thread(target=lambda: tagged.change(one, tags=theirs))
    add = store.log_added_keys

    def remember(*args: Any) -> None:
        add(*args)
        other.start()
        other.join(0.5)
        assert other.is_alive()

    monkeypatch.setattr(store, "log_added_keys", remember)
    assert tagged.applied()["summary"]["updated"] == 1
    other.join()
    assert tagged.tags(one) == theirs


def test_a_run_that_an_earlier_version_began_separates_the_types_that_it_could_not_list(tagged: Tagged) -> None:
    tagged.resource()
    tagged.fail_listings("image")
    run_id = tagged.planned()
    tagged.carried(run_id)
    counted = tagged.operation(run_id)["counts"]
    earlier = {
        kind: {name: number for name, number in numbers.items() if name != "unlisted"}
        for kind, numbers in counted["byType"].items()
    }
    earlier["image"]["failed"] = 1
    tally = Tally.from_json({**counted, "byType": earlier})
    assert (tally.by_type["image"], tally.summary()) == (counts(0, 0, 0, 0, 0, 1), counts(1, 1, 0, 0, 0, 1))
    assert tally.result(DEFAULTS)["summary"] == counted["summary"]


def test_an_undo_removes_only_the_tags_that_the_run_added_and_repeats_failed_ones(tagged: Tagged) -> None:
    own_tags = ({}, {"env": "prod", "app": "w"}, DEFAULTS)
    ids = [tagged.resource(tags=tags) for tags in own_tags]
    run_id = tagged.planned()
    tagged.carried(run_id)
    preview = tagged.preview(DEFAULTS, run_id)
    result = tagged.undone(run_id)
    assert tuple(tagged.tags(one) for one in ids) == own_tags
    assert result["summary"] == counts(2, 2)
    assert preview["affected"] == {"instance": {"cost-center": 2, "env": 1, "team": 2}}
    assert preview == result | {"affected": preview["affected"]}
    assert tagged.remembered(run_id) == {}
    assert tagged.audited()[-1] == ("platform", "default_tags.undo.complete", "done")
    # Resources that changed or are gone are skipped.
    partly, changed, removed, gone, busy = tagged.many(5, "volume")
    run_id = tagged.planned()
    tagged.carried(run_id)
    other_tags = {"env": "dev", "team": "other", "cost-center": ""}
    for one, tags in ((partly, {**DEFAULTS, "env": "dev"}), (changed, other_tags), (removed, {"mine": "1"})):
        tagged.change(one, tags=tags)
    tagged.change(busy, state="creating")
    execute(tagged.database, delete(resources).where(resources.c.id == gone))
    result = tagged.undone(run_id)
    tags = [tagged.tags(one) for one in (partly, changed, removed, busy)]
    assert tags == [{"env": "dev"}, other_tags, {"mine": "1"}, DEFAULTS]
    assert reasons(result["skipped"]) == {changed: "changed_since", removed: "changed_since", gone: "gone"}
    assert result["byType"]["volume"] == counts(5, 1, 0, 3, 1)
    tagged.change(busy, state="available")
    assert tagged.undone(run_id)["byType"]["volume"]["updated"] == 1
    assert tagged.tags(busy) == {}


def test_the_last_ten_runs_can_be_undone_and_the_log_of_a_run_remains_until_its_undo_has_ended(tagged: Tagged) -> None:
    def plan_at(minute: int, tags: dict[str, str], undoes: str | None = None) -> str:
        run_id, at = tagged.planned(tags, undoes), BEFORE + timedelta(minutes=minute)
        execute(tagged.database, update(operations).where(operations.c.run_id == run_id).values(created_at=at))
        return run_id

    runs = []
    for minute in range(11):
        tagged.many(2)
        runs.append(plan_at(minute, {f"k{minute}": "", "env": "x"}))
        tagged.carried(runs[-1])
    assert [bool(tagged.remembered(run_id)) for run_id in runs] == [False] + [True] * 10
    # The oldest of ten runs is undone after the end of the newest and before its pruning.
    undo = plan_at(11, {"k1": "", "env": "x"}, undoes=runs[1])
    tagged.applying.prune_undo_log(runs[-1])
    assert len(tagged.remembered(runs[1])) == 4
    assert tagged.carried(undo)["counts"]["summary"]["updated"] == 4
    assert tagged.remembered(runs[1]) == {}
