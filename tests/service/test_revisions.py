"""Every change of the data that authorization uses increases a revision, in the transaction of the change."""

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, event, insert, select, text, update

from service.api import protected_route
from service.authn import secret_format
from service.authzen.evaluation import EvaluationContext
from service.db import tables
from service.db.engine import Database
from service.db.tables import revisions
from tests.people import WEB_SHOP
from tests.service.access import IDENTITIES
from tests.service.counted import KEY, Counted
from tests.service.inside import Inside
from tests.service.queries import execute, fetch
from tests.service.revised import all_revisions, fill

# The columns whose change increases a revision; columns of a primary key never change.
AUTHORITY_TABLES: Mapping[str, tuple[str, ...]] = {
    "api_keys": ("tenant_id", "user_id", "key_prefix", "key_hash", "scopes", "rate_limit", "expires_at", "revoked_at"),
    "catalogue_operations": ("name", "description", "access_level", "position"),
    "group_members": ("group_id", "member_type", "member_id", "tenant_id"),
    "identities": ("issuer", "subject", "user_id"),
    "membership_tenants": ("user_id", "tenant_id"),
    "memberships": ("user_id", "organization_id", "role", "limited"),
    "policies": ("tenant_id", "name", "document", "version", "authored_by"),
    "policy_attachments": ("policy_id", "attachee_type", "attachee_id", "tenant_id"),
    "sessions": ("issuer", "subject", "user_id", "expires_at", "ended_at"),
    "tenants": ("organization_id",),
    "users": ("email", "default_tenant_id", "deleted_at"),
    "workload_identities": ("tenant_id", "scopes"),
    "workload_tokens": ("identity_id", "expires_at"),
}
COLUMNS = [(name, column) for name, columns in AUTHORITY_TABLES.items() for column in columns]
# Read by authorization, but displayed only: a request that records them must not increase a revision.
DISPLAYED = {("api_keys", "last_used_at"), ("sessions", "last_seen_at")}
OTHERS = {"rate_limits", "revisions"}


@pytest.fixture
def demo(tmp_path: Path, world_url: str | None) -> Iterator[Inside]:
    opened = Inside(tmp_path, world_url, "demo")
    yield opened
    opened.close()


def increased(database: Database, statement: Any) -> set[str]:
    """Return the domains whose revision a statement increases."""
    before = all_revisions(database)
    execute(database, statement)
    return {domain for domain, revision in all_revisions(database).items() if revision > before.get(domain, 0)}


def test_an_update_of_each_column_and_a_deletion_increase_a_revision(demo: Inside) -> None:
    database = demo.platform.database
    fill(database)
    for name, changed in COLUMNS:
        assert increased(database, text(f"UPDATE {name} SET {changed} = {changed}")), (name, changed)
    # The use of a credential increases none.
    for name, displayed in sorted(DISPLAYED):
        assert increased(database, text(f"UPDATE {name} SET {displayed} = 7")) == set()
    # In an order that the foreign keys allow; rows of the other tables are never deleted.
    names = ["workload_tokens", "group_members", "policy_attachments", "workload_identities", "identities", "sessions"]
    for name in (*names, "membership_tenants", "memberships", "api_keys"):
        assert increased(database, text(f"DELETE FROM {name}")), name


# Copies of a row under another key in the tables whose new rows give or take rights.
COPIED: dict[str, dict[str, Any]] = {
    "api_keys": {"id": "new", "name": "new", "key_prefix": "new", "key_hash": "new"},
    "workload_identities": {"id": "new", "service_account": "new"},
    "tenants": {"id": "new", "slug": "new"},
    "memberships": {"user_id": "new"},
    "membership_tenants": {"user_id": "new"},
    "policies": {"id": "new"},
    "policy_attachments": {"attachee_id": "new"},
    "group_members": {"member_id": "new"},
    "catalogue_operations": {"position": 10**6, "name": "a:b:c"},
}


def test_a_new_row_increases_a_revision(demo: Inside) -> None:
    database = demo.platform.database
    fill(database)
    for name, change in COPIED.items():
        described = tables.metadata.tables[name]
        row = fetch(database, select(described).limit(1))[0]._asdict()
        if name == "memberships":
            person = {"id": "new", "email": "new@x.example", "name": "", "created_at": row["created_at"]}
            assert increased(database, insert(tables.users).values(person)) == set()
        domains = increased(database, insert(described).values(row | change))
        assert domains == {row["tenant_id"]} if name in ("api_keys", "workload_identities") else domains, name


def test_a_change_increases_the_revisions_of_its_organizations_only(demo: Inside) -> None:
    database, policies, users = demo.platform.database, tables.policies, tables.users
    with database.read() as connection:
        tenants = tables.tenants.c
        with_tenant = select(policies.c.id, tenants.organization_id).join(
            tables.tenants, tenants.id == policies.c.tenant_id
        )
        policy_id, organization_id = connection.execute(with_tenant).all()[0]
        user_id = connection.scalar(select(tables.memberships.c.user_id).limit(1))
        theirs = select(tables.memberships.c.organization_id).where(tables.memberships.c.user_id == user_id)
        organizations = set(connection.scalars(theirs))
    new_version = update(policies).where(policies.c.id == policy_id).values(version=policies.c.version + 1)
    assert increased(database, new_version) == {organization_id}
    person = update(users).where(users.c.id == user_id)
    assert increased(database, person.values(name="another")) == set()
    assert increased(database, person.values(deleted_at=None)) == {user_id, *organizations}


