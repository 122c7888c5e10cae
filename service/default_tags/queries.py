"""SQL of default tags and their versions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, select

from service.db.engine import Record
from service.db.prepared import prepared
from service.db.statements import add_row, records, update_row
from service.db.tables import default_tag_versions, tenants, users

_CURRENT = prepared(
    select(
        tenants.c.default_tags.label("tags"), tenants.c.default_tags_version.label("version"), tenants.c.status
    ).where(tenants.c.id == bindparam("tenant"))
)


def get(connection: Connection, tenant_id: str) -> Record:
    """Return `tags`, `version` and the tenant's `status`."""
    return connection.execute(_CURRENT, {"tenant": tenant_id}).one()


def change(
    connection: Connection, tenant_id: str, number: int, tags: dict[str, str], changed_by: str | None, at: datetime
) -> None:
    """Store the tags as version `number`, also in the history."""
    current = {"default_tags": tags, "default_tags_version": number, "updated_at": at}
    update_row(connection, tenants, {"id": tenant_id}, current)
    version = {"tenant_id": tenant_id, "version": number, "tags": tags, "changed_by": changed_by, "changed_at": at}
    add_row(connection, default_tag_versions, version)


def version_page(connection: Connection, tenant_id: str, before: int | None, limit: int) -> Sequence[Record]:
    """Return at most `limit` + 1 versions before `before`, newest first."""
    query = (
        select(default_tag_versions, users.c.name, users.c.email)
        .outerjoin(users, users.c.id == default_tag_versions.c.changed_by)
        .where(default_tag_versions.c.tenant_id == tenant_id)
    )
    if before is not None:
        query = query.where(default_tag_versions.c.version < before)
    return list(records(connection, query.order_by(default_tag_versions.c.version.desc()).limit(limit + 1)))


def propagated(connection: Connection, tenant_id: str, since: datetime) -> dict[str, str]:
    """Return the tags for new resources: the newest version at `since`, or the oldest if all are newer."""
    versions = select(default_tag_versions.c.tags).where(default_tag_versions.c.tenant_id == tenant_id)
    newest = versions.where(default_tag_versions.c.changed_at <= since).order_by(default_tag_versions.c.version.desc())
    tags: dict[str, str] | None = connection.scalar(newest.limit(1))
    if tags is None:
        tags = connection.scalar(versions.order_by(default_tag_versions.c.version).limit(1))
    return tags or {}


def person(row: Any, identifier: str | None) -> dict[str, Any] | None:
    return None if identifier is None else {"id": identifier, "name": row.name, "email": row.email}
