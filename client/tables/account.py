"""Columns of API keys, scopes and sessions. Cells are plain text, as in client/tables/columns.py."""

from client.tables.columns import Column, Kind, Record, fields, id_column, number_column, time_column


def scopes_text(record: Record) -> str:
    """Format the scopes of a key or an identity: `compute:read, storage:read`."""
    return ", ".join(str(scope) for scope in record.get("scopes") or ())


_API_KEY = (
    Column("name", "Name"),
    id_column("id", "ID"),
    Column("tenantName", "Tenant"),
    Column("status", "Status", whole=True),
    time_column("expiresAt", "Expires"),
    Column("scopes", "Scopes", wide=True, cell=scopes_text, sort=lambda record: scopes_text(record) or None),
    time_column("lastUsedAt", "Last used", wide=True),
    Column("keyPrefix", "Prefix", wide=True, whole=True),
    number_column("rateLimit", "Requests/min", wide=True),
    Column("description", "Description", wide=True),
    time_column("createdAt", "Created", wide=True),
    time_column("revokedAt", "Revoked", wide=True),
    id_column("tenantId", "Tenant ID", wide=True),
)

API_KEY = Kind(
    "API key",
    "API keys",
    "id",
    _API_KEY,
    fields(
        _API_KEY,
        name="name",
        id="id",
        tenant="tenantName",
        status="status",
        scopes="scopes",
        prefix="keyPrefix",
        description="description",
    ),
    "name",
)

_SCOPE = (
    Column("scope", "Scope", whole=True),
    Column("enforced", "Enforced", wide=True),
    Column("description", "Description", wide=True),
)

SCOPE = Kind(
    "scope",
    "scopes",
    "scope",
    _SCOPE,
    fields(_SCOPE, scope="scope", enforced="enforced", description="description"),
    "scope",
)

_SESSION = (
    Column("device", "Device"),
    Column("place", "Place"),
    time_column("startedAt", "Started"),
    time_column("lastSeenAt", "Last seen"),
    id_column("id", "ID", wide=True),
    time_column("expiresAt", "Expires", wide=True),
)

SESSION = Kind(
    "session",
    "sessions",
    "id",
    _SESSION,
    fields(_SESSION, device="device", place="place", id="id"),
    "device",
)
