"""Computes the effect of a change of groups or policies without applying it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from client.policy.document import InvalidDocument
from client.policy.engine import GrantedRule
from client.policy.engine import granted_rules as rules_of
from service import errors
from service.authz.decisions import CatalogueSnapshot, PolicyEngineCache, role_engine
from service.db.engine import Record
from service.errors import ApiError
from service.iam import affected_principals, attachments, author_check, effective_access, group_queries, policy_queries
from service.iam.author_check import Author
from service.iam.effective_access import GrantParts
from service.iam.policy_documents import Draft
from service.principals import queries
from service.principals.queries import TenantPrincipal

MAX_PRINCIPALS = 500
# The required members of the request, by kind of change.
NEEDS: Mapping[str, frozenset[str]] = {
    "attach": frozenset({"policyId", "principalType", "principalId"}),
    "detach": frozenset({"policyId", "principalType", "principalId"}),
    "addMember": frozenset({"groupId", "principalType", "principalId"}),
    "removeMember": frozenset({"groupId", "principalType", "principalId"}),
    "deleteGroup": frozenset({"groupId"}),
    "deletePolicy": frozenset({"policyId"}),
    "updatePolicy": frozenset({"policyId", "documentText"}),
}

Reached = set[str | None]
"""Paths of a policy to a principal: a group's id, or None for a direct attachment."""


@dataclass(frozen=True, slots=True)
class Change:
    """A planned change; `role` is that of its author."""

    kind: str
    policy_id: str | None
    group_id: str | None
    principal_type: str | None
    principal_id: str | None
    draft: Draft | None
    role: str | None


def effects_of(
    connection: Connection, decisions: PolicyEngineCache, tenant_id: str, change: Change, at: datetime
) -> dict[str, Any]:
    """Return the operations that each affected key and identity gains and loses.

    Raises:
        ApiError: 400 TOO_MANY_PRINCIPALS for more than 500 keys and identities.
    """
    affected = _affected_principals(connection, tenant_id, change)
    if len(affected) > MAX_PRINCIPALS:
        raise ApiError(
            400, "TOO_MANY_PRINCIPALS", f"the change affects {len(affected)} keys and identities", details={"max": 500}
        )
    catalogue = decisions.catalogue(connection)
    library = _PolicyRules(connection, tenant_id, catalogue, change)
    effects = []
    for kind, identifier in affected:
        principal = queries.get_principal(connection, tenant_id, kind, identifier, at)
        before = {
            policy: {None if group is None else str(group.id) for group in groups}
            for policy, groups in queries.paths(connection, tenant_id, kind, identifier).items()
        }
        after = _after(connection, tenant_id, before, change)
        parts = effective_access.load_parts(decisions.compiled(connection, principal.grants))
        then = library.parts(principal, parts, after)
        ungranted = kind == "workload_identity" and not principal.grants.scopes and not after
        effects.append(
            principal.wire()
            | effective_access.difference(catalogue, tenant_id, parts, then)
            | {"inert": ungranted, "policiesBefore": len(before), "policiesAfter": len(after)}
        )
    return {"principals": effects}


def require_permitted(
    connection: Connection, author: Author, change: Change, effect: Sequence[Mapping[str, Any]]
) -> None:
    """Refuse a planned change with the error of the change; `effect` is from `effects_of`."""
    tenant_id, touched = author.tenant_id, [(str(one["type"]), str(one["id"])) for one in effect]
    _require_relation(connection, tenant_id, change)
    policy = policy_queries.get(connection, tenant_id, change.policy_id) if change.policy_id else None
    if change.kind in ("removeMember", "deleteGroup"):
        group = group_queries.get(connection, tenant_id, str(change.group_id))
        assert group is not None
        affected_principals.check_remove_members(connection, author, group, touched)
    elif change.kind == "addMember":
        affected_principals.check_add_member(
            connection, author, str(change.group_id), str(change.principal_type), str(change.principal_id)
        )
    elif change.kind == "attach":
        assert policy is not None
        affected_principals.check_attach(
            connection, author, policy, str(change.principal_type), str(change.principal_id)
        )
    elif change.kind == "updatePolicy":
        assert policy is not None
        if change.draft not in (None, Draft.stored(policy.document)):
            affected_principals.check_update(connection, author, policy, change.draft)
    else:
        author_check.require_authority_over(connection, author, touched)
        if change.kind == "detach":
            attachments.last_grant_error(
                sorted(str(one["id"]) for one in effect if one["inert"] and one["policiesBefore"])
            )


