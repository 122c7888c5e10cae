"""A record of each screen, with names that a shell would read as code."""

from datetime import UTC, datetime

from client.models.account import ApiKey, Organization
from client.models.default_tags import ApplyRun, Counts, TagVersion, Untouched
from client.models.iam import (
    AccessOperation,
    AllowedPrincipal,
    Attachment,
    CatalogueOperation,
    Grant,
    Group,
    ListedVersion,
    Member,
    Policy,
)
from client.models.quotas import Quota, QuotaRequest
from client.models.tenants import Actor, Entry
from tui.default_tags.apply_lists import UntouchedRow
from tui.default_tags.apply_text import TypeRow
from tui.state.contexts import ContextSummary
from tui.state.preferences import RememberedTenant
from tui.state.tag_draft import TagRow

NOW = datetime(2026, 11, 1, tzinfo=UTC)
TIMES = {"created_at": NOW, "updated_at": NOW}
TENANT = RememberedTenant(
    "01a0c0de-0000-7000-8000-000000000001",
    "Web Shop's $(reboot)",
    role="owner",
    organization_id="org-1",
    organization_name="Aurora Labs",
)
KEY = ApiKey(id="k-1", name="ci; reboot", status="active", tenant_id="t-1", tenant_name="Web Shop", created_at=NOW)
QUOTA = Quota(resource_type="vcpu", title="vCPUs", used=4, limit=20, unit="count", requestable=40)
TYPE = TypeRow("instance", Counts(updated=3))
ENTRY = Entry(
    id="7",
    at=NOW,
    actor=Actor(kind="session"),
    operation="policy.attach",
    target="policy:p-1",
    target_kind="policy",
    target_id="p-1",
    outcome="done",
)
REQUEST = QuotaRequest(
    id="r-1", resource_type="ram", limit=2048, reason="it's $(reboot)", scope="organization", status="pending"
)
BY_POLICY = (Grant(kind="policy", policy_id="p-1"),)
FAILURE = UntouchedRow(Untouched(resource_type="instance", resource_id="i-1", reason="odd"), "failed", 0)
RECORDS = {
    **dict.fromkeys(("activity", "activity-of", "organization-activity"), ENTRY),
    **dict.fromkeys(("quotas", "organization-quotas"), QUOTA),
    **dict.fromkeys(("apply-preview", "apply"), TYPE),
    "tenants": TENANT,
    "policies": Policy(id="p-1", name="roll out; rm -rf /", description="it's\nnew", document={}, **TIMES),
    "attachments": Attachment(policy_id="p-1", attachee_type="group", attachee_id="g-1", attached_at=NOW),
    "versions": ListedVersion(policy_id="p-1", version=2, document={}, changed_at=NOW, newest=False),
    "groups": Group(id="g-1", name="on call", policy_count=1, **TIMES),
    "members": Member(group_id="g-1", member_type="api_key", member_id="k-1", added_at=NOW),
    "access": AccessOperation(operation="compute:instances:read", access="allowed", by=BY_POLICY),
    "catalogue": CatalogueOperation(name="compute:instances:read"),
    "who": AllowedPrincipal(type="user", id="u-1", name="Astrid"),
    "contexts": ContextSummary(
        name="local two",
        api_endpoint="unix:/tmp/api.sock",
        credential="session",
        tenant="",
        region="",
        read_only=False,
        session_ended=False,
        in_use=True,
    ),
    "api-keys": KEY,
    "sessions": {"id": "s-1", "device": "vm", "current": True},
    "account": Organization(id="o-1", name="Aurora Labs", slug="aurora-labs", role="owner"),
    "requests": REQUEST,
    "default-tags": TagRow("env", "it's; reboot", mark="", was=None, problem=""),
    "tag-versions": TagVersion(version=2, tags={"env": "dev"}, changed_at=NOW),
    "apply-runs": ApplyRun(run_id="0192-run", status="completed", undoable=True),
    "untouched": FAILURE,
}
"""By the name of the screen."""
