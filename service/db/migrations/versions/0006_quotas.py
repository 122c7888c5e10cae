"""Limits of organizations, and quota requests."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

Document = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
PENDING = "status = 'pending'"


def upgrade() -> None:
    op.create_table(
        "organization_quotas",
        sa.Column("organization_id", sa.String(length=36), nullable=False),
        sa.Column("resource_type", sa.String(length=64), nullable=False),
        sa.Column("limit", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.id"], name=op.f("fk_organization_quotas_organization_id")
        ),
        sa.PrimaryKeyConstraint("organization_id", "resource_type", name=op.f("pk_organization_quotas")),
    )
    op.create_table(
        "quota_requests",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("scope", sa.String(length=16), nullable=False),
        sa.Column("organization_id", sa.String(length=36), nullable=False),
        sa.Column("tenant_id", sa.String(length=36), nullable=True),
        sa.Column("resource_type", sa.String(length=64), nullable=False),
        sa.Column("limit_before", sa.BigInteger(), nullable=False),
        sa.Column("limit", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("decision", sa.Text(), nullable=True),
        sa.Column("details", Document, nullable=True),
        sa.Column("requested_by", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("decided_at", sa.BigInteger(), nullable=True),
        sa.Column("decided_by", sa.String(length=120), nullable=True),
        sa.ForeignKeyConstraint(
            ["organization_id"], ["organizations.id"], name=op.f("fk_quota_requests_organization_id")
        ),
        sa.ForeignKeyConstraint(["requested_by"], ["users.id"], name=op.f("fk_quota_requests_requested_by")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_quota_requests_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quota_requests")),
    )
    op.create_index(
        "uq_quota_requests_pending",
        "quota_requests",
        ["organization_id", "resource_type"],
        unique=True,
        sqlite_where=sa.text(PENDING),
        postgresql_where=sa.text(PENDING),
    )
    op.create_index("ix_quota_requests_tenant_made", "quota_requests", ["tenant_id", "created_at", "id"], unique=False)
    op.create_index(
        "ix_quota_requests_scope_made",
        "quota_requests",
        ["scope", "organization_id", "created_at", "id"],
        unique=False,
    )
