"""SQL of accounts: the principal's person, workload identity and organizations, and API keys.

Hashes of secrets are not read here.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, bindparam, insert, literal, select

from service import errors
from service.authn import secret_format
from service.clock import wire_time
from service.db.dialect import upsert_insert
from service.db.engine import Record
from service.db.prepared import prepared
from service.db.statements import delete_rows, records, update_row
from service.db.tables import (
    api_keys,
    group_members,
    memberships,
    organizations,
    policy_attachments,
    rate_limits,
    tenants,
    users,
    workload_identities,
)
from service.principal import Principal
from service.principals.grants import may_enter
from service.principals.queries import forget

KEY_KIND = "api_key"

_KEY = (
    select(
        *(column for column in api_keys.c if column.name != "key_hash"),
        tenants.c.display_name.label("tenant_name"),
        users.c.name.label("creator_name"),
        users.c.email.label("creator_email"),
    )
    .join(tenants, tenants.c.id == api_keys.c.tenant_id)
    .join(users, users.c.id == api_keys.c.user_id)
)
_ONE = prepared(
    _KEY.where(
        api_keys.c.tenant_id == bindparam("tenant"),
        api_keys.c.user_id == bindparam("person"),
        api_keys.c.id == bindparam("key"),
    )
)
_NEWEST_FIRST = (api_keys.c.created_at.desc(), api_keys.c.id)


def person(connection: Connection, user_id: str | None) -> Record:
    return connection.execute(
        select(users.c.id, users.c.email, users.c.name, users.c.created_at, users.c.default_tenant_id).where(
            users.c.id == user_id
        )
    ).one()


def workload(connection: Connection, workload_id: str | None) -> Record:
    """Return a workload identity, or raise 401 if it was deleted since authentication."""
    row = connection.execute(select(workload_identities).where(workload_identities.c.id == workload_id)).one_or_none()
    if row is None:
        raise errors.authentication_required()
    return row


def organizations_of(connection: Connection, principal: Principal) -> list[Record]:
    """Return the organizations of a principal with its role, by name.

    API keys and workloads have the organization of their tenant: keys while their creator may enter it, workloads with
    the role `workload`.
    """
    if principal.kind == "workload":
        query = (
            select(
                organizations.c.id,
                organizations.c.name,
                organizations.c.slug,
                organizations.c.created_at,
                literal(principal.kind).label("role"),
            )
            .join(tenants, tenants.c.organization_id == organizations.c.id)
            .where(tenants.c.id == principal.tenant_id)
        )
        return list(connection.execute(query))
    query = (
        select(
            organizations.c.id,
            organizations.c.name,
            organizations.c.slug,
            organizations.c.created_at,
            memberships.c.role,
        )
        .join(memberships, memberships.c.organization_id == organizations.c.id)
        .where(memberships.c.user_id == principal.user_id)
    )
    if principal.tenant_id:
        query = query.join(tenants, tenants.c.organization_id == organizations.c.id).where(may_enter(principal))
    return sorted(connection.execute(query), key=lambda row: (row.name.casefold(), row.id))


def keys_of_tenant(connection: Connection, tenant_id: str) -> Iterator[Record]:
    return records(connection, _KEY.where(api_keys.c.tenant_id == tenant_id).order_by(*_NEWEST_FIRST))


def keys_of_person(connection: Connection, user_id: str | None, enterable: ColumnElement[bool]) -> Iterator[Record]:
    """Return the keys of a person in the tenants they may enter, newest first."""
    query = _KEY.join(memberships, memberships.c.organization_id == tenants.c.organization_id)
    return records(connection, query.where(api_keys.c.user_id == user_id, enterable).order_by(*_NEWEST_FIRST))


def find_key(connection: Connection, tenant_id: str, user_id: str | None, key_id: str) -> Record | None:
    return connection.execute(_ONE, {"tenant": tenant_id, "person": user_id, "key": key_id}).one_or_none()


def add_key(connection: Connection, platform_secret: bytes, values: dict[str, Any]) -> str:
    """Insert a key; return its secret, of which only prefix and hash are stored."""
    while True:
        secret = secret_format.mint()
        prefix, digest = secret_format.lookup_prefix(secret), secret_format.digest(platform_secret, secret)
        # If the prefix exists, try another secret.
        statement = upsert_insert(connection, api_keys).values(**values, key_prefix=prefix, key_hash=digest)
        if connection.scalar(statement.on_conflict_do_nothing(index_elements=["key_prefix"]).returning(api_keys.c.id)):
            return secret


def change_key(connection: Connection, tenant_id: str, key_id: str, values: dict[str, Any]) -> None:
    update_row(connection, api_keys, {"tenant_id": tenant_id, "id": key_id}, values)


def remove_key(connection: Connection, tenant_id: str, key_id: str) -> None:
    """Delete a key with its group memberships, attachments and rate limit."""
    forget(connection, tenant_id, KEY_KIND, key_id)
    delete_rows(connection, rate_limits, {"key_id": key_id})
    delete_rows(connection, api_keys, {"tenant_id": tenant_id, "id": key_id})


def copy_grants(connection: Connection, tenant_id: str, old: str, new: str, by: str | None, at: datetime) -> int:
    """Copy group memberships and policy attachments to another key; return their number."""
    copied = 0
    for table, kind, identifier, actor_column, time_column in (
        (group_members, "member_type", "member_id", "added_by", "added_at"),
        (policy_attachments, "attachee_type", "attachee_id", "attached_by", "attached_at"),
    ):
        query = select(table).where(
            table.c.tenant_id == tenant_id, table.c[kind] == KEY_KIND, table.c[identifier] == old
        )
        rows = [
            {**row, identifier: new, actor_column: by, time_column: at} for row in connection.execute(query).mappings()
        ]
        if rows:
            connection.execute(insert(table), rows)
        copied += len(rows)
    return copied


def key_status(row: Record, at: datetime) -> str:
    """Return `revoked` (also after expiry), `active` or `expired`."""
    if row.revoked_at is not None:
        return "revoked"
    return "active" if at < row.expires_at else "expired"


def key_wire(row: Record, at: datetime) -> dict[str, Any]:
    return {
        "id": row.id,
        "tenantId": row.tenant_id,
        "tenantName": row.tenant_name,
        "name": row.name,
        "description": row.description,
        "keyPrefix": row.key_prefix,
        "scopes": row.scopes,
        "rateLimit": row.rate_limit,
        "status": key_status(row, at),
        "createdAt": wire_time(row.created_at),
        "expiresAt": wire_time(row.expires_at),
        "revokedAt": wire_time(row.revoked_at) if row.revoked_at else None,
        "lastUsedAt": wire_time(row.last_used_at) if row.last_used_at else None,
        "creatorId": row.user_id,
        "creatorName": row.creator_name,
        "creatorEmail": row.creator_email,
    }
