"""Entries of the audit log as sentences, and entries that become one sentence."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from client.tables.activity import ACTIVITY, folded_rows
from client.tables.activity_sentences import FOLDED_WITHIN, fold, sentence
from client.tables.columns import columns
from service.audit.entries import AuditEvent

NOW = datetime(2026, 11, 21, 10, 5, tzinfo=UTC)
ADA = {"kind": "session", "id": "u-1", "name": "Ada Lovelace", "email": "ada@x.example"}
KEYS = ("ci", "nightly", "deploy", "tests", "docs")


def entry(operation: str, target: str = "api_key:k-1", name: str | None = "ci", **members: Any) -> dict[str, Any]:
    kind, _, identifier = target.partition(":")
    base: dict[str, Any] = {
        "id": "1",
        "at": NOW.isoformat(),
        "actor": ADA,
        "operation": operation,
        "target": target,
        "targetKind": kind,
        "targetId": identifier,
        "targetName": name,
        "outcome": "done",
        "details": {},
    }
    return base | members


def refused(operation: str, code: str = "PERMISSION_DENIED", **details: Any) -> dict[str, Any]:
    return entry(operation, outcome="refused", details={"status": 403, "code": code, **details})


MEMBER = {"memberType": "api_key", "memberId": "k-1"}
SENTENCES = {
    "Ada Lovelace rotated API key ci": entry("api_key.rotate"),
    "Ada Lovelace revoked API key 01234567…": entry("api_key.revoke", "api_key:0123456789", None),
    "Ada Lovelace deleted API key gone": entry("api_key.delete", name=None, details={"name": "gone"}),
    "Ada Lovelace added API key ci to group on call": entry(
        "group.member.add", "group:g-1", "on call", details=MEMBER, detailNames={"k-1": "ci"}
    ),
    "Ada Lovelace removed API key k-1… from group on call": entry(
        "group.member.remove", "group:g-1", "on call", details=MEMBER
    ),
    "Ada Lovelace attached policy {quota} to group on call": entry(
        "policy.attach",
        "policy:p-1",
        "{quota}",
        details={"attacheeType": "group", "attacheeId": "g-1"},
        detailNames={"g-1": "on call"},
    ),
    "Ada Lovelace changed policy deploy: document, name": entry(
        "policy.update", "policy:p-1", "deploy", details={"version": 3, "changed": ["document", "name"]}
    ),
    "Ada Lovelace rolled back policy deploy to version 1": entry(
        "policy.rollback", "policy:p-1", "deploy", details={"version": 4, "changed": [], "rolledBackTo": 1}
    ),
    "Ada Lovelace changed API key ci: expires at": entry(
        "api_key.update", details={"expires_at": {"from": None, "to": "2027-01-01"}}
    ),
    "Ada Lovelace renamed tenant Shop (was Web Shop)": entry(
        "tenant.rename", "tenant:t-1", "Shop", details={"from": "Web Shop", "to": "Shop"}
    ),
    "Ada Lovelace changed the default tags of tenant Shop: + a=1, ~ env=dev (was prod)": entry(
        "default_tags.update", "tenant:t-1", "Shop", details={"from": {"env": "prod"}, "to": {"env": "dev", "a": "1"}}
    ),
    "platform applied default tags to tenant Shop: 720 changed, 195 skipped": entry(
        "default_tags.apply.complete",
        "tenant:t-1",
        "Shop",
        actor={"kind": "platform", "id": "platform"},
        details={"runId": "r", "summary": {"examined": 915, "updated": 720, "skipped": 195, "failed": 0}},
    ),
    "Ada Lovelace requested instances: 10 → 20": entry(
        "quota_request.create", "quota_request:q", None, details={"resourceType": "instances", "from": 10, "to": 20}
    ),
    "key ci created volume data": entry(
        "resource.create", "volume:v", "data", actor={"kind": "api_key", "id": "u-1"}, credentialName="ci"
    ),
    "Ada Lovelace deleted their account": entry("account.delete", "user:u-1", "Ada Lovelace"),
    "Ada Lovelace restored the account of user Bob": entry("account.restore", "user:u-2", "Bob"),
    "Ada Lovelace ended all their sessions": entry("session.revoke_all", "user:u-1", "Ada Lovelace"),
    "platform applied default tags to tenant Shop: 4 changed, 1 types not listed": entry(
        "default_tags.apply.complete",
        "tenant:t-1",
        "Shop",
        actor={"kind": "platform", "id": "platform"},
        details={"summary": {"examined": 4, "updated": 4, "skipped": 0, "failed": 1}},
    ),
    "Ada Lovelace signed in": entry("session.start", "session:s-1", None),
    "Ada Lovelace was not allowed to revoke API key ci": refused("api_key.revoke"),
    "Ada Lovelace was not allowed to create a tenant in organization Aurora": refused("tenant.create")
    | {"targetKind": "organization", "targetName": "Aurora"},
    "Ada Lovelace was not allowed to create an API key in tenant Shop": refused("api_key.create")
    | {"targetKind": "tenant", "targetName": "Shop"},
    "Ada Lovelace was not allowed to request a quota": refused("quota_request.create"),
    "Ada Lovelace was not allowed to attach API key ci": refused("policy.attach"),
    "Ada Lovelace was not allowed to add a member to group on call": refused("group.member.add")
    | {"targetKind": "group", "targetName": "on call"},
    "Ada Lovelace was not allowed to revoke API key ci (17 times)": refused("api_key.revoke", repeated=17),
    "Ada Lovelace could not create API key ci (API_KEY_LIMIT)": refused("api_key.create", "API_KEY_LIMIT"),
    "Ada Lovelace failed to provision tenant Shop (WORKFLOW_ERROR)": entry(
        "tenant.provision", "tenant:t-1", "Shop", outcome="failed", details={"reason": "WORKFLOW_ERROR"}
    ),
    "Ada Lovelace moon.land api_key ci": entry("moon.land", "api_key:k-1"),
}


@pytest.mark.parametrize("expected", SENTENCES)
def test_an_entry_is_a_sentence(expected: str) -> None:
    assert sentence([SENTENCES[expected]]) == expected.replace("api_key ci", "API key ci")


@pytest.mark.parametrize("event", AuditEvent)
@pytest.mark.parametrize("outcome", ["done", "refused", "failed"])
def test_every_event_of_the_platform_has_words(event: AuditEvent, outcome: str) -> None:
    for details in ({}, {"status": 403, "code": "PERMISSION_DENIED"}):
        text = sentence([entry(event.value, outcome=outcome, details=details)])
        assert event.value not in text
        assert not re.search(r"[{}]|  | $|None|nothing", text)
    # Entries of other versions and damaged ones have a sentence too.
    for details in ({"from": 1, "to": 2, "changed": 3, "summary": []}, {"summary": {"updated": "x"}}, None, "x"):
        assert sentence([entry(event.value, outcome=outcome, details=details, targetKind=None, actor=None)])


def members(*names: str, group: str = "g-1", minutes: int = 0) -> list[dict[str, Any]]:
    return [
        entry(
            "group.member.add",
            f"group:{group}",
            "deployers",
            id=name,
            at=(NOW - timedelta(minutes=minutes)).isoformat(),
            details={"memberType": "api_key", "memberId": name},
            detailNames={name: name},
        )
        for name in names
    ]


def created(*names: str) -> list[dict[str, Any]]:
    return [entry("api_key.create", f"api_key:{name}", name) for name in names]


def texts(entries: list[dict[str, Any]]) -> list[str]:
    return [sentence(group) for group in fold(entries)]


def test_repeats_are_one_sentence_with_their_names() -> None:
    assert texts(members(*KEYS[:3])) == ["Ada Lovelace added 3 API keys to group deployers: ci, nightly, deploy"]
    assert texts(created(*KEYS)) == ["Ada Lovelace created 5 API keys: ci, nightly, deploy and 2 more"]
    assert texts([refused("api_key.revoke", repeated=59), refused("api_key.revoke")]) == [
        "Ada Lovelace was not allowed to revoke API key ci (60 times)"
    ]


def test_entries_that_say_different_things_stay_apart() -> None:
    late = FOLDED_WITHIN.seconds // 60 + 1
    other = {**ADA, "id": "u-2", "name": "Grace Hopper"}
    apart = [
        *members("ci"),
        *members("ci", group="g-2"),
        *members("ci", group="g-2", minutes=late),
        *created("a"),
        entry("api_key.create", "api_key:b", "b", actor=other),
        entry("api_key.create", "api_key:c", "c", outcome="refused", details={"code": "X", "status": 409}),
        entry("api_key.revoke", "api_key:d", "d"),
    ]
    assert len(fold(apart)) == len(apart)
    # Two changes of one object, and what a change of each object says, would be lost.
    changes = [entry("policy.update", "policy:p", "p", details={"changed": [part]}) for part in ("name", "document")]
    assert len(fold(changes)) == 2
    restarts = [entry("resource.restart", f"instance:{name}", name) for name in ("a", "b", "c", "b")]
    assert texts(restarts) == ["Ada Lovelace restarted 3 instances: a, b, c", "Ada Lovelace restarted instance b"]
    assert fold([]) == []


def test_the_cost_of_a_fold_grows_with_the_number_of_entries() -> None:
    class Counted(dict[str, Any]):
        reads = 0

        def get(self, key: str, default: Any = None) -> Any:
            Counted.reads += 1
            return super().get(key, default)

    def count(number: int) -> int:
        Counted.reads = 0
        assert len(fold([Counted(one) for one in created(*map(str, range(number)))])) == 1
        return Counted.reads

    assert count(400) < 5 * count(100)


def test_a_table_has_a_row_for_each_sentence_and_a_wide_one_each_operation() -> None:
    (row,) = folded_rows(created("a", "b"), NOW + timedelta(hours=3))
    assert [column.text(row) for column in columns(ACTIVITY)] == ["3h ago", "Ada Lovelace created 2 API keys: a, b"]
    wide = {column.title: column.text(created("a")[0]) for column in columns(ACTIVITY, wide=True)}
    assert (wide["Operation"], wide["Time"]) == ("api_key.create", "2026-11-21 10:05Z")
