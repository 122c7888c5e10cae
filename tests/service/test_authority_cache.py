"""Authorization from memory ends with the first request after a change, also after one of another process, and each
fact that a request needs is read once."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Column, Executable, ScalarSelect, delete, insert, select, update

from client.policy.coverage import Catalogue
from client.policy.document import MAX_BYTES, MAX_RULES, InvalidDocument, canonical_text, parse_document
from service.api import authorization
from service.authz.decisions import CatalogueSnapshot
from service.authz.grant_caches import AuthorityCache
from service.catalogue.operations import operations
from service.db import tables
from service.db.engine import Database
from service.iam.policy_documents import Draft
from tests.people import AURORA, BOREALIS, DATA_LAKE, OWNER, WEB_SHOP
from tests.service.access import allow, deny, document
from tests.service.counted import KEY, TENANT, Counted
from tests.service.queries import execute, fetch_scalars, user_id

LIST = f"{TENANT}/resources/instance"


@pytest.fixture
def platform(counted: Counted) -> Counted:
    counted.keep_leases()
    return counted


@pytest.fixture
def other(platform: Counted) -> Iterator[Database]:
    with closing(Database(platform.platform.settings.database_url)) as opened:
        yield opened


def status(platform: Counted, headers: dict[str, str]) -> int:
    return platform.get(LIST, headers).status_code


KEYS, MEMBERSHIPS = tables.api_keys, tables.memberships


def of_key(column: Column[Any]) -> ScalarSelect[Any]:
    return select(column).where(KEYS.c.name == KEY).scalar_subquery()


CREATOR, AT = of_key(KEYS.c.user_id), of_key(KEYS.c.created_at)
SET_KEY = update(KEYS).where(KEYS.c.name == KEY)
CREATORS_MEMBERSHIP = MEMBERSHIPS.c.user_id == CREATOR
DENY_ALL = '{"schemaVersion":"1","rules":[{"access":"deny","operations":["*"],"targets":["*"]}]}'
POLICY = {"id": "p", "tenant_id": WEB_SHOP, "name": "deny", "document": DENY_ALL}
ATTACHMENT = {"policy_id": "p", "attachee_type": "api_key", "attachee_id": of_key(KEYS.c.id), "tenant_id": WEB_SHOP}
ATTACH_DENY = [
    insert(tables.policies).values(POLICY | {"authored_by": CREATOR, "created_at": AT, "updated_at": AT}),
    insert(tables.policy_attachments).values(ATTACHMENT | {"attached_by": CREATOR, "attached_at": AT}),
]
REVOKE = SET_KEY.values(revoked_at=KEYS.c.created_at)
CHANGES: dict[str, tuple[list[Executable], int]] = {
    "scopes removed": ([SET_KEY.values(scopes=["organizations:read"])], 403),
    "key revoked": ([REVOKE], 401),
    "policy attached": ([*ATTACH_DENY], 403),
    "creator removed": ([delete(MEMBERSHIPS).where(CREATORS_MEMBERSHIP)], 403),
    "creator limited to no tenant": ([update(MEMBERSHIPS).where(CREATORS_MEMBERSHIP).values(limited=True)], 403),
    "creator deleted": ([update(tables.users).where(tables.users.c.id == CREATOR).values(deleted_at=AT)], 401),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_key_is_refused_by_the_first_request_after_a_change(platform: Counted, other: Database, name: str) -> None:
    statements, expected = CHANGES[name]
    assert [status(platform, platform.key) for _ in range(2)] == [200, 200]
    assert platform.count("GET", LIST, platform.key) <= 2
    execute(other, *statements)
    assert status(platform, platform.key) == expected


def test_a_session_is_refused_after_a_demotion_and_its_end(platform: Counted, other: Database) -> None:
    def put(value: str) -> int:
        return platform.ask("PUT", f"{TENANT}/default-tags", platform.session, {"tags": {"a": value}}).status_code

    assert put("b") == 200
    execute(other, update(MEMBERSHIPS).values(role="viewer"))
    assert put("c") == 403
    assert [status(platform, platform.session) for _ in range(2)] == [200, 200]
    execute(other, update(tables.sessions).values(ended_at=tables.sessions.c.started_at))
    assert status(platform, platform.session) == 401


def test_a_session_loses_what_it_may_in_a_tenant_that_moves(platform: Counted, other: Database) -> None:
    """Neither the revision of the person nor another part of the credential changes."""
    elsewhere = delete(MEMBERSHIPS).where(MEMBERSHIPS.c.organization_id == BOREALIS)
    execute(other, elsewhere.where(MEMBERSHIPS.c.user_id == user_id(OWNER)))
    assert [status(platform, platform.session) for _ in range(2)] == [200, 200]
    execute(other, update(tables.tenants).where(tables.tenants.c.id == WEB_SHOP).values(organization_id=BOREALIS))
    assert status(platform, platform.session) == 403
    assert platform.get(f"/api/v1/tenants/{DATA_LAKE}/resources/instance", platform.session).status_code == 200
    execute(other, update(tables.tenants).where(tables.tenants.c.id == WEB_SHOP).values(organization_id=AURORA))
    assert [status(platform, platform.session) for _ in range(2)] == [200, 200]


def test_a_new_catalogue_is_used_by_the_next_request(platform: Counted, other: Database) -> None:
    """A key may list instances while its scope has the access level that the catalogue names."""
    listing = update(tables.catalogue_operations).where(tables.catalogue_operations.c.name == "compute:instances:list")
    for level, expected in (("write", 403), ("read", 200), ("write", 403)):
        execute(other, listing.values(access_level=level))
        assert [status(platform, platform.key) for _ in range(2)] == [expected] * 2


def test_a_key_is_refused_at_its_expiry(platform: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    assert status(platform, platform.key) == 200
    [expires_at] = fetch_scalars(platform.platform.database, select(KEYS.c.expires_at).where(KEYS.c.name == KEY))
    for now, expected in ((expires_at - timedelta(microseconds=1), 200), (expires_at, 401)):
        monkeypatch.setattr(platform.platform.clock, "now", lambda now=now: now)
        assert status(platform, platform.key) == expected


def test_a_key_revoked_after_its_lookup_is_refused(
    platform: Counted, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = authorization.authenticate

    def revoked_after(*arguments: Any) -> Any:
        principal = original(*arguments)
        execute(other, REVOKE)
        return principal

    monkeypatch.setattr(authorization, "authenticate", revoked_after)
    assert status(platform, platform.key) == 401


def test_decisions_do_not_depend_on_the_size_of_the_cache(platform: Counted, other: Database, tmp_path: Path) -> None:
    execute(other, *ATTACH_DENY)
    secrets = [key["secret"] for key in json.loads((tmp_path / "world-keys.json").read_text()).values()]

    def statuses() -> list[int]:
        return [status(platform, {"X-API-Key": secret}) for secret in secrets]

    expected = statuses()
    bounded = platform.platform.authorities = AuthorityCache(max_rules=1)
    assert statuses() == expected
    assert sum(authority.rules for authority in bounded._entries.values()) <= 1 or len(bounded._entries) == 1


def test_a_credential_over_its_limit_writes_no_audit_entry(platform: Counted) -> None:
    """Each refusal has a target of its own, so that none is only counted."""
    database = platform.platform.database
    execute(database, SET_KEY.values(rate_limit=5, scopes=["compute:write", "compute:read"]))
    statuses = [platform.ask("POST", f"{LIST}/{uuid4()}/start", platform.key).status_code for _ in range(15)]
    assert set(statuses) == {404, 429}
    refused = select(tables.audit_log.c.id).where(tables.audit_log.c.operation == "resource.start")
    assert len(fetch_scalars(database, refused)) == statuses.count(404)


ALLOW_ALL = DENY_ALL.replace("deny", "allow")
POLICIES, OPERATIONS = tables.policies, tables.catalogue_operations
ATTACH_ALLOW = [ATTACH_DENY[0].values(document=ALLOW_ALL), ATTACH_DENY[1]]
SET_POLICY = update(POLICIES).where(POLICIES.c.id == "p")
LISTING = update(OPERATIONS).where(OPERATIONS.c.name == "compute:instances:list")
# Each leaves the number that was the key of the cache: the version of the policy, the last position of the catalogue.
TEXT_CHANGES: dict[str, tuple[list[Executable], Executable, int]] = {
    "policy": ([*ATTACH_ALLOW], SET_POLICY.values(document=DENY_ALL), 403),
    "policy, allowed again": ([*ATTACH_DENY], SET_POLICY.values(document=ALLOW_ALL), 200),
    "access level": ([], LISTING.values(access_level="write"), 403),
}


@pytest.mark.parametrize("name", TEXT_CHANGES)
def test_a_text_that_changes_under_its_number_is_read_again(platform: Counted, other: Database, name: str) -> None:
    before, change, expected = TEXT_CHANGES[name]
    execute(other, *before)
    assert {status(platform, platform.key) for _ in range(2)} == {200 if expected == 403 else 403}
    execute(other, change)
    assert {status(platform, platform.key) for _ in range(2)} == {expected}


def test_a_version_that_is_written_again_after_a_set_back_is_read_again(platform: Counted, other: Database) -> None:
    allowed, denied = document(allow("compute:*")), document(deny("compute:*"))
    body = {"name": "p of test", "document": allowed}
    policy_id = platform.ask("POST", f"{TENANT}/iam/policies", platform.session, body).json()["id"]
    [stored] = fetch_scalars(other, select(POLICIES.c.document).where(POLICIES.c.id == policy_id))
    execute(other, ATTACH_DENY[1].values(policy_id=policy_id))
    versions, more = tables.policy_versions, document(allow("storage:*"), *allowed["rules"])
    for new, expected in ((more, 200), (denied, 403)):
        answer = platform.ask("PATCH", f"{TENANT}/iam/policies/{policy_id}", platform.session, {"document": new})
        assert (answer.status_code, answer.json().get("version")) == (200, 2), answer.text
        assert {status(platform, platform.key) for _ in range(2)} == {expected}
        execute(other, delete(versions).where(versions.c.policy_id == policy_id, versions.c.version == 2))
        execute(other, update(POLICIES).where(POLICIES.c.id == policy_id).values(version=1, document=stored))
        assert status(platform, platform.key) == 200


def test_a_changed_name_of_a_policy_is_the_name_of_its_rules(platform: Counted, other: Database) -> None:
    def names() -> set[str]:
        [key_id] = fetch_scalars(other, select(KEYS.c.id).where(KEYS.c.name == KEY))
        path = f"{TENANT}/iam/access?principalType=api_key&principalId={key_id}"
        operations = platform.get(path, platform.session).json()["operations"]
        return {grant["policyName"] for one in operations for grant in one["by"] if "policyName" in grant}

    execute(other, *ATTACH_ALLOW)
    assert names() == {"deny"}
    execute(other, SET_POLICY.values(name="renamed"))
    assert names() == {"renamed"}


@pytest.fixture
def warm(counted: Counted) -> Counted:
    """A platform that has read the catalogue, and on PostgreSQL has taken a lease of requests."""
    counted.keep_leases()
    for headers in (counted.key, counted.session):
        counted.ask("GET", f"{TENANT}/resources/instance", headers)
    counted.platform.writer.flush()
    return counted


def test_a_read_takes_two_statements_and_no_write(warm: Counted) -> None:
    for path in ("/resources/instance", "/default-tags", "", "/operations"):
        # The progress of operations is filtered by the grants.
        further = 2 if path == "/operations" else 0
        assert warm.count("GET", TENANT + path, warm.key) - further <= 2, path
        assert {statement.split()[0] for statement in warm.statements} == {"SELECT"}
        warm.forget()
        warm.platform.writer.flush()
        # On SQLite, requests of which the allowance is not restored yet.
        assert all("rate_limits" in statement for statement in warm.statements)
    assert warm.count("GET", f"{TENANT}/resources/instance", warm.session) <= 2


def test_a_change_of_a_policy_takes_at_most_nine_statements(warm: Counted) -> None:
    body = {"name": "p", "document": document(allow("compute:instances:list"))}
    created = warm.ask("POST", f"{TENANT}/iam/policies", warm.session, body)
    assert created.status_code == 201, created.text
    path = f"{TENANT}/iam/policies/{created.json()['id']}"
    most = 8 if warm.platform.database.kind == "postgresql" else 9
    body = {"document": document(allow("compute:instances:read"))}
    assert warm.count("PATCH", path, warm.session, body) <= most
    # The stored document is read and checked before the transaction.
    assert warm.count("PATCH", path, warm.session, {"name": "q"}) <= most + 1


def test_a_draft_with_a_too_long_canonical_form_is_refused() -> None:
    known = CatalogueSnapshot(Catalogue(operation.name for operation in operations()), {})
    target = "frn:compute:*:*:instance/" + "a" * 430
    rule = f'{{"access":"allow","operations":["compute:*"],"targets":["{target}"]}}'
    text = f'{{"schemaVersion":"1","rules":[{",".join([rule] * MAX_RULES)}]}}'
    long = parse_document(text, known.operations).document
    assert len(text) <= MAX_BYTES < len(canonical_text(long))
    with pytest.raises(InvalidDocument):
        Draft.of(long).read(known)
