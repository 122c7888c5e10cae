"""Checks whether an author may change groups or policies, for the change and for its preview.

The checks raise `ApiError`: 403 POLICY_EXCEEDS_AUTHOR or PRINCIPAL_EXCEEDS_AUTHOR.
"""

from collections.abc import Sequence

from sqlalchemy import Connection

from service.db.engine import Record
from service.iam import author_check, group_queries, policy_queries, representations
from service.iam.author_check import Author
from service.iam.policy_documents import Draft


def check_attach(connection: Connection, author: Author, policy: Record, kind: str, attachee_id: str) -> None:
    """Refuse a policy beyond the author's rights, or an attachee with more rights than the author."""
    author_check.require_within(author, Draft.stored(policy.document), policyId=policy.id, policyName=policy.name)
    author_check.require_authority_over(connection, author, affected_by_attachment(connection, kind, attachee_id))


def check_add_member(connection: Connection, author: Author, group_id: str, kind: str, member_id: str) -> None:
    """Refuse group policies beyond the author's rights, or a member with more rights than the author."""
    for row in policy_queries.attached_to(connection, author.tenant_id, "group", group_id):
        author_check.require_within(author, Draft.stored(row.document), policyId=row.id, policyName=row.name)
    author_check.require_authority_over(connection, author, [(kind, member_id)])


def check_remove_members(
    connection: Connection, author: Author, group: Record, members: Sequence[tuple[str, str]]
) -> None:
    """Require authority over the removed members of a group with policies."""
    if group.policy_count:
        author_check.require_authority_over(connection, author, members)


def check_update(connection: Connection, author: Author, before: Record, draft: Draft) -> None:
    """Refuse a new version of a policy beyond the author's rights, even with the same document."""
    if draft.canonical_text == before.document:
        author_check.require_within_unchanged(author, draft)
    else:
        author_check.require_within(author, draft)
    if _has_denies(Draft.stored(before.document)) or _has_denies(draft):
        # Removing a deny may allow operations, adding a deny may disable a principal.
        check_affected_principals(connection, author, before.id)


def check_affected_principals(connection: Connection, author: Author, policy_id: str) -> None:
    author_check.require_authority_over(
        connection, author, policy_queries.affected_principals(connection, author.tenant_id, policy_id)
    )


def affected_by_attachment(connection: Connection, kind: str, attachee_id: str) -> list[tuple[str, str]]:
    return group_queries.members(connection, attachee_id) if kind == "group" else [(kind, attachee_id)]


def _has_denies(draft: Draft) -> bool:
    """Return whether a document has denies; an unreadable document denies everything."""
    if draft.document is not None:
        return not draft.document.rules or any(rule.effect != "allow" for rule in draft.document.rules)
    rules = representations.document(draft.canonical_text).get("rules")
    if not isinstance(rules, list) or not rules:
        return True
    return not all(isinstance(rule, dict) and rule.get("access") == "allow" for rule in rules)