def _require_relation(connection: Connection, tenant_id: str, change: Change) -> None:
    """Refuse the removal of a membership or an attachment that does not exist, with the flat 404."""
    kind, identifier = str(change.principal_type), str(change.principal_id)
    if change.kind == "removeMember":
        exists = group_queries.is_member(connection, str(change.group_id), kind, identifier)
    elif change.kind == "detach":
        exists = policy_queries.attached(connection, tenant_id, str(change.policy_id), kind, identifier)
    else:
        return
    if not exists:
        raise errors.not_found()


def _affected_principals(connection: Connection, tenant_id: str, change: Change) -> list[tuple[str, str]]:
    if change.kind in ("deletePolicy", "updatePolicy"):
        return policy_queries.affected_principals(connection, tenant_id, str(change.policy_id))
    if change.kind == "deleteGroup":
        return group_queries.members(connection, str(change.group_id))
    if change.principal_type == "group":
        return group_queries.members(connection, str(change.principal_id))
    return [(str(change.principal_type), str(change.principal_id))]


def _after(connection: Connection, tenant_id: str, before: Mapping[str, Reached], change: Change) -> dict[str, Reached]:
    after = {policy: set(reached) for policy, reached in before.items()}
    by = change.principal_id if change.principal_type == "group" else None
    if change.kind == "attach":
        after.setdefault(str(change.policy_id), set()).add(by)
    elif change.kind == "detach":
        after.get(str(change.policy_id), set()).discard(by)
    elif change.kind == "deletePolicy":
        after.pop(str(change.policy_id), None)
    elif change.kind == "addMember":
        for row in policy_queries.attached_to(connection, tenant_id, "group", str(change.group_id)):
            after.setdefault(row.id, set()).add(change.group_id)
    elif change.kind in ("removeMember", "deleteGroup"):
        for reached in after.values():
            reached.discard(change.group_id)
    return {policy: reached for policy, reached in after.items() if reached}


class _PolicyRules:
    """The rules of stored policies after the change, each read once."""

    def __init__(self, connection: Connection, tenant_id: str, catalogue: CatalogueSnapshot, change: Change) -> None:
        self.connection = connection
        self.tenant_id = tenant_id
        self.catalogue = catalogue
        self.change = change
        self.read: dict[str, list[GrantedRule] | None] = {}

    def parts(self, principal: TenantPrincipal, now: GrantParts, policies: Mapping[str, Reached]) -> GrantParts:
        if not policies:
            ungranted = principal.kind == "workload_identity" and principal.grants.scopes is None
            return GrantParts(now.scopes, now.role, () if ungranted else None)
        rules: list[GrantedRule] = []
        unreadable = False
        for policy in sorted(policies):
            granted = self.rules(policy)
            unreadable |= granted is None
            rules += granted or ()
        return GrantParts(now.scopes, now.role, tuple(rules), unreadable)

    def rules(self, policy_id: str) -> list[GrantedRule] | None:
        """Return rules limited by their author's role; None if the policy is unreadable."""
        if policy_id not in self.read:
            row: Record | None = policy_queries.get(self.connection, self.tenant_id, policy_id)
            assert row is not None
            draft, role = Draft.stored(row.document), row.author_role
            # An unchanged document keeps its author.
            if policy_id == self.change.policy_id and self.change.draft not in (None, draft):
                draft, role = self.change.draft, self.change.role
            try:
                document = draft.read(self.catalogue)
                self.read[policy_id] = rules_of(document, policy_id, row.name, role_engine(role))
            except InvalidDocument:
                self.read[policy_id] = None
        return self.read[policy_id]
