"""Sealing and segments of the audit log: positions in the chain, digests of unsealed entries, checkpoints.

The entries of a SQLite file are numbered here. On PostgreSQL the sealer numbers them in batches, beside other
transactions. The indexes are built while changes wait: about a second for a million entries.
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

WITHOUT_SEQUENCE = sa.text("sequence IS NULL")


def upgrade() -> None:
    op.create_table(
        "audit_checkpoints",
        sa.Column("first_sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("last_sequence", sa.BigInteger(), nullable=False),
        sa.Column("entries", sa.BigInteger(), nullable=False),
        sa.Column("previous_hash", sa.String(length=64), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("export_digest", sa.String(length=64), nullable=False),
        sa.Column("dropped_at", sa.BigInteger(), nullable=False),
        sa.Column("seal", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("first_sequence", name=op.f("pk_audit_checkpoints")),
    )
    # Not in batch mode, which would copy the table.
    op.add_column("audit_log", sa.Column("sequence", sa.BigInteger(), nullable=True))
    op.add_column("audit_log", sa.Column("mac", sa.String(length=64), nullable=True))
    if op.get_bind().dialect.name == "sqlite":
        op.execute(
            "UPDATE audit_log SET sequence = numbered.sequence FROM ("
            "SELECT id, row_number() OVER (ORDER BY id) AS sequence FROM audit_log WHERE hash IS NOT NULL"
            ") AS numbered WHERE audit_log.id = numbered.id"
        )
    op.create_index("ix_audit_log_sequence", "audit_log", ["sequence"], unique=False)
    op.create_index(
        "ix_audit_log_without_sequence",
        "audit_log",
        ["id"],
        unique=False,
        sqlite_where=WITHOUT_SEQUENCE,
        postgresql_where=WITHOUT_SEQUENCE,
    )
