"""Races for quotas on both databases, floods of requests, and requests in wrong places."""

import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from sqlalchemy import insert, select

from service.db.revisions import lock_domains
from service.db.statements import lock_tenant
from service.db.tables import quota_requests, resources
from service.quotas import limits
from tests.api import Answer
from tests.people import ADMIN, AURORA, OWNER, SANDBOX, STAGING, UNKNOWN_ID
from tests.service.access import code, details
from tests.service.factories import AT as NOW
from tests.service.held import ARRIVAL_SECONDS
from tests.service.quotas import Quotas, row
from tests.service.running import Running
from tests.waiting import at_once


@pytest.fixture(autouse=True)
def signed_in(platform: Running) -> None:
    """The people are signed in before a race begins."""
    for person in (OWNER, ADMIN):
        platform.token(person)


def outcomes(answers: Iterable[Answer]) -> Counter[str]:
    """How often each answer came: `201`, or the code of the refusal."""
    return Counter(str(answer.status) if answer.status < 300 else code(answer)[1] for answer in answers)


# Creations


def test_creations_at_once_share_the_rest_of_a_sum(sandbox: Quotas) -> None:
    sandbox.give("vcpu", 7)
    answers = at_once([lambda: sandbox.create("instance", vcpu=2)] * 12)
    assert outcomes(answers) == {"201": 3, "QUOTA_EXCEEDED": 9}
    assert (sandbox.report()["vcpu"]["used"], sandbox.report()["instance"]["used"]) == (6, 3)


@pytest.mark.slow
def test_two_processes_count_together_and_let_one_request_wait(cluster_pair: tuple[Running, Running]) -> None:
    both = [Quotas(running, tenant=SANDBOX) for running in cluster_pair]
    both[0].give("secret", 3)
    for quotas in both:
        quotas.platform.token(OWNER)
    answers = at_once([partial(quotas.create, "secret") for quotas in both * 10])
    assert outcomes(answers) == {"201": 3, "QUOTA_EXCEEDED": 17}
    for resource_type in ("vcpu", "ram", "instance", "volume"):
        answers = at_once([partial(quotas.ask_organization, resource_type, 9**9) for quotas in both])
        assert outcomes(answers) == {"201": 1, "QUOTA_REQUEST_PENDING": 1}


@pytest.mark.parametrize("late", ["creation", "lowering"])
def test_a_change_waits_for_a_creation_that_is_under_way_and_counts_it(sandbox: Quotas, late: str) -> None:
    sandbox.give("secret", 1)
    with ThreadPoolExecutor(1) as thread:
        with sandbox.database() as connection:
            lock_domains(connection, [AURORA], shared=True)
            lock_tenant(connection, SANDBOX)
            connection.execute(insert(resources).values(row(SANDBOX, "secret", "active", {}, NOW)))
            create, lower = partial(sandbox.create, "secret"), partial(sandbox.ask, "secret", 0)
            answer = thread.submit(create if late == "creation" else lower)
            time.sleep(ARRIVAL_SECONDS)
        if late == "creation":
            assert code(answer.result()) == (403, "QUOTA_EXCEEDED")
        else:
            assert answer.result().json()["request"]["details"] == {"used": 1, "creating": 0, "limit": 0}
    assert (sandbox.report()["secret"]["used"], sandbox.report()["secret"]["limit"]) == (1, 1)


# Raises


def allocated(quotas: Quotas, resource_type: str) -> tuple[int, int]:
    """What an organization's tenants have together, and what it may have; from outside the process."""
    with quotas.database() as connection:
        together = limits.allocated(connection, AURORA)[resource_type]
        limit = limits.organization_limits(connection, AURORA)[resource_type]
    assert limit is not None
    return together, limit


