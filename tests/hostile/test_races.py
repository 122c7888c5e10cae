"""Groups, policies, keys and identities that are deleted or edited while others change them."""

import random
from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy import select

from service.db.engine import Database
from service.db.tables import api_keys, group_members
from tests.api import Answer
from tests.hostile.dangling import dangling
from tests.service.access import READ, Iam, allow, code, details, document
from tests.service.account import Key
from tests.service.queries import execute
from tests.waiting import at_once

ROUNDS = 8


def race(*asks: Callable[[], Answer]) -> list[int]:
    shuffled = list(asks)
    random.shuffle(shuffled)
    statuses = [answer.status for answer in at_once(shuffled)]
    assert set(statuses) <= {200, 204, 404}, statuses
    return statuses


@pytest.mark.slow
def test_deletions_during_additions_leave_nothing_behind(iam: Iam, platform_database: Database) -> None:
    for number in range(ROUNDS):
        name = f"race-{number}-{random.randrange(10**9)}"
        group, policy, key = iam.group(name), iam.policy(name, allow("compute:*")), Key(iam.platform, "compute:read")
        binding = iam.binding(name, ["compute:read"])
        paths = [f"/iam/groups/{group}", f"/iam/policies/{policy}", f"/api-keys/{key.id}"]
        paths.append(f"/workload-identity/bindings/{binding}")
        race(
            partial(iam.add, group, "api_key", key.id),
            partial(iam.add, group, "workload_identity", binding),
            partial(iam.attach, policy, "group", group),
            partial(iam.attach, policy, "api_key", key.id),
            *(partial(iam.ask, "DELETE", path) for path in random.sample(paths, 2)),
        )
    assert dangling(platform_database) == []


def test_the_scan_finds_a_row_that_dangles(iam: Iam, platform_database: Database) -> None:
    group = iam.group(f"scanned {random.random()}")
    assert iam.add(group, "api_key", Key(iam.platform, "compute:read").id).status == 204
    with platform_database.read() as connection:
        member = connection.scalar(select(group_members.c.member_id).where(group_members.c.group_id == group))
    execute(platform_database, api_keys.delete().where(api_keys.c.id == member))
    assert dangling(platform_database) == [f"group_members: api_key {member}"]
    execute(platform_database, group_members.delete().where(group_members.c.member_id == member))


def test_the_second_of_two_edits_gets_the_changed_members(iam: Iam) -> None:
    for _ in range(ROUNDS):
        path = f"/iam/policies/{iam.policy('edited', allow('compute:*'))}"
        drafts = [{"document": document(allow(operation))} for operation in (READ, "storage:buckets:read")]
        answers = at_once([partial(iam.ask, "PATCH", path, draft, '"1"') for draft in drafts])
        first, late = sorted(answers, key=lambda answer: answer.status)
        assert (first.status, code(late)) == (200, (412, "STALE_VERSION"))
        stale = details(late)
        assert (stale["expected"], stale["current"], stale["changed"]) == (1, 2, ["document"])
        assert iam.get(path)["version"] == 2
        versions = iam.get(f"{path}/versions")["versions"]
        assert [one["version"] for one in versions] == [2, 1]
        assert versions[1]["document"]["rules"][0]["operations"] == ["compute:*"]
