"""The size of the latest lease of a rate limit, which PostgreSQL returns from the statement that chooses it."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("rate_limits", sa.Column("leased", sa.Integer(), nullable=True))