def test_ten_raises_at_once_end_at_one_of_them_within_the_bound(sandbox: Quotas) -> None:
    bound = sandbox.report()["vcpu"]["requestable"]
    limits = [bound - 5 + step for step in range(10)]
    answers = at_once([partial(sandbox.ask, "vcpu", limit) for limit in limits])
    given = [answer.json()["request"]["limit"] for answer in answers if answer.status == 201]
    assert set(given) == {limit for limit in limits if limit <= bound}
    assert sandbox.report()["vcpu"]["limit"] in given
    together, limit = allocated(sandbox, "vcpu")
    assert together <= limit


def test_a_raise_waits_for_one_of_another_tenant_and_counts_it(sandbox: Quotas) -> None:
    together, limit = allocated(sandbox, "dns_zone")
    with ThreadPoolExecutor(1) as thread:
        with sandbox.database() as connection:
            lock_domains(connection, [AURORA])
            limits.set_limit(connection, STAGING, "dns_zone", 20 + limit - together)
            late = thread.submit(sandbox.ask, "dns_zone", 21)
            time.sleep(ARRIVAL_SECONDS)
        assert code(late.result()) == (409, "QUOTA_BOUND_EXCEEDED")
    Quotas(sandbox.platform, tenant=STAGING).give("dns_zone", 20)


# Requests of an organization


def test_one_of_a_hundred_requests_at_once_waits_for_review(sandbox: Quotas) -> None:
    asks = [partial(sandbox.as_(person).ask_organization, "vcpu", 5000) for person in (OWNER, ADMIN) * 50]
    answers = at_once(asks)
    assert outcomes(answers) == {"201": 1, "QUOTA_REQUEST_PENDING": 99}
    waiting = next(answer.json()["request"]["id"] for answer in answers if answer.status == 201)
    assert {details(answer)["requestId"] for answer in answers if answer.status == 409} == {waiting}
    assert len(sandbox.organization_history()) == 1
    # The database itself keeps a second one out.
    with sandbox.database() as connection:
        first = connection.execute(select(quota_requests).where(quota_requests.c.id == waiting)).one()
        again = first._asdict() | {"id": UNKNOWN_ID}
        with pytest.raises(Exception, match=r"(?i)unique"), connection.begin_nested():
            connection.execute(insert(quota_requests).values(again))
        connection.execute(insert(quota_requests).values(again | {"status": "rejected"}))


def test_opposite_reviews_at_once_decide_once(sandbox: Quotas) -> None:
    waiting = sandbox.waiting("vcpu", 5000)
    words = ["approve", "reject"] * 5
    answers = at_once([partial(sandbox.review, waiting["id"], word) for word in words])
    assert outcomes(answers) == {"200": 1, "QUOTA_REQUEST_DECIDED": 9}
    decided = sandbox.organization_history()[0]["status"]
    assert sandbox.organization_report()["vcpu"]["limit"] == (5000 if decided == "approved" else 800)


# Floods and wrong places


@pytest.mark.slow
def test_requests_of_a_tenant_are_limited_for_each_hour(sandbox: Quotas) -> None:
    sandbox.put("secret", *["active"] * 5)
    answers = [sandbox.ask("secret", 1) for _ in range(101)]
    assert outcomes(answers) == {"201": 100, "QUOTA_REQUESTS_LIMITED": 1}
    limited = details(answers[-1])
    assert (limited["cap"], 0 < limited["retryAfterSeconds"] <= 3600) == (100, True)
    assert answers[-1].headers["retry-after"] == str(limited["retryAfterSeconds"])
    assert code(sandbox.ask("vcpu", 90)) == (429, "QUOTA_REQUESTS_LIMITED")
    staging = Quotas(sandbox.platform, tenant=STAGING)
    assert staging.decided("secret", 199)["status"] == "approved"
    staging.give("secret", 200)
    assert len(sandbox.history()) == 50
    with sandbox.database() as connection:
        connection.exec_driver_sql("UPDATE quota_requests SET created_at = created_at - 3600000000")
    assert sandbox.decided("secret", 0)["status"] == "denied"
