"""The wire form of groups, policies, traces and counterexamples."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from ipaddress import IPv4Address, IPv6Address
from math import isfinite
from typing import Any, NoReturn

from client.policy.containment import Counterexample
from client.policy.model import Constraint, Document, RequestContext
from service.clock import wire_time
from service.db.engine import Record


def group(row: Record) -> dict[str, Any]:
    return {
        "id": row.id,
        "tenantId": row.tenant_id,
        "name": row.name,
        "description": row.description,
        "version": row.version,
        "memberCount": row.member_count,
        "policyCount": row.policy_count,
        "createdAt": wire_time(row.created_at),
        "updatedAt": wire_time(row.updated_at),
    }


def whole_group(row: Record, members: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Return a group with its first members as (type, id)."""
    return {
        **group(row),
        "members": [{"type": kind, "id": identifier} for kind, identifier in members],
        "membersTruncated": len(members) < row.member_count,
    }


def member(row: Record) -> dict[str, Any]:
    return {
        "groupId": row.group_id,
        "memberType": row.member_type,
        "memberId": row.member_id,
        "memberName": row.principal_name or "",
        "addedAt": wire_time(row.added_at),
    }


def document(text: str) -> dict[str, Any]:
    """Return a stored document; empty if it is unreadable.

    The standard parser accepts more than JSON (NaN, numbers of any length, lone surrogates), which cannot be sent.
    """
    try:
        value = _decode(text)
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _finite(text: str) -> float:
    value = float(text)
    return value if isfinite(value) else _refuse_constant(text)


# `json.loads` would make a decoder for each document of a page.
_decode = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite).decode


def policy(row: Record) -> dict[str, Any]:
    return {
        "id": row.id,
        "tenantId": row.tenant_id,
        "name": row.name,
        "description": row.description,
        "document": document(row.document),
        "authoredBy": row.authored_by,
        "author": {"id": row.authored_by, "name": row.author_name, "email": row.author_email},
        "orphaned": row.author_role is None,
        "version": row.version,
        "attachmentCount": row.attachment_count,
        "createdAt": wire_time(row.created_at),
        "updatedAt": wire_time(row.updated_at),
    }


def version(row: Record) -> dict[str, Any]:
    return {
        "policyId": row.policy_id,
        "name": row.name,
        "description": row.description,
        "document": document(row.document),
        "authoredBy": row.authored_by,
        **change(row),
        "rolledBackTo": row.rolled_back_to,
    }


def change(row: Record) -> dict[str, Any]:
    """Return the changes of a version, without the document."""
    return {
        "version": row.version,
        "changedBy": row.changed_by,
        "changedByName": row.changed_by_name,
        "changedAt": wire_time(row.changed_at),
        "change": row.change,
        "changed": row.changed,
    }


def attachment(row: Record) -> dict[str, Any]:
    return {
        "policyId": row.policy_id,
        "attacheeType": row.attachee_type,
        "attacheeId": row.attachee_id,
        "attacheeName": row.principal_name or "",
        "attachedAt": wire_time(row.attached_at),
    }


def binding(row: Record, granted: bool) -> dict[str, Any]:
    """Return a workload identity; it is inert without scopes and policies."""
    return {
        "id": row.id,
        "clusterId": row.cluster_id,
        "tenantId": row.tenant_id,
        "namespace": row.namespace,
        "serviceAccount": row.service_account,
        "scopes": row.scopes,
        "inert": not row.scopes and not granted,
        "createdAt": wire_time(row.created_at),
        "updatedAt": wire_time(row.updated_at),
    }


def counterexample(example: Counterexample, document: Document) -> dict[str, Any]:
    """Return a request that the draft would allow and its author may not make.

    Sent to simulate, it is allowed by the draft and denied by the author's rules. An operation that does not exist
    yet cannot be sent: the example is `future`, and is returned only if there is no other.
    """
    denied = example.author_deny
    if example.future:
        missing = "region" if example.new_region else "operation"
        why = f"the draft grants more than you have once a new {missing} exists"
    elif denied is not None:
        why = f"you are denied this by rule {denied.index + 1} of {denied.policy_name}"
    else:
        why = "you do not have this permission"
    index = example.draft_rule.index
    request_facts = facts(example.request.context)
    if example.time_unknown:
        # A missing member would mean the current time.
        request_facts["currentTime"] = None
    return {
        "operation": example.request.operation,
        "target": example.request.target,
        "facts": request_facts,
        "ruleIndex": index,
        "ruleName": document.rules[index].name,
        "why": why,
        "deniedBy": denied
        and {"policyId": denied.policy_id, "policyName": denied.policy_name, "ruleIndex": denied.index},
        "future": example.future,
    }


def facts(facts: RequestContext) -> dict[str, Any]:
    """Return a request context without unknown members, as simulate reads it."""
    members: dict[str, Any] = {}
    if facts.source_ip is not None:
        family, number = facts.source_ip
        members["sourceIp"] = str(IPv4Address(number) if family == 4 else IPv6Address(number))
    if facts.current_time is not None:
        # With microseconds: a truncated time may be on the other side of a limit.
        instant = datetime.fromtimestamp(facts.current_time, UTC)
        members["currentTime"] = instant.isoformat().removesuffix("+00:00") + "Z"
    texts = {"region": facts.region, "principalType": facts.principal_type, "tenant": facts.tenant}
    members |= {name: text for name, text in texts.items() if text is not None}
    for name, tags in (("requestTags", facts.request_tags), ("resourceTags", facts.resource_tags)):
        if tags is not None:
            members[name] = dict(tags)
    return members


def constraint(one: Constraint) -> dict[str, Any]:
    return {"operator": one.operator, "key": one.key, "values": list(one.values)}
