"""The database statements of a request: each fact that it needs is read once."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select, update

from client.policy.catalogue import Catalogue
from client.policy.document import MAX_BYTES, MAX_RULES, InvalidDocument, canonical_text, parse_document
from service.authn import sessions
from service.authz.decisions import CatalogueSnapshot
from service.catalogue.operations import operations
from service.db import tables
from service.iam.policy_documents import Draft
from service.oidc_issuer.issuer import LocalIssuer
from service.settings import AUDIENCE, CLIENT_ID
from tests.service.access import allow, document
from tests.service.inside import Inside
from tests.service.running import WEB_SHOP

TENANT = f"/api/v1/tenants/{WEB_SHOP}"
KEY = "tenant-reader"


class Counted(Inside):
    """The demo world in this process, asked by a key and by an owner's session."""

    def __init__(self, folder: Path, database_url: str) -> None:
        super().__init__(folder, database_url, "demo")
        now, issuer = datetime.now(UTC), self.platform.issuer
        assert isinstance(issuer, LocalIssuer)
        session_id = str(uuid4())
        with self.platform.database.write() as connection:
            scopes = {"scopes": ["compute:read", "organizations:read"], "rate_limit": 60_000}
            connection.execute(update(tables.api_keys).where(tables.api_keys.c.name == KEY).values(scopes))
            owner = select(tables.memberships.c.user_id).join(
                tables.tenants, tables.tenants.c.organization_id == tables.memberships.c.organization_id
            )
            user_id = connection.scalars(
                owner.where(tables.tenants.c.id == WEB_SHOP, tables.memberships.c.role == "owner")
            ).first()
            assert user_id is not None
            sessions.start(
                connection,
                issuer=issuer.issuer,
                user_id=user_id,
                device="d",
                location="p",
                at=now,
                session_id=session_id,
            )
        instant = int(now.timestamp())
        claims = {"iss": issuer.issuer, "sub": user_id, "aud": AUDIENCE, "client_id": CLIENT_ID, "sid": session_id}
        times = {"iat": instant, "nbf": instant, "exp": instant + 600}
        token = issuer.sign(claims | times | {"jti": str(uuid4()), "scope": "openid"})
        self.session = {"Authorization": f"Bearer {token}"}
        self.key = {"X-API-Key": json.loads((folder / "world-keys.json").read_text())[KEY]["secret"]}

    def count(self, method: str, path: str, headers: dict[str, str], body: Any = None) -> int:
        """Return the number of statements of a request that succeeds."""
        self.forget()
        answer = self.ask(method, path, headers, body)
        assert answer.status_code == 200, answer.text
        return len(self.statements)


@pytest.fixture
def counted(tmp_path: Path, database_url: str) -> Iterator[Counted]:
    opened = Counted(tmp_path, database_url)
    # The catalogue is read once, and on PostgreSQL a lease of requests is taken.
    opened.keep_leases()
    for headers in (opened.key, opened.session):
        opened.ask("GET", f"{TENANT}/resources/instance", headers)
    opened.platform.writer.flush()
    yield opened
    opened.close()


@pytest.mark.parametrize("path", ["/resources/instance", "/default-tags", "", "/operations"])
def test_a_read_with_a_key_takes_two_statements_and_no_write(counted: Counted, path: str) -> None:
    """Revisions, and the rows themselves."""
    # The progress of operations is filtered by the grants.
    further = 2 if path == "/operations" else 0
    assert counted.count("GET", TENANT + path, counted.key) - further <= 2
    assert {statement.split()[0] for statement in counted.statements} == {"SELECT"}
    counted.forget()
    counted.platform.writer.flush()
    # On SQLite, requests of which the allowance is not restored yet.
    assert all("rate_limits" in statement for statement in counted.statements)


def test_a_list_with_a_session_reads_revisions_and_rows(counted: Counted) -> None:
    assert counted.count("GET", f"{TENANT}/resources/instance", counted.session) <= 2


def test_a_change_of_a_policy_takes_at_most_nine_statements(counted: Counted) -> None:
    """Three of them for the audit log, two on PostgreSQL."""
    created = counted.ask(
        "POST",
        f"{TENANT}/iam/policies",
        counted.session,
        {"name": "p", "document": document(allow("compute:instances:list"))},
    )
    assert created.status_code == 201, created.text
    path = f"{TENANT}/iam/policies/{created.json()['id']}"
    most = 8 if counted.platform.database.kind == "postgresql" else 9
    body = {"document": document(allow("compute:instances:read"))}
    assert counted.count("PATCH", path, counted.session, body) <= most
    # The stored document is read and checked before the transaction.
    assert counted.count("PATCH", path, counted.session, {"name": "q"}) <= most + 1


def test_the_answer_to_a_change_of_a_policy_is_the_policy_as_it_is_read(counted: Counted) -> None:
    created = counted.ask(
        "POST",
        f"{TENANT}/iam/policies",
        counted.session,
        {"name": "p", "document": document(allow("compute:instances:list"))},
    )
    path = f"{TENANT}/iam/policies/{created.json()['id']}"
    with counted.platform.database.write() as connection:
        mine = tables.policies.c.id == created.json()["id"]
        other = select(tables.users.c.id).where(tables.users.c.id != tables.policies.c.authored_by).limit(1)
        connection.execute(update(tables.policies).where(mine).values(authored_by=other.scalar_subquery()))
    for body in ({"name": "q"}, {"document": document(allow("compute:instances:read"))}, {"description": "d"}):
        answer = counted.ask("PATCH", path, counted.session, body)
        assert answer.status_code == 200, answer.text
        assert answer.json() == counted.get(path, counted.session).json()


def test_a_draft_whose_canonical_form_is_too_long_to_be_read_again_cannot_be_read() -> None:
    """Its author check is undecided, so it is not stored."""
    known = CatalogueSnapshot(Catalogue(operation.name for operation in operations()), {})
    target = "frn:compute:*:*:instance/" + "a" * 430
    rule = f'{{"access":"allow","operations":["compute:*"],"targets":["{target}"]}}'
    text = f'{{"schemaVersion":"1","rules":[{",".join([rule] * MAX_RULES)}]}}'
    long = parse_document(text, known.operations).document
    assert len(text) <= MAX_BYTES < len(canonical_text(long))
    with pytest.raises(InvalidDocument):
        Draft.of(long).read(known)
