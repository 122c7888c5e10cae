"""Entries of the audit log: who did what, or tried to."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from client.models.base import Instant, Wire


class Actor(Wire):
    """Who answers for what was done; `name` and `email` are of a person who belongs to the organization.

    `kind` is session, api_key, workload, staff, platform or anonymous.
    """

    kind: str
    id: str = ""
    name: str | None = None
    email: str | None = None


class Entry(Wire):
    """One entry. `target` is as it was written: `policy:ID`, or of a refused request the path that was asked for.

    `target_kind` and `target_id` say what thing that is, and names are of what is still there; `credential_name` is
    that of a key or an identity. `outcome` is done, refused or failed; `details` are facts about the change.
    """

    id: str
    at: Instant
    request_id: str = ""
    actor: Actor
    credential_id: str | None = None
    credential_name: str | None = None
    operation: str
    target: str = ""
    target_kind: str | None = None
    target_id: str | None = None
    target_name: str | None = None
    outcome: str
    details: dict[str, Any] = Field(default_factory=dict)
