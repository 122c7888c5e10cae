"""Organizations are independent of each other, so that a database can be partitioned by them (docs/scaling.md)."""

import re
from pathlib import Path
from typing import Any

from sqlalchemy import delete, select

from service.db import tables
from service.db.tables import metadata, organizations, tenants
from tests.people import AURORA, BOREALIS, NEWSROOM, WEB_SHOP
from tests.scaling.partition import (
    BY_ID,
    OF_INSTALLATION,
    OF_PEOPLE,
    belongs_to,
    global_constraints,
    organization_path,
    tables_of_organizations,
)
from tests.service.counted import Counted

DOCUMENT = Path(__file__).parents[2] / "docs" / "scaling.md"
RANDOM = {(name,) for name in ("id", "token_hash", "code_hash", "device_code_hash", "run_id")}
RANDOM.add(("run_id", "kind", "resource_id"))
"""Columns with random ids and digests, which do not collide between partitions."""
# Unique in the whole database.
GLOBAL: dict[str, set[tuple[str, ...]]] = {
    "organizations": {("slug",)},
    "api_keys": {("key_prefix",)},
    "isolation_projects": {("name",)},
    "billing_accounts": {("account_number",)},
    "users": {("email",)},
    "identities": {("issuer", "subject"), ("issuer", "user_id")},
    "sessions": {("issuer", "subject")},
    "device_codes": {("user_code",)},
}


def test_every_table_has_a_path_to_an_organization_or_is_listed() -> None:
    assert {table.name for table in metadata.sorted_tables if organization_path(table) is None} == (
        OF_PEOPLE | OF_INSTALLATION | BY_ID.keys()
    )
    for name, columns in BY_ID.items():
        assert set(columns) <= set(metadata.tables[name].c.keys())
    for table in tables_of_organizations():
        for parent in (key.column.table for key in table.foreign_keys):
            assert organization_path(parent) is not None or parent is tables.users, (table.name, parent.name)
    listed = [table for table in metadata.sorted_tables if table.name not in OF_INSTALLATION | BY_ID.keys()]
    assert {table.name: columns for table in listed if (columns := global_constraints(table) - RANDOM)} == GLOBAL


def test_the_document_explains_every_exception() -> None:
    section = DOCUMENT.read_text().partition("## After one PostgreSQL")[2]
    names = set(re.findall(r"`(\w+)(?:\.\w+)?`", section))
    assert OF_PEOPLE | OF_INSTALLATION | BY_ID.keys() <= names
    for name, constraints in GLOBAL.items():
        for columns in constraints:
            assert any(f"`{name}.{column}`" in section for column in columns), (name, columns)


def test_an_organization_answers_alike_without_the_rows_of_the_others(counted: Counted) -> None:
    """The other organizations are removed by the paths of the schema; foreign keys find what would be missing."""
    of_tenant = ("", "/api-keys", "/iam/policies", "/iam/groups", "/quotas-report", "/operations", "/activity")
    paths = [
        f"/api/v1/organizations/{AURORA}/tenants",
        f"/api/v1/organizations/{AURORA}/quotas-report",
        f"/api/v1/tenants/{WEB_SHOP}/resources/instance?limit=200",
        *(f"/api/v1/tenants/{WEB_SHOP}{path}" for path in of_tenant),
    ]

    def answers() -> list[tuple[int, Any]]:
        return [
            (answer.status_code, answer.json()) for answer in (counted.get(path, counted.session) for path in paths)
        ]

    before = answers()
    assert {status for status, _ in before} == {200}
    with counted.platform.database.write() as connection:
        others = connection.scalars(select(organizations.c.id).where(organizations.c.id != AURORA)).all()
        assert BOREALIS in others
        assert connection.scalar(select(tenants.c.id).where(tenants.c.id == NEWSROOM))
        for organization_id in others:
            for table in reversed(tables_of_organizations()):
                connection.execute(delete(table).where(belongs_to(table, organization_id)))
    assert answers() == before
