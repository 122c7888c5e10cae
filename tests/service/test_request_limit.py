"""Sessions and workload identities have a rate limit, as API keys have theirs."""

from collections.abc import Callable

import pytest

from service.authn.rate_limit import RateLimited
from service.authn.request_limit import RequestLimit
from service.db.engine import Database
from tests.service.access import Iam
from tests.service.clusters import Cluster, Workload
from tests.service.conftest import KINDS
from tests.service.running import OWNER, Running


def is_counted(database: Database, limit: RequestLimit, name: str = "a session") -> bool:
    with database.read_committed() as connection:
        try:
            limit.require(connection, name)
        except RateLimited:
            return False
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_is_refused_with_when_to_come_back(kind: str, new_database_url: Callable[[str, bool], str]) -> None:
    url = new_database_url(kind, True) if kind == "postgresql" else None
    with Running(url, FROST_PLATFORM_REQUESTS_PER_MINUTE="2") as platform:
        assert [platform.get("/api/v1/me", as_=OWNER).status for _ in range(3)] == [200, 200, 429]
        refused = platform.get("/api/v1/me", as_=OWNER)
        wait = int(refused.headers["retry-after"])
        assert 1 <= wait <= 30
        assert refused.json() == {
            "error": "rate limit exceeded",
            "message": f"Too many requests. Please retry after {wait} seconds.",
            "retry_after": wait,
        }
        # Another session of the same person has its own.
        headers = {"Authorization": f"Bearer {platform.sign_in(OWNER)}"}
        assert platform.get("/api/v1/me", headers=headers).status == 200


@pytest.mark.parametrize("kind", KINDS)
def test_all_tokens_of_a_workload_identity_count_together(
    kind: str, new_database_url: Callable[[str, bool], str]
) -> None:
    url = new_database_url(kind, True) if kind == "postgresql" else None
    with Running(url, FROST_PLATFORM_REQUESTS_PER_MINUTE="10") as platform:
        cluster, iam = Cluster(platform), Iam(platform)
        assert cluster.register().status == 200
        for name in ("one", "other"):
            iam.binding(name, ["compute:read"])
        tokens = [Workload(cluster, "tests", "one") for _ in range(2)]
        statuses: list[int] = []
        while 429 not in statuses and len(statuses) < 60:
            statuses.append(tokens[len(statuses) % 2].use().status)
        assert statuses[:10] == [200] * 10
        assert statuses[-1] == 429
        assert Workload(cluster, "tests", "other").use().status == 200


def test_replicas_of_one_database_share_the_count(new_database_url: Callable[[str, bool], str]) -> None:
    database = Database(new_database_url("postgresql", True))
    replicas = [RequestLimit(database, 3) for _ in range(2)]
    assert [is_counted(database, replicas[number % 2]) for number in range(4)] == [True] * 3 + [False]
    assert is_counted(database, replicas[0], "another session")
    database.close()


def test_one_process_counts_in_memory_and_requests_come_back_evenly(
    new_database_url: Callable[[str, bool], str],
) -> None:
    database, now = Database(new_database_url("sqlite", True)), 0.0
    limit = RequestLimit(database, 60, clock=lambda: now)
    assert [is_counted(database, limit) for _ in range(61)] == [True] * 60 + [False]
    now = 2.0
    assert [is_counted(database, limit) for _ in range(3)] == [True, True, False]
    database.close()
