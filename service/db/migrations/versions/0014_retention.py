"""Indexes for the removal of rows by age.

On a large database, build them beforehand with CREATE INDEX CONCURRENTLY under the same names.
"""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

INDEXES = (
    ("sessions", "ended_at"),
    ("sessions", "expires_at"),
    ("refresh_tokens", "expires_at"),
    ("operations", "completed_at"),
)


def upgrade() -> None:
    for table, column in INDEXES:
        op.create_index(f"ix_{table}_{column}", table, [column], unique=False, if_not_exists=True)
