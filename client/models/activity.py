"""Entries of the audit log."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from client.models.base import Instant, Wire


class Actor(Wire):
    """The principal of an entry. `name` and `email` are set for a person who belongs to the organization.

    `kind` is session, api_key, workload, staff, platform or anonymous.
    """

    kind: str
    id: str = ""
    name: str | None = None
    email: str | None = None


class Entry(Wire):
    """An entry. `target` is the recorded text: `policy:ID`, or the path of a refused request.

    `target_kind` and `target_id` identify the target. Names are those of objects that still exist; `credential_name` is
    the name of a key or workload identity. `outcome` is done, refused or failed; `details` describe the change.
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
