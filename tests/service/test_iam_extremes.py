"""Access policies with unreadable documents, very many rules and identities, and malformed ids."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, insert, select, update

from client.policy import containment
from client.policy.containment import Answer
from client.policy.coverage import Catalogue
from service.authz.decisions import CatalogueSnapshot
from service.db import tables
from service.db.engine import Database
from service.iam import author_check, policy_queries
from service.iam.author_check import Author
from service.iam.policy_documents import Draft
from service.principals import grants as principals_grants
from tests.people import OWNER, VIEWER, WEB_SHOP
from tests.service.access import KEYS, READ, STOREFRONT, Iam, allow, code, deny, details, document_text
from tests.service.account import Key
from tests.service.queries import execute
from tests.service.running import Running


def store(database: Database, policy: str, text: str) -> None:
    """Put a document in the database that the service would not have taken."""
    columns = tables.policies.c.id, tables.policy_versions.c.policy_id
    execute(database, *(update(one.table).where(one == policy).values(document=text) for one in columns))


def store_identities(
    connection: Connection, many: int, scopes: Sequence[str] = (), group: str | None = None
) -> list[str]:
    """Create many identities of the owner, as members of a group if one is named."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    owner = connection.scalar(select(tables.users.c.id).where(tables.users.c.email == OWNER))
    ids = [str(uuid4()) for _ in range(many)]
    mine = {"tenant_id": WEB_SHOP, "created_by": owner, "created_at": at, "updated_at": at}
    row = mine | {"cluster_id": STOREFRONT, "namespace": "very-many", "scopes": list(scopes)}
    connection.execute(insert(tables.workload_identities), [row | {"id": one, "service_account": one} for one in ids])
    if group is not None:
        member = {"group_id": group, "tenant_id": WEB_SHOP, "added_by": owner, "added_at": at}
        connection.execute(
            insert(tables.group_members),
            [member | {"member_type": "workload_identity", "member_id": one} for one in ids],
        )
    return ids


UNREADABLE = ['{"rules":["allow"]}', '{"rules":5}', '{"rules":[],"more":NaN}', "[" * 5_000, '{"more":"\\ud800"}']
UNREADABLE.append(document_text(allow("*")).replace('"allow"', '"permit"'))


@pytest.mark.slow
def test_a_policy_without_a_readable_document_is_listed_edited_and_deleted_but_not_attached(
    iam: Iam, demo_database: Database
) -> None:
    group, viewer = iam.group(str(uuid4())), iam.as_(VIEWER)
    for text in UNREADABLE:
        policy, identity = iam.policy("p", allow("compute:*")), iam.binding(f"b-{uuid4()}")
        assert iam.attach(policy, "workload_identity", identity).status == 204
        path = f"/iam/policies/{policy}"
        store(demo_database, policy, text)
        for listing in (path, "/iam/policies?limit=200", f"{path}/versions", f"{path}/versions/1"):
            assert iam.ask("GET", listing).status == 200, text
        refused = viewer.ask("PATCH", path, {"name": "v"})
        assert code(refused) == (403, "POLICY_EXCEEDS_AUTHOR")
        assert "cannot be read" in refused.json()["error"]["message"]
        # Only the creator of the identity may change it.
        assert code(viewer.detach(policy, "workload_identity", identity)) == (403, "PRINCIPAL_EXCEEDS_AUTHOR")
        assert iam.ask("PATCH", path, {"name": "q"}).status == 200
        for answer in (iam.attach(policy, "group", group), iam.ask("POST", f"{path}/rollback", {"version": 1})):
            if answer.status != 200:  # A rollback to the same document changes nothing.
                assert (code(answer), details(answer)["answer"]) == ((403, "POLICY_EXCEEDS_AUTHOR"), "undecided")
        stale = iam.ask("PATCH", path, {"name": "r"}, if_match='"1"')
        assert code(stale) == (412, "STALE_VERSION")
        assert [one["changed"] for one in details(stale)["versions"]] == [["name"]]
        assert iam.ask("POST", "/iam/preview", {"change": "deletePolicy", "policyId": policy}).status == 200
        assert iam.edit(policy, allow(READ)).status == 200
        assert iam.decision("workload_identity", identity, READ)
        store(demo_database, policy, text)
        assert iam.ask("DELETE", path).status == 204


@pytest.mark.slow
def test_policies_of_a_group_of_40_000_identities(demo: Running, demo_database: Database) -> None:
    iam, group = Iam(demo), Iam(demo).group(str(uuid4()))
    policy, strong, other = (iam.policy(name, allow(name)) for name in ("compute:*:read", "compute:*", READ))
    assert iam.attach(policy, "group", group).status == 204
    with demo_database.write() as connection:
        ids = store_identities(connection, 40_000, group=group)
    assert iam.as_(VIEWER).attach(other, "group", group).status == 204
    assert iam.attach(strong, "workload_identity", ids[7]).status == 204
    refused = iam.as_(VIEWER).detach(other, "group", group)
    assert code(refused) == (403, "PRINCIPAL_EXCEEDS_AUTHOR")
    (named,) = details(refused)["principals"]
    assert (named["type"], named["id"], "/" in named["name"]) == ("workload_identity", ids[7], True)
    assert {one["policyName"] for one in details(refused)["counterexamples"]} == {"compute:*"}
    assert iam.detach(other, "group", group).status == 204
    assert code(iam.detach(policy, "group", group)) == (400, "BINDING_WOULD_HAVE_NO_GRANT")
    assert iam.ask("DELETE", f"/iam/groups/{group}").status == 204
    identities = tables.workload_identities
    execute(demo_database, identities.delete().where(identities.c.namespace == "very-many"))


