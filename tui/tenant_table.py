"""How tenants stand in a table of the screens: in their place and in the switcher alike."""

from collections.abc import Sequence

from client.records import TENANT, Column, Record
from tui.widgets.header import STATUS_SIGNS
from tui.widgets.record_table import Tones
from tui.workspace import Workspace

NEARLY = 0.8
"""The share of a quota from which it is worth a warning."""


def status_text(record: Record) -> str:
    """The status with its sign, so that it does not hang on colour."""
    status = str(record.get("status", ""))
    return f"{STATUS_SIGNS.get(status, ('?', ''))[0]} {status}"


def share(record: Record) -> float:
    """How much of the tightest quota is used, 0 when unknown."""
    quota = record.get("tightestQuota") or {}
    return float(quota["used"] / quota["limit"]) if quota.get("used") is not None and quota.get("limit") else 0.0


def tightest_text(record: Record) -> str:
    """The share of the tightest quota and what it is of."""
    quota = record.get("tightestQuota")
    return f"{share(record):.0%} {quota.get('resourceType', '')}" if quota else ""


def columns(workspace: Workspace) -> Sequence[Column]:
    """The columns, the most important first; `►` marks the tenant worked in."""
    by_key = {column.key: column for column in TENANT.columns}
    wanted = ("displayName", "organizationName", "defaultTagCount", "tightestQuota", "slug")
    name, organization, tags, quota, slug = (by_key[key] for key in wanted)

    def mark(record: Record) -> str:
        return ("► " if record["id"] == workspace.tenant_id else "  ") + name.text(record)

    return (
        name._replace(title="  Name", cell=mark, sort=lambda record: name.text(record).casefold()),
        by_key["status"]._replace(cell=status_text),
        organization,
        # The share first: it is what the eye looks for, and what stays when the column is cut.
        quota._replace(title="Tightest", wide=False, cell=tightest_text),
        tags._replace(wide=True),
        slug._replace(wide=True),
    )


def tones(workspace: Workspace) -> Tones:
    """The tone of a cell; each is said in words or by a sign as well."""
    return {
        "displayName": lambda record: "mark" if record["id"] == workspace.tenant_id else None,
        "status": lambda record: {"active": "good", "provisioning": "warning"}.get(str(record.get("status"))),
        "tightestQuota": lambda record: "bad" if share(record) >= 1 else "warning" if share(record) >= NEARLY else None,
        "slug": lambda record: "dim",
    }