def workload_token(demo: Inside) -> str:
    """Return a token of a workload identity that has a policy."""
    token, now = secret_format.mint(secret_format.WORKLOAD_TOKEN_PREFIX), demo.platform.clock.now()
    row = {"token_hash": secret_format.digest(demo.platform.secret, token), "identity_id": IDENTITIES["image-resizer"]}
    row |= {"issued_at": now, "expires_at": now + timedelta(minutes=5)}
    execute(demo.platform.database, insert(tables.workload_tokens).values(row))
    return token


@pytest.fixture
def read_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[set[tuple[str, str]]]:
    """The columns that authorization reads in requests of a key and of a session, and that decisions read of subjects.

    On SQLite, which reports them.
    """
    read: set[tuple[str, str]] = set()
    recording: int | None = None

    def record(action: int, name: str | None, column: str | None, *_: object) -> int:
        if recording == threading.get_ident() and action == sqlite3.SQLITE_READ and name and column:
            read.add((name, column))
        return sqlite3.SQLITE_OK

    def record_in(place: Any, name: str) -> None:
        original = getattr(place, name)

        def recorded(*arguments: Any) -> Any:
            nonlocal recording
            recording = threading.get_ident()
            try:
                return original(*arguments)
            finally:
                recording = None

        monkeypatch.setattr(place, name, recorded)

    record_in(protected_route, "authenticate_and_authorize")
    record_in(EvaluationContext, "load_subject")
    demo = Counted(tmp_path, None)
    event.listen(demo.platform.database.engine, "connect", lambda driver, _: driver.set_authorizer(record))
    demo.platform.database.engine.dispose()
    token = workload_token(demo)
    for headers in (demo.key, demo.session, {"Authorization": f"Bearer {token}"}):
        for path in (f"/api/v1/tenants/{WEB_SHOP}", "/api/v1/me", f"/api/v1/tenants/{WEB_SHOP}/iam/policies"):
            demo.ask("GET", path, headers)
    ask_about_subjects(demo)
    demo.close()
    return read


def ask_about_subjects(demo: Counted) -> None:
    """Ask for decisions about a subject of each type, two of which have policies."""
    with demo.platform.database.write() as connection:
        key = tables.api_keys.c.name == KEY
        connection.execute(update(tables.api_keys).where(key).values(scopes=["decisions:evaluate"]))
        subjects = {"user": connection.scalar(select(tables.api_keys.c.user_id).where(key))}
        for kind in ("api_key", "workload_identity"):
            attached = tables.policy_attachments.c.attachee_type == kind
            here = tables.policy_attachments.c.tenant_id == WEB_SHOP
            subjects[kind] = connection.scalar(select(tables.policy_attachments.c.attachee_id).where(attached, here))
    for kind, name in subjects.items():
        body: dict[str, Any] = {"subject": {"type": kind, "id": name}, "action": {"name": "read"}}
        body["resource"] = {"type": "instance", "id": "x"}
        assert demo.ask("POST", "/access/v1/evaluation", demo.key, body).status_code == 200


def test_each_column_that_authorization_reads_has_a_revision(read_columns: set[tuple[str, str]]) -> None:
    keys = {(name, key.name) for name, described in tables.metadata.tables.items() for key in described.primary_key}
    covered = set(COLUMNS) | keys | DISPLAYED
    assert ("api_keys", "revoked_at") in read_columns
    assert ("memberships", "role") in read_columns
    assert {("users", "email"), ("api_keys", "scopes"), ("policies", "document")} <= read_columns
    assert {
        ("policies", "authored_by"),
        ("group_members", "member_id"),
        ("workload_tokens", "expires_at"),
    } <= read_columns
    assert {(name, column) for name, column in read_columns if name not in OTHERS} - covered == set()


def test_a_revision_is_never_used_again_after_the_database_was_set_back(demo: Inside) -> None:
    database = demo.platform.database
    increased(database, text("UPDATE memberships SET role = role"))
    before = all_revisions(database)
    execute(database, delete(revisions))
    increased(database, text("UPDATE memberships SET role = role"))
    after = all_revisions(database)
    assert after
    assert all(revision > before[domain] for domain, revision in after.items())


def test_changes_that_share_locks_increase_no_revision(tmp_path: Path, database_url: str) -> None:
    """Two of them would wait for each other at their commits (`service/db/revisions.py`)."""
    demo = Counted(tmp_path, database_url)
    tenant = f"/api/v1/tenants/{WEB_SHOP}"
    answer = demo.ask("POST", f"{tenant}/resources/instance", demo.session, {"name": "new", "region": "se-sto-1"})
    instance = f"{tenant}/resources/instance/{answer.json()['id']}"
    before = all_revisions(demo.platform.database)
    changes: list[tuple[str, str, dict[str, str] | None]] = [
        ("POST", f"{tenant}/resources/instance", {"name": "other", "region": "se-sto-1"}),
        ("PATCH", instance, {"name": "renamed"}),
        ("POST", f"{instance}/restart", None),
        ("POST", f"{tenant}/interactive/port-forwards", {"resourceId": instance.rpartition("/")[2]}),
        ("DELETE", instance, None),
    ]
    for method, path, body in changes:
        answer = demo.ask(method, path, demo.session, body)
        assert answer.status_code < 300, answer.text
    assert all_revisions(demo.platform.database) == before
    demo.close()