@pytest.mark.slow
def test_who_answers_for_thousands_of_identities(own: Running, own_database: Database) -> None:
    iam, many = Iam(own), 5_000
    policy, first, second = iam.policy("p", allow("compute:*")), iam.group("first"), iam.group("second")
    bound = [iam.binding(f"b-{number}") for number in range(2)]
    for group in (second, first):
        assert iam.add(group, "workload_identity", bound[0]).status == 204
        assert iam.attach(policy, "group", group).status == 204
    for identity in bound:
        assert iam.attach(policy, "workload_identity", identity).status == 204
    with own_database.write() as connection:
        ids = store_identities(connection, many, ["compute:read"])
    found = iam.ask("POST", "/iam/who", {"operation": READ, "target": "*"}).json()
    by = {one["id"]: one["by"] for one in found["principals"]}
    # The first thousand are listed; all are counted.
    assert len(by) == 1_000
    assert found["total"] >= many + len(bound)
    assert found["examined"] >= found["total"]
    listed = [one for one in ids if one in by]
    assert len(listed) > 900
    assert all(by[one] == [{"kind": "scope", "scope": "compute:read"}] for one in listed)
    for identity, names in zip(bound, (["first", "second"], []), strict=True):
        (grant,) = by[identity]
        assert grant["paths"][0] == {"type": "direct"}
        assert [one["name"] for one in grant["paths"][1:]] == names


def test_the_result_of_an_author_check_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    known = CatalogueSnapshot(Catalogue([READ]), {READ: "read"})
    author, calls, whole = Author("u", "t", "owner", known), count(), containment.check
    monkeypatch.setattr(containment, "check", lambda *given, **more: next(calls) >= 0 and whole(*given, **more))
    texts = [document_text(allow(READ) | {"name": str(number)}) for number in range(200)]
    for _ in range(2):
        assert {author_check.check_document(author, Draft.stored(text)).answer for text in texts} == {Answer.WITHIN}
    assert next(calls) == len(texts)


def test_a_malformed_id_in_a_filter_finds_and_removes_nothing(iam: Iam) -> None:
    policy, group = iam.policy("p", allow("compute:*")), iam.group(str(uuid4()))
    attached = f"/iam/policies/{policy}/attachments?attacheeType=api_key&attacheeId=a%00"
    filters = ("policies?attacheeType=api_key&attacheeId=%00", "groups?memberType=api_key&memberId=%00")
    for path in (*(f"/iam/{one}" for one in filters), attached):
        assert [value for name, value in iam.get(path).items() if name != "nextCursor"] == [[]]
    for path in (attached, f"/iam/groups/{group}/members?memberType=api_key&memberId=%00"):
        assert iam.ask("DELETE", path).status == 404


@pytest.mark.slow
def test_the_effective_access_of_a_key_has_a_bounded_size(own: Running) -> None:
    iam = Iam(own)
    wide = allow("*", targets=tuple(f"frn:*:*:*:t{number}/i{number}" for number in range(8_000)))
    many = [allow("*", targets=(f"frn:*:*:*:t/{number}",)) for number in range(500)]
    grants = {}
    for key, policy in (("terraform", iam.policy("wide", wide)), ("tenant-writer", iam.policy("many", *many))):
        assert iam.attach(policy, "api_key", KEYS[key]).status == 204
        answer = iam.ask("GET", f"/iam/access?principalType=api_key&principalId={KEYS[key]}")
        assert len(answer.body) < 8 * 1024 * 1024
        operations = {one["operation"]: one for one in answer.json()["operations"]}
        grants[key] = operations["organizations:tenants:update"]
    (grant,) = [grant for grant in grants["terraform"]["by"] if grant.get("policyName") == "wide"]
    assert (len(grant["targets"]), grant["targetsTotal"]) == (20, 8_000)
    assert (len(grants["tenant-writer"]["by"]), grants["tenant-writer"]["byTotal"]) == (20, 502)


MORE_THAN_A_STATEMENT_TAKES = 70_000


def test_allowing_and_denying_rules_are_counted_by_operation(iam: Iam) -> None:
    key = Key(iam.platform, "compute:*")
    rules = allow("compute:*"), allow("compute:*:read"), allow("dns:*"), deny("compute:instances:*")
    for number in range(7):
        assert iam.attach(iam.policy(f"name {number}", *rules), "api_key", key.id).status == 204
    found = {one["operation"]: one for one in iam.access("api_key", key.id)["operations"]}
    assert not [name for name in found if not name.startswith("compute:")]
    counts = {name: (one["byTotal"], len(one["by"]), one["deniedByTotal"]) for name, one in found.items()}
    # Each is of the scope and the role, too.
    assert counts["compute:instances:read"] == (2 + 14, 16, 7)
    assert counts["compute:instances:start"] == (2 + 7, 9, 7)
    assert counts["compute:images:read"] == (2 + 14, 16, 0)
    first, second = found["compute:images:read"]["by"][2:4]
    assert (first["policyName"], first["ruleIndex"], second["ruleIndex"]) == (second["policyName"], 0, 1)


@pytest.mark.parametrize(
    "read_policies", [principals_grants.policy_documents, policy_queries.summaries], ids=["documents", "policies"]
)
def test_more_policies_than_a_statement_has_parameters_are_read(
    database: Database, read_policies: Callable[[Connection, str, list[str]], Any]
) -> None:
    ids = [str(uuid4()) for _ in range(MORE_THAN_A_STATEMENT_TAKES)]
    with database.read() as connection:
        assert not read_policies(connection, str(uuid4()), ids)


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
