"""Access policies, their versions and attachments."""

from __future__ import annotations

from typing import Any

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
