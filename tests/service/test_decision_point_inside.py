"""The statements of decisions, and the limits of searches."""

import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.exc import OperationalError

from service.api import middleware
from service.authz.decisions import PolicyEngineCache
from service.authz.grant_caches import SubjectCache
from service.authzen.evaluation import EvaluationContext
from service.context import SearchLimits
from service.db import tables
from service.db.digests import digest
from service.principals.grants import AppliedPolicy, PrincipalGrants
from tests.people import VIEWER, WEB_SHOP
from tests.service.conftest import KINDS, DemoUrl
from tests.service.counted import Demo
from tests.service.queries import execute, fetch_scalars

MISSING = "9f1c2d3e-4b5a-4c6d-8e7f-a1b2c3d4e5f6"
"""An unknown id. One of digits only is read in a thread, like a long number."""


@pytest.fixture(scope="module", params=KINDS)
def demo(request: pytest.FixtureRequest, demo_url: DemoUrl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    opened = Demo(tmp_path_factory.mktemp("platform"), demo_url(request.param))
    yield opened
    opened.close()


TRIES = 20


def question(subject: dict[str, str], action: str, instance: str | None) -> dict[str, Any]:
    resource = {"type": "instance", "id": instance} if instance else {"type": "instance"}
    return {"subject": subject, "action": {"name": action}, "resource": resource}


def cached_cost(demo: Demo) -> int:
    """Return the statements of a decision about a cached subject. On SQLite they share a snapshot."""
    return 1 if demo.platform.database.kind == "postgresql" else 2


@pytest.mark.parametrize("kind", ["user", "api_key", "workload_identity"])
@pytest.mark.parametrize("missing", ["subject", "resource", "action"])
@pytest.mark.parametrize("is_cached", [False, True])
def test_a_refusal_costs_the_same_for_unknown_ids(demo: Demo, kind: str, missing: str, is_cached: bool) -> None:
    """Costs reveal no ids. Neither the known principal nor the unknown one has a policy."""
    table = {"user": tables.users, "api_key": tables.api_keys, "workload_identity": tables.workload_identities}[kind]
    member, value = {"user": ("email", VIEWER), "api_key": ("name", "status-page")}.get(kind, ("tenant_id", WEB_SHOP))
    there, *_ = fetch_scalars(demo.platform.database, select(table.c.id).where(table.c[member] == value))
    body = question({"type": kind, "id": there}, "delete", demo.instance)
    unknown = question({"type": kind, "id": MISSING}, "fly", MISSING)
    other = {missing: unknown[missing]}
    execute(demo.platform.database, tables.policy_attachments.delete())
    statements = []
    for request in (body, body | other, body):
        for _ in range(TRIES):
            demo.asked("/access/v1/evaluation", body)  # The caller is cached.
            demo.platform.subjects = SubjectCache()
            if is_cached:
                demo.asked("/access/v1/evaluation", request)
            demo.forget()
            assert demo.asked("/access/v1/evaluation", request)["decision"] is False
            if len(demo.without_leases()) == len(demo.statements):
                break  # Otherwise the request renewed a lease in a thread, which takes more statements.
        statements.append(demo.without_leases())
    assert statements[0] == statements[1] == statements[2]
    assert len([one for one in statements[0] if "resources" in one]) == 1
    assert len(statements[0]) == cached_cost(demo) if is_cached else len(statements[0]) > 2


@pytest.mark.parametrize(
    ("error", "status"),
    [(RuntimeError("secret"), 500), (OperationalError("secret", {}, sqlite3.OperationalError("disk I/O error")), 503)],
)
def test_a_failure_is_500_and_an_unreachable_database_is_503(
    demo: Demo, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def fails(*_: Any) -> None:
        raise error

    monkeypatch.setattr(EvaluationContext, "decide", fails)
    monkeypatch.setattr(middleware, "is_transient", lambda error: isinstance(error, OperationalError))
    part = {"type": "user", "id": "x"}
    body = {"subject": part, "action": {"name": "read"}, "resource": part}
    answer = demo.ask("POST", "/access/v1/evaluation", {"X-API-Key": demo.secret, "X-Request-ID": "mine"}, body)
    assert (answer.status_code, answer.headers["x-request-id"]) == (status, "mine")
    assert answer.headers["content-type"].startswith("text/plain")
    assert "secret" not in answer.text


def test_evaluations_read_their_resources_in_one_statement_of_a_kind(demo: Demo) -> None:
    here = tables.resources.c.tenant_id == WEB_SHOP, tables.resources.c.kind == "instance"
    ids = fetch_scalars(demo.platform.database, select(tables.resources.c.id).where(*here).limit(10))
    subject = {"type": "user", "id": VIEWER}
    costs = []
    body = {"subject": subject, "action": {"name": "read"}}
    demo.asked("/access/v1/evaluation", body | {"resource": subject})
    for some in (ids[:1], ids):
        evaluations = [{"resource": {"type": "instance", "id": one}} for one in some]
        for _ in range(TRIES):
            demo.forget()
            demo.asked("/access/v1/evaluations", body | {"evaluations": evaluations})
            if len(demo.without_leases()) == len(demo.statements):
                break
        costs.append(len(demo.without_leases()))
    assert len(ids) == 10
    assert costs == [cached_cost(demo)] * 2


@pytest.mark.parametrize("limits", [SearchLimits(candidates=1), SearchLimits(seconds=-1.0)])
def test_a_search_that_is_cut_leads_on_to_the_same_results(
    demo: Demo, monkeypatch: pytest.MonkeyPatch, limits: SearchLimits
) -> None:
    """A page may be empty while there is more, because it examines a bounded number for a bounded time."""
    body, path = question({"type": "user"}, "read", demo.instance), "/access/v1/search/subject"
    whole = demo.asked(path, body)["results"]
    none = demo.asked("/access/v1/search/resource", question({"type": "user", "id": VIEWER}, "start", None))
    assert (none["results"], none["page"]["next_token"]) == ([], "")
    monkeypatch.setattr(demo.platform, "search_limits", limits)
    none = demo.asked("/access/v1/search/resource", question({"type": "user", "id": VIEWER}, "start", None))
    assert (none["results"], bool(none["page"]["next_token"])) == ([], True)
    results, token, pages = [], "", 0
    while token or not pages:
        page = demo.asked(path, body | {"page": {"token": token}})
        results, token, pages = results + page["results"], page["page"]["next_token"], pages + 1
    assert results == whole
    assert pages > len(whole) > 1
    unknown = question({"type": "user"}, "start", MISSING)
    assert demo.asked(path, unknown) == {"page": {"next_token": "", "count": 0}, "results": []}


def test_engines_are_kept_as_long_as_their_rules_are_not_too_many(demo: Demo) -> None:
    decisions = PolicyEngineCache()
    with demo.platform.database.read() as connection:
        mine = connection.execute(select(tables.policies).where(tables.policies.c.tenant_id == WEB_SHOP)).all()

        def compiled(policy: Any) -> int:
            """Return 1 if its document is read from the database, 0 if its engine is cached."""
            held = (AppliedPolicy(policy.id, policy.name, digest(policy.document), "owner"),)
            demo.forget()
            decisions.compiled(connection, PrincipalGrants("workload_identity", "w", WEB_SHOP, "o", None, None, held))
            return sum("document" in one for one in demo.statements)

        assert len(mine) > 2
        assert [compiled(policy) for policy in (*mine, *mine)] == [1] * len(mine) + [0] * len(mine)
        decisions = PolicyEngineCache(max_rules=0)
        assert [compiled(policy) for policy in (mine[0], mine[0], mine[1], mine[1], mine[0])] == [1, 0, 1, 0, 1]
