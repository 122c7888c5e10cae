"""Groups of keys and identities, and their members. Source: contract: Group."""

from __future__ import annotations

from client.models.base import Instant, Wire


class GroupMember(Wire):
    """A member as its group names it: `type` is api_key or workload_identity."""

    type: str
    id: str


class Group(Wire):
    """A group; `version` counts its changes, `policy_count` the policies attached to it.

    `members` comes with a single group, not in lists. It holds the first 200; `members_truncated` is true when there
    are more.
    """

    id: str
    tenant_id: str = ""
    name: str
    description: str = ""
    version: int = 1
    member_count: int = 0
    policy_count: int = 0
    members: tuple[GroupMember, ...] | None = None
    members_truncated: bool | None = None
    created_at: Instant
    updated_at: Instant


class Member(Wire):
    """A member: `member_type` is api_key or workload_identity; its name is empty when it has none."""

    group_id: str
    member_type: str
    member_id: str
    member_name: str = ""
    added_at: Instant
