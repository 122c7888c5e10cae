"""Access policies, groups, workload identities, the catalogue, and the results of access reviews."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from client.models.base import Instant, Wire


class Author(Wire):
    """The person on whose authority a policy grants permissions."""

    id: str
    name: str = ""
    email: str = ""


class Policy(Wire):
    """A policy. `orphaned`: its author has no access to the tenant any more, so its allow rules have no effect."""

    id: str
    tenant_id: str = ""
    name: str
    description: str = ""
    document: dict[str, Any]
    authored_by: str = ""
    author: Author | None = None
    orphaned: bool = False
    version: int = 1
    attachment_count: int = 0
    created_at: Instant
    updated_at: Instant


class PolicyVersion(Wire):
    """A policy's version. `change` is create, update or rollback; `changed` are the members that differ from before."""

    policy_id: str
    version: int
    name: str = ""
    description: str = ""
    document: dict[str, Any]
    authored_by: str = ""
    changed_by: str = ""
    changed_by_name: str = ""
    changed_at: Instant
    change: str = ""
    changed: tuple[str, ...] = ()
    rolled_back_to: int | None = None


class Attachment(Wire):
    """A policy's attachment. `attachee_type` is api_key, workload_identity or group."""

    policy_id: str
    attachee_type: str
    attachee_id: str
    attachee_name: str = ""
    attached_at: Instant


class GroupMember(Wire):
    """A member in a group's response: `type` is api_key or workload_identity."""

    type: str
    id: str


class Group(Wire):
    """A group. `version` increases with each change; `policy_count` is the number of attached policies.

    `members` is set for a single group, not in lists. It has the first 200; `members_truncated` is true if it has
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


class CatalogueOperation(Wire):
    """An operation of a service, such as `compute:instances:start`.

    `access_level` is read, write, list or permission.
    """

    name: str
    access_level: str = ""
    description: str = ""


class Access(TypedDict):
    """The operations that a principal may use, with the groups, policies and rules that allow each."""

    principal: dict[str, Any]
    limits: NotRequired[list[dict[str, Any]]]
    policies: list[dict[str, Any]]
    operations: list[dict[str, Any]]


class AllowedPrincipals(TypedDict):
    """The principals that may use an operation on a target; `conditional` depends on unknown facts.

    The lists are truncated; `total` and `conditionalTotal` are the numbers of all, `examined` that of all principals.
    """

    principals: list[dict[str, Any]]
    total: int
    conditional: NotRequired[list[dict[str, Any]]]
    conditionalTotal: NotRequired[int]
    examined: int
