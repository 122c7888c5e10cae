"""Which rows belong to an organization, by the schema: the rows that a partition of the database contains."""

from sqlalchemy import ColumnElement, PrimaryKeyConstraint, Table, UniqueConstraint, select

from service.db.tables import metadata, organizations, tenants

# Rows of people, who may belong to several organizations, and of their sign-ins. A partition has those of its members.
OF_PEOPLE = {"users", "identities", "sessions", "refresh_tokens", "device_codes", "authorization_codes"}
# Rows of an installation: each partition has its own.
OF_INSTALLATION = {
    "platform_state",
    "catalogue_operations",
    "executors",
    # One chain a database, over the entries of all organizations.
    "audit_head",
    "audit_checkpoints",
}
# Rows of an organization or a person, without a foreign key that says so.
BY_ID = {
    # A column each, null for entries of a person.
    "audit_log": ("organization_id", "tenant_id"),
    # An organization, a person or the catalogue.
    "revisions": ("domain",),
    # A key, a session, a workload identity or an address.
    "rate_limits": ("key_id",),
    # A person, a key or a workload identity.
    "idempotency_keys": ("actor_id",),
}


def organization_path(table: Table) -> list[tuple[str, Table]] | None:
    """Return the columns and tables from a row to its organization; None without a path that every row has."""
    if table is organizations:
        return []
    if table is not tenants and "tenant_id" in table.c and not table.c.tenant_id.nullable:
        # Also without a foreign key.
        return [("tenant_id", tenants), ("organization_id", organizations)]
    for column in table.columns:
        for key in column.foreign_keys:
            if column.nullable or key.column.table is table:
                continue
            rest = organization_path(key.column.table)
            if rest is not None:
                return [(column.name, key.column.table), *rest]
    return None


def belongs_to(table: Table, organization_id: str) -> ColumnElement[bool]:
    """Return the condition for the rows of an organization in a table with a path."""
    path = organization_path(table)
    if path is None:
        raise ValueError(f"{table.name} has no path to an organization")
    if not path:
        return table.c.id == organization_id
    column, parent = path[0]
    if parent is organizations:
        return table.c[column] == organization_id
    return table.c[column].in_(select(parent.c.id).where(belongs_to(parent, organization_id)))


def tables_of_organizations() -> list[Table]:
    """Return the tables whose rows all belong to an organization, parents first."""
    return [table for table in metadata.sorted_tables if organization_path(table) is not None]


def global_constraints(table: Table) -> set[tuple[str, ...]]:
    """Return the unique columns of a table that neither name an organization nor refer to its rows."""
    unique = [
        tuple(constraint.columns.keys())
        for constraint in table.constraints
        if isinstance(constraint, UniqueConstraint | PrimaryKeyConstraint)
    ]
    unique += [tuple(index.columns.keys()) for index in table.indexes if index.unique]
    scoped = {"organization_id", "tenant_id"} | {
        column.name
        for column in table.columns
        if any(organization_path(key.column.table) is not None for key in column.foreign_keys)
    }
    return {columns for columns in unique if not scoped.intersection(columns)}
