"""Listing resources has a bounded cost."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import insert

from service.db import tables
from service.db.engine import Database
from service.resources import queries
from tests.people import STAGING
from tests.service.access import Iam, allow, code
from tests.service.account import Key
from tests.service.conftest import KINDS, DemoUrl
from tests.service.factories import AT, resource
from tests.service.running import Running

ABSENT = "00000000-0000-4000-8000-000000000000"
MANY = queries.MAX_DECISIONS + 1_500
PATH = f"/api/v1/tenants/{STAGING}/resources/instance?limit=1"
LAST = "ffffffff-0000-4000-8000-00000000000a"


@pytest.fixture(scope="module", params=KINDS)
def crowded(request: pytest.FixtureRequest, demo_url: DemoUrl) -> Iterator[Running]:
    """A platform on which a tenant has more instances than one request decides one by one; the last has a tag."""
    with Running(demo_url(request.param)) as platform:
        rows = [
            resource(str(uuid4()), AT + timedelta(seconds=number), tenant_id=STAGING, tags={"number": str(number)})
            for number in range(MANY)
        ]
        rows.append(resource(LAST, AT + timedelta(seconds=MANY), tenant_id=STAGING, tags={"mark": "last"}))
        with closing(Database(platform.database_url)) as database, database.write() as connection:
            connection.execute(insert(tables.resources), rows)
        yield platform


def test_a_listing_decides_a_bounded_number_of_resources(crowded: Running) -> None:
    iam = Iam(crowded, tenant=STAGING)
    key = Key(crowded, "compute:read", tenant=STAGING)
    policy = iam.policy("one", allow("compute:*", targets=(f"frn:compute:*:*:instances/{ABSENT}",)))
    assert iam.attach(policy, "api_key", key.id).status == 204
    refused = key.use("GET", PATH)
    assert code(refused) == (403, "INSUFFICIENT_PERMISSIONS")

    def listed(target: str, **constraints: object) -> list[str]:
        assert iam.edit(policy, allow("compute:*", targets=(target,), **constraints)).status == 200
        answer = key.use("GET", PATH)
        assert answer.status == 200, answer
        return [one["id"] for one in answer.json()["resources"]]

    # The last of all is found: by its id, by a part of it, by its tag.
    assert listed(f"frn:compute:*:*:instances/{LAST}") == [LAST]
    assert listed(f"frn:compute:*:*:instances/{LAST[:-4]}*a") == [LAST]
    assert listed("*", equals={"frn:resourceTag/mark": "last"}) == [LAST]
    # A pattern that fits every id, with a tag that none has: each resource is decided by itself, until the bound.
    rule = allow("compute:*", targets=("frn:compute:*:*:instances/*-*",), equals={"frn:resourceTag/no": "x"})
    assert iam.edit(policy, rule).status == 200
    bounded = key.use("GET", PATH)
    assert code(bounded) == (403, "INSUFFICIENT_PERMISSIONS")
    assert f"none of the next {queries.MAX_DECISIONS} resources" in str(bounded.json())


def test_the_database_returns_only_resources_that_rules_name(crowded: Running) -> None:
    with closing(Database(crowded.database_url)) as database, database.read() as connection:

        def page(**within: list[str]) -> list[str]:
            return [row.id for row in queries.page(connection, STAGING, "instance", None, 5, **within)]

        assert page(ids=[ABSENT]) == []
        assert page(ids=[ABSENT, LAST]) == [LAST]
        assert page(ids=["ffffffff-0000-4*a", ABSENT]) == [LAST]
        assert page(ids=["ffffffff_0000*", "%"]) == []
        assert page(regions=["xx-yyy-1"]) == []
