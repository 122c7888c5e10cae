"""Rate limits of keys, revocation of all sessions, cluster issuers, workload tokens."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

Document = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.add_column("users", sa.Column("sessions_revoked_at", sa.BigInteger(), nullable=True))
    op.create_table(
        "cluster_issuers",
        sa.Column("tenant_id", sa.String(length=36), nullable=False),
        sa.Column("cluster_id", sa.String(length=36), nullable=False),
        sa.Column("issuer", sa.String(length=300), nullable=False),
        sa.Column("keys", Document, nullable=False),
        sa.Column("changed_by", sa.String(length=36), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["changed_by"], ["users.id"], name=op.f("fk_cluster_issuers_changed_by")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_cluster_issuers_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "cluster_id", name=op.f("pk_cluster_issuers")),
    )
    op.create_table(
        "workload_tokens",
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("identity_id", sa.String(length=36), nullable=False),
        sa.Column("issued_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["identity_id"], ["workload_identities.id"], name=op.f("fk_workload_tokens_identity_id")
        ),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_workload_tokens")),
    )
    op.create_index(op.f("ix_workload_tokens_identity_id"), "workload_tokens", ["identity_id"], unique=False)
    op.create_index(op.f("ix_workload_tokens_expires_at"), "workload_tokens", ["expires_at"], unique=False)
    op.create_table(
        "rate_limits",
        sa.Column("key_id", sa.String(length=36), nullable=False),
        sa.Column("full_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("key_id", name=op.f("pk_rate_limits")),
        prefixes=["UNLOGGED"] if op.get_bind().dialect.name == "postgresql" else [],
    )
