"""Versions of default tags, and the undo log of applies."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

Document = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "default_tag_versions",
        sa.Column("tenant_id", sa.String(length=36), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("tags", Document, nullable=False),
        sa.Column("changed_by", sa.String(length=36), nullable=True),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["changed_by"], ["users.id"], name=op.f("fk_default_tag_versions_changed_by")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_default_tag_versions_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "version", name=op.f("pk_default_tag_versions")),
    )
    # The current tags of each tenant become the first stored version.
    op.execute(
        "INSERT INTO default_tag_versions (tenant_id, version, tags, changed_at) "
        "SELECT id, default_tags_version, default_tags, updated_at FROM tenants"
    )
    op.create_table(
        "applied_tags",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("resource_id", sa.String(length=36), nullable=False),
        sa.Column("tenant_id", sa.String(length=36), nullable=False),
        sa.Column("keys", Document, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "kind", "resource_id", name=op.f("pk_applied_tags")),
    )
