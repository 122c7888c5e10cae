"""Columns of access policies: catalogue, groups, members, policies, versions, attachments, identities, access.

Cells are plain text, as in columns.py.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from client.tables.account import scopes_text
from client.tables.columns import Column, Kind, Record, fields, id_column, number_column, time_column

# --- formats of values -----------------------------------------------------------------------------------------------


def distinct_names(principals: Iterable[tuple[str, str]]) -> list[str]:
    """Return the names of principals, given as name and ID. A repeated name gets the start of the ID."""
    pairs = list(principals)
    counts = Counter(name for name, _ in pairs)
    return [f"{name} ({identifier[:8]})" if counts[name] > 1 and name else name for name, identifier in pairs]


def grants_text(grants: Sequence[Mapping[str, Any]]) -> str:
    """Format the grants of an operation, all required: `scope compute:*, role owner, policy "deployments" rule 1 …`."""
    return ", ".join(grant_text(grant) for grant in grants)


def grant_text(grant: Mapping[str, Any]) -> str:
    """Format a grant or denial: the scope, the role, or the policy rule and the group it comes through."""
    kind = grant.get("kind")
    if kind == "scope":
        return f"scope {grant.get('scope')}"
    if kind == "role":
        return f"role {grant.get('role')}"
    text = f"policy {grant.get('policyName')} {rule_text(grant.get('ruleIndex'), grant.get('ruleName'))}"
    through = paths_text(grant.get("paths") or ())
    return f"{text} {through}".rstrip()


def paths_text(paths: Sequence[Mapping[str, Any]], total: int = 0) -> str:
    """Format the paths of a policy to its principal: `via group deployers`; empty if only direct.

    Args:
        total: The number of paths, if `paths` has only the first of them.
    """
    groups = [str(path.get("name")) for path in paths if path.get("type") == "group"]
    direct = any(path.get("type") == "direct" for path in paths)
    if not groups:
        return ""
    more = f" and {total - len(paths)} more" if total > len(paths) else ""
    return (
        f"{'directly and ' if direct else ''}via {'groups' if len(groups) > 1 else 'group'} {', '.join(groups)}{more}"
    )


def rule_text(index: object, name: object) -> str:
    """Format a policy rule, numbered from 1: `rule 2 (keep-production)`."""
    number = f"rule {index + 1}" if isinstance(index, int) else "rule"
    return f"{number} ({name})" if name else number


def conditions_text(grant: Mapping[str, Any]) -> str:
    """Format the targets and constraints of a policy rule; empty if it has none."""
    parts = [str(target) for target in grant.get("targets") or ()]
    parts += [constraint_text(constraint) for constraint in grant.get("constraints") or ()]
    return ", ".join(parts)


def constraint_text(constraint: Mapping[str, Any]) -> str:
    """Format a constraint: `equals frn:region se-sto-1`."""
    values = " ".join(str(value) for value in constraint.get("values") or ())
    return f"{constraint.get('operator')} {constraint.get('key')} {values}"


MISMATCHES = {
    "operations": "its operations do not match",
    "targets": "its targets do not match",
    "author": "you do not have this permission",
}
"""Texts for the failed part of a policy rule in a simulation. Other parts are constraints."""


def mismatch_text(part: str) -> str:
    """Format the failed part of a policy rule: `its targets do not match`, `equals frn:region a is not satisfied`."""
    return MISMATCHES.get(part, f"{part} is not satisfied" if part else "")


def unsure_text(part: str) -> str:
    """Format the undecided part of a policy rule, such as `its targets may or may not match`."""
    if part == "targets":
        return "its targets may or may not match"
    return MISMATCHES.get(part, f"{part} is unknown" if part else "")


def _rule_count(record: Record) -> int | None:
    document = record.get("document")
    rules = document.get("rules") if isinstance(document, Mapping) else None
    return len(rules) if isinstance(rules, list) else None


def _rules(record: Record) -> str:
    count = _rule_count(record)
    return "" if count is None else str(count)


def _author(record: Record) -> str:
    """Return the author of a policy; `(left)` if the author lost access, so that its allow rules have no effect."""
    author = record.get("author")
    name = str(author.get("email") or author.get("name") or "") if isinstance(author, Mapping) else ""
    return f"{name or record.get('authoredBy') or ''}{' (left)' if record.get('orphaned') else ''}"


def _what(record: Record) -> str:
    """Format the change of a version: `rollback to 2`, `update`."""
    change, back = str(record.get("change") or ""), record.get("rolledBackTo")
    return f"{change} to {back}" if back is not None else change


def _changes_text(record: Record) -> str:
    return ", ".join(str(name) for name in record.get("changed") or ())


def _identity(record: Record) -> str:
    if not record.get("namespace"):
        return ""
    return f"{record['namespace']}/{record.get('serviceAccount', '')}"


def _by(record: Record) -> str:
    return grants_text(record.get("by") or ())


def _denied_by(record: Record) -> str:
    return grants_text(record.get("deniedBy") or ())


def _conditions_text(record: Record) -> str:
    """Format the conditions of the rules that allow or deny an operation, in their order."""
    conditions = [text for grant in record.get("by") or () if (text := conditions_text(grant))]
    conditions += [f"not {text}" for grant in record.get("deniedBy") or () if (text := conditions_text(grant))]
    return "; ".join(conditions)


# --- the kinds -------------------------------------------------------------------------------------------------------

_CATALOGUE = (
    Column("name", "Operation", whole=True),
    Column("accessLevel", "Access", wide=True),
    Column("description", "Description", wide=True),
)

CATALOGUE = Kind(
    "operation",
    "operations",
    "name",
    _CATALOGUE,
    fields(_CATALOGUE, name="name", access="accessLevel", description="description"),
    "name",
)

_GROUP = (
    Column("name", "Name"),
    id_column("id", "ID"),
    number_column("memberCount", "Members"),
    number_column("policyCount", "Policies"),
    Column("description", "Description"),
    number_column("version", "Version", wide=True),
    time_column("createdAt", "Created", wide=True),
    time_column("updatedAt", "Updated", wide=True),
)

GROUP = Kind(
    "group",
    "groups",
    "id",
    _GROUP,
    fields(_GROUP, name="name", id="id", members="memberCount", policies="policyCount", description="description"),
    "name",
)

_MEMBER = (
    Column("memberType", "Type"),
    Column("memberName", "Name"),
    id_column("memberId", "ID"),
    time_column("addedAt", "Added"),
    id_column("groupId", "Group ID", wide=True),
)

MEMBER = Kind(
    "member",
    "members",
    "",
    _MEMBER,
    fields(_MEMBER, type="memberType", name="memberName", id="memberId"),
    "memberName",
)

_POLICY = (
    Column("name", "Name"),
    id_column("id", "ID"),
    number_column("version", "Version"),
    number_column("attachmentCount", "Attached"),
    Column("author", "Author", wide=True, cell=_author, sort=lambda record: _author(record).casefold() or None),
    Column("rules", "Rules", wide=True, align="right", cell=_rules, sort=_rule_count),
    Column("description", "Description", wide=True),
    time_column("createdAt", "Created", wide=True),
    time_column("updatedAt", "Updated", wide=True),
)

POLICY = Kind(
    "policy",
    "policies",
    "id",
    _POLICY,
    fields(_POLICY, name="name", id="id", author="author", rules="rules", attached="attachmentCount"),
    "name",
)

_VERSION = (
    number_column("version", "Version"),
    time_column("changedAt", "When"),
    Column("changedByName", "By"),
    Column("change", "Change", cell=_what),
    Column("changed", "Changed", cell=_changes_text),
    Column("rules", "Rules", align="right", cell=_rules, sort=_rule_count),
    Column("name", "Name", wide=True),
    Column("description", "Description", wide=True),
    id_column("changedBy", "By ID", wide=True),
)

VERSION = Kind(
    "version",
    "versions",
    "version",
    _VERSION,
    fields(_VERSION, version="version", by="changedByName", change="change", changed="changed"),
    "version",
)

_ATTACHMENT = (
    Column("attacheeType", "Type"),
    Column("attacheeName", "Name"),
    id_column("attacheeId", "ID"),
    time_column("attachedAt", "Attached"),
    id_column("policyId", "Policy ID", wide=True),
)

ATTACHMENT = Kind(
    "attachment",
    "attachments",
    "",
    _ATTACHMENT,
    fields(_ATTACHMENT, type="attacheeType", name="attacheeName", id="attacheeId"),
    "attacheeName",
)

_BINDING = (
    Column("name", "Name", cell=_identity, sort=lambda record: _identity(record).casefold() or None),
    id_column("id", "ID"),
    Column("scopes", "Scopes", cell=scopes_text, sort=lambda record: scopes_text(record) or None),
    Column("inert", "Inert"),
    id_column("clusterId", "Cluster ID", wide=True),
    time_column("createdAt", "Created", wide=True),
)

BINDING = Kind(
    "workload identity",
    "workload identities",
    "id",
    _BINDING,
    fields(_BINDING, name="name", id="id", scopes="scopes", inert="inert"),
    "name",
)

_ACCESS = (
    Column("operation", "Operation", whole=True),
    Column("access", "Access", whole=True),
    Column("by", "By", cell=_by, sort=lambda record: _by(record) or None),
    Column("deniedBy", "Denied by", cell=_denied_by, sort=lambda record: _denied_by(record) or None),
    Column("when", "When", wide=True, cell=_conditions_text, sort=lambda record: _conditions_text(record) or None),
)

ACCESS = Kind(
    "operation",
    "operations",
    "operation",
    _ACCESS,
    fields(_ACCESS, operation="operation", access="access", by="by", denied="deniedBy"),
    "operation",
)
"""Access of a principal: the rows of `iam access`."""

_WHO = (
    Column("type", "Type"),
    Column("name", "Name"),
    id_column("id", "ID"),
    Column("access", "Access", whole=True),
    Column("by", "By", cell=_by, sort=lambda record: _by(record) or None),
    Column("when", "When", wide=True, cell=_conditions_text, sort=lambda record: _conditions_text(record) or None),
)

WHO = Kind(
    "principal",
    "principals",
    "",
    _WHO,
    fields(_WHO, type="type", name="name", id="id", access="access", by="by"),
    "name",
)
"""Principals with access: the rows of `iam who`."""
