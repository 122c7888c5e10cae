"""Indexes in the page order of attachments and group members."""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "ix_policy_attachments_attached",
        "policy_attachments",
        ["policy_id", "attached_at", "attachee_type", "attachee_id"],
        unique=False,
    )
    op.create_index(
        "ix_group_members_added", "group_members", ["group_id", "added_at", "member_type", "member_id"], unique=False
    )
