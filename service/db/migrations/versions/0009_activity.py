"""Indexes of the audit log by tenant and by organization. No query of older programs used the dropped index."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0007"
branch_labels = None
depends_on = None

OF_NO_TENANT = "tenant_id IS NULL"


def upgrade() -> None:
    op.create_index("ix_audit_log_tenant_at", "audit_log", ["tenant_id", "at", "id"], unique=False)
    op.create_index(
        "ix_audit_log_organization_at",
        "audit_log",
        ["organization_id", "at", "id"],
        unique=False,
        sqlite_where=sa.text(OF_NO_TENANT),
        postgresql_where=sa.text(OF_NO_TENANT),
    )
    op.drop_index("ix_audit_log_tenant_id", table_name="audit_log")
