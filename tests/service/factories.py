"""Rows with defaults, for databases that a test fills itself."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Table, insert

from service.audit.seals import ENTRY_FIELDS
from service.db import tables

Row = dict[str, Any]
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def add(connection: Connection, rows: Mapping[Table, Row | list[Row]]) -> None:
    """Insert rows, in the order of their tables."""
    for table, values in rows.items():
        connection.execute(insert(table), values)


def user(id: str = "u", at: datetime = AT, **members: Any) -> Row:
    return {"id": id, "email": f"{id}@x.example", "name": id, "created_at": at} | members


def organization(id: str = "o", at: datetime = AT, **members: Any) -> Row:
    return {"id": id, "name": id, "slug": id, "created_at": at} | members


def membership(at: datetime = AT, **members: Any) -> Row:
    row = {"user_id": "u", "organization_id": "o", "role": "owner", "limited": False, "created_at": at}
    return row | members


def tenant(id: str = "t", at: datetime = AT, **members: Any) -> Row:
    row = {"id": id, "organization_id": "o", "display_name": id, "slug": id, "status": "active", "default_tags": {}}
    return row | {"created_at": at, "updated_at": at} | members


def api_key(id: str = "k", at: datetime = AT, **members: Any) -> Row:
    row = {"id": id, "tenant_id": "t", "user_id": "u", "name": "key", "key_prefix": id, "key_hash": id, "scopes": []}
    return row | {"rate_limit": 60, "created_at": at, "expires_at": at + timedelta(days=1)} | members


def session(id: str = "s", at: datetime = AT, **members: Any) -> Row:
    row = {"id": id, "issuer": "http://localhost/issuer", "subject": id, "user_id": "u", "device": "", "place": ""}
    return row | {"started_at": at, "last_seen_at": at, "expires_at": at + timedelta(days=1)} | members


def resource(id: str, at: datetime = AT, **members: Any) -> Row:
    row = {"id": id, "tenant_id": "t", "kind": "instance", "name": id, "region": "se-sto-1", "state": "running"}
    return row | {"tags": {}, "relations": {}, "attributes": {}, "created_at": at, "updated_at": at} | members


def entry(target: str = "t", at: datetime = AT, **members: Any) -> Row:
    """An entry of the audit log, without the columns of its chain."""
    row = dict.fromkeys(ENTRY_FIELDS, "x") | {"at": at, "target": target}
    return row | {"details": {"n": 1.0, "b": {"z": 1, "a": [2.5]}}} | members


def seat(at: datetime = AT, **members: Any) -> dict[Table, Row | list[Row]]:
    """A person who owns an organization with one tenant; `members` are those of the tenant."""
    return {
        tables.users: user(at=at),
        tables.organizations: organization(at=at),
        tables.memberships: membership(at=at),
        tables.tenants: tenant(at=at, **members),
    }
