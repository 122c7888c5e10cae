"""Groups of API keys and workload identities, their members, and workload identities."""

from __future__ import annotations

from client.models.base import Instant, Wire


class GroupMember(Wire):
    """A member in a group's response: `type` is api_key or workload_identity."""

    type: str
    id: str


class Group(Wire):
    """A group. `version` increases with each change; `policy_count` is the number of attached policies.

    `members` is set for a single group, not in lists. It has the first 200; `members_truncated` is true if there are
    more.
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
    """A member: `member_type` is api_key or workload_identity; `member_name` is empty if it has no name."""

    group_id: str
    member_type: str
    member_id: str
    member_name: str = ""
    added_at: Instant


class Binding(Wire):
    """A workload identity: a service account of a cluster. `inert`: it has neither scopes nor a policy."""

    id: str
    cluster_id: str = ""
    tenant_id: str = ""
    namespace: str
    service_account: str
    scopes: tuple[str, ...] = ()
    inert: bool = False
    created_at: Instant
    updated_at: Instant
