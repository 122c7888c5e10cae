"""Effective access of principals with very many rules and policies has bounded time and size."""

import json
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection

from client.policy.coverage import Catalogue
from client.policy.document import parse_document
from client.policy.engine import Engine, granted_rules
from service.authz.decisions import CatalogueSnapshot, CompiledGrants
from service.catalogue import operations as shipped
from service.db.engine import Database
from service.iam import effective_access, policy_queries
from service.principals import grants as principals_grants
from service.principals.grants import PrincipalGrants
from tests.service.access import KEYS, Iam, allow, deny, document
from tests.service.running import Running

MORE_THAN_A_STATEMENT_TAKES = 70_000


def compiled(policies: int, *rules: dict[str, Any]) -> CompiledGrants:
    """A key that stands on the same rules in a number of policies."""
    operations = shipped.operations()
    known = CatalogueSnapshot(
        Catalogue(one.name for one in operations), {one.name: one.access_level for one in operations}
    )
    one = parse_document(json.dumps(document(*rules)), known.operations).document
    engine = Engine(
        granted for number in range(policies) for granted in granted_rules(one, f"p{number}", f"name {number}")
    )
    return CompiledGrants(PrincipalGrants("api_key", "k", "t", "o", None, ("compute:*",)), known, None, engine)


@pytest.mark.slow
def test_effective_access_of_50_000_rules_takes_as_long_with_wildcards() -> None:
    took = {}
    for pattern in ("compute:instances:read", "*"):
        stands = compiled(100, *[allow(pattern)] * 500)
        begun = time.process_time()
        found = effective_access.operations(stands, {})
        took[pattern] = time.process_time() - begun
        assert {(one["byTotal"], len(one["by"])) for one in found} == {(50_001, 20)}
    assert took["*"] < 4 * took["compute:instances:read"]


def test_allowing_and_denying_rules_are_counted_by_operation() -> None:
    mixed = compiled(7, allow("compute:*"), allow("compute:*:read"), allow("dns:*"), deny("compute:instances:*"))
    found = {one["operation"]: one for one in effective_access.operations(mixed, {})}
    assert not [name for name in found if not name.startswith("compute:")]
    counts = {name: (one["byTotal"], len(one["by"]), one["deniedByTotal"]) for name, one in found.items()}
    assert counts["compute:instances:read"] == (1 + 14, 15, 7)
    assert counts["compute:instances:start"] == (1 + 7, 8, 7)
    assert counts["compute:images:read"] == (1 + 14, 15, 0)
    assert [one.get("policyName") for one in found["compute:images:read"]["by"][:3]] == [None, "name 0", "name 0"]
    assert [one["ruleIndex"] for one in found["compute:images:read"]["by"][1:3]] == [0, 1]


@pytest.mark.parametrize(
    "asked", [principals_grants.policy_documents, policy_queries.summaries], ids=["documents", "policies"]
)
def test_more_policies_than_a_statement_has_parameters_are_read(
    database: Database, asked: Callable[[Connection, str, list[str]], Any]
) -> None:
    ids = [str(uuid4()) for _ in range(MORE_THAN_A_STATEMENT_TAKES)]
    with database.read() as connection:
        assert not asked(connection, str(uuid4()), ids)


def test_the_first_20_paths_of_a_policy_are_listed_and_all_are_counted(own: Running) -> None:
    iam, key = Iam(own), KEYS["tenant-writer"]
    policy = iam.policy("p", allow("compute:*"))
    for number in range(25):
        group = iam.group(f"group {number:02}")
        assert iam.add(group, "api_key", key).status == 204
        assert iam.attach(policy, "group", group).status == 204
    found = iam.get(f"/iam/access?principalType=api_key&principalId={key}")
    (held,) = found["policies"]
    assert [one["name"] for one in held["paths"]] == [f"group {number:02}" for number in range(20)]
    assert held["pathsTotal"] == 25
