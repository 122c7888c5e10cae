"""Groups, policies and their versions, attachments, workload identities."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

Document = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "groups",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("tenant_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_by", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["created_by"], ["users.id"], name=op.f("fk_groups_created_by")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_groups_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_groups")),
        sa.UniqueConstraint("tenant_id", "name", name=op.f("uq_groups_tenant_id_name")),
    )
    op.create_index("ix_groups_tenant_made", "groups", ["tenant_id", "created_at", "id"], unique=False)
    op.create_table(
        "policies",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("tenant_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("authored_by", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["authored_by"], ["users.id"], name=op.f("fk_policies_authored_by")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_policies_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_policies")),
    )
    op.create_index("ix_policies_tenant_made", "policies", ["tenant_id", "created_at", "id"], unique=False)
    op.create_table(
        "workload_identities",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("tenant_id", sa.String(length=36), nullable=False),
        sa.Column("cluster_id", sa.String(length=36), nullable=False),
        sa.Column("namespace", sa.String(length=63), nullable=False),
        sa.Column("service_account", sa.String(length=253), nullable=False),
        sa.Column("scopes", Document, nullable=False),
        sa.Column("created_by", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["created_by"], ["users.id"], name=op.f("fk_workload_identities_created_by")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_workload_identities_tenant_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workload_identities")),
        sa.UniqueConstraint(
            "tenant_id", "cluster_id", "namespace", "service_account", name="uq_workload_identities_subject"
        ),
    )
    op.create_index(
        "ix_workload_identities_tenant_made", "workload_identities", ["tenant_id", "created_at", "id"], unique=False
    )
    op.create_table(
        "group_members",
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.Column("member_type", sa.String(length=32), nullable=False),
        sa.Column("member_id", sa.String(length=36), nullable=False),
        sa.Column("tenant_id", sa.String(length=36), nullable=False),
        sa.Column("added_by", sa.String(length=36), nullable=False),
        sa.Column("added_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["added_by"], ["users.id"], name=op.f("fk_group_members_added_by")),
        sa.ForeignKeyConstraint(["group_id"], ["groups.id"], name=op.f("fk_group_members_group_id")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_group_members_tenant_id")),
        sa.PrimaryKeyConstraint("group_id", "member_type", "member_id", name=op.f("pk_group_members")),
    )
    op.create_index("ix_group_members_member", "group_members", ["tenant_id", "member_type", "member_id"], unique=False)
    op.create_table(
        "policy_attachments",
        sa.Column("policy_id", sa.String(length=36), nullable=False),
        sa.Column("attachee_type", sa.String(length=32), nullable=False),
        sa.Column("attachee_id", sa.String(length=36), nullable=False),
        sa.Column("tenant_id", sa.String(length=36), nullable=False),
        sa.Column("attached_by", sa.String(length=36), nullable=False),
        sa.Column("attached_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["attached_by"], ["users.id"], name=op.f("fk_policy_attachments_attached_by")),
        sa.ForeignKeyConstraint(["policy_id"], ["policies.id"], name=op.f("fk_policy_attachments_policy_id")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_policy_attachments_tenant_id")),
        sa.PrimaryKeyConstraint("policy_id", "attachee_type", "attachee_id", name=op.f("pk_policy_attachments")),
    )
    op.create_index(
        "ix_policy_attachments_attachee",
        "policy_attachments",
        ["tenant_id", "attachee_type", "attachee_id"],
        unique=False,
    )
    op.create_table(
        "policy_versions",
        sa.Column("policy_id", sa.String(length=36), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("tenant_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("authored_by", sa.String(length=36), nullable=False),
        sa.Column("changed_by", sa.String(length=36), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("change", sa.String(length=16), nullable=False),
        sa.Column("changed", Document, nullable=False),
        sa.Column("rolled_back_to", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["authored_by"], ["users.id"], name=op.f("fk_policy_versions_authored_by")),
        sa.ForeignKeyConstraint(["changed_by"], ["users.id"], name=op.f("fk_policy_versions_changed_by")),
        sa.ForeignKeyConstraint(["policy_id"], ["policies.id"], name=op.f("fk_policy_versions_policy_id")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_policy_versions_tenant_id")),
        sa.PrimaryKeyConstraint("policy_id", "version", name=op.f("pk_policy_versions")),
    )
