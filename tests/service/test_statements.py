"""The database statements of a request: each fact that it needs is read once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from client.policy.coverage import Catalogue
from client.policy.document import MAX_BYTES, MAX_RULES, InvalidDocument, canonical_text, parse_document
from service.authz.decisions import CatalogueSnapshot
from service.catalogue.operations import operations
from service.iam.policy_documents import Draft
from tests.service.access import allow, document
from tests.service.counted import TENANT, Counted


@pytest.fixture
def counted(tmp_path: Path, world_url: str | None) -> Iterator[Counted]:
    opened = Counted(tmp_path, world_url)
    # The catalogue is read once, and on PostgreSQL a lease of requests is taken.
    opened.keep_leases()
    for headers in (opened.key, opened.session):
        opened.ask("GET", f"{TENANT}/resources/instance", headers)
    opened.platform.writer.flush()
    yield opened
    opened.close()


def test_a_read_takes_two_statements_and_no_write(counted: Counted) -> None:
    for path in ("/resources/instance", "/default-tags", "", "/operations"):
        # The progress of operations is filtered by the grants.
        further = 2 if path == "/operations" else 0
        assert counted.count("GET", TENANT + path, counted.key) - further <= 2, path
        assert {statement.split()[0] for statement in counted.statements} == {"SELECT"}
        counted.forget()
        counted.platform.writer.flush()
        # On SQLite, requests of which the allowance is not restored yet.
        assert all("rate_limits" in statement for statement in counted.statements)
    assert counted.count("GET", f"{TENANT}/resources/instance", counted.session) <= 2


def test_a_change_of_a_policy_takes_at_most_nine_statements(counted: Counted) -> None:
    body = {"name": "p", "document": document(allow("compute:instances:list"))}
    created = counted.ask("POST", f"{TENANT}/iam/policies", counted.session, body)
    assert created.status_code == 201, created.text
    path = f"{TENANT}/iam/policies/{created.json()['id']}"
    most = 8 if counted.platform.database.kind == "postgresql" else 9
    body = {"document": document(allow("compute:instances:read"))}
    assert counted.count("PATCH", path, counted.session, body) <= most
    # The stored document is read and checked before the transaction.
    assert counted.count("PATCH", path, counted.session, {"name": "q"}) <= most + 1


def test_a_draft_with_a_too_long_canonical_form_is_refused() -> None:
    known = CatalogueSnapshot(Catalogue(operation.name for operation in operations()), {})
    target = "frn:compute:*:*:instance/" + "a" * 430
    rule = f'{{"access":"allow","operations":["compute:*"],"targets":["{target}"]}}'
    text = f'{{"schemaVersion":"1","rules":[{",".join([rule] * MAX_RULES)}]}}'
    long = parse_document(text, known.operations).document
    assert len(text) <= MAX_BYTES < len(canonical_text(long))
    with pytest.raises(InvalidDocument):
        Draft.of(long).read(known)
