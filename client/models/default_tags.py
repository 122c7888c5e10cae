"""Default tags of a tenant, what they were, and what an apply of them did. Source: facts 2.7, 2.8; contract: tenant."""

from __future__ import annotations

from pydantic import Field

from client.models.base import Instant, Wire
from client.models.people import Person


class DefaultTags(Wire):
    """The set as it is. `version` is what a write is made from; it travels as the ETag and not in the body."""

    tags: dict[str, str]
    version: int | None = None


class TagVersion(Wire):
    """What the set was from `changed_at` on; `changed_by` is None where nobody is known."""

    version: int
    tags: dict[str, str]
    changed_at: Instant
    changed_by: Person | None = None
    current: bool = False


class Counts(Wire):
    """How many resources were looked at, and what became of them."""

    examined: int = 0
    updated: int = 0
    unchanged: int = 0
    skipped: int = 0
    failed: int = 0


class Untouched(Wire):
    """A resource that failed or was skipped, and why: `reason` is of an open set.

    An empty `resource_id` is a whole type that could not be listed; `message` comes with failures only.
    """

    resource_type: str
    resource_id: str = ""
    resource_name: str = ""
    reason: str
    message: str = ""


class ApplyResult(Wire):
    """What an apply did, or in a preview would do: `updated` are then the resources that would change.

    The counts are true; `failures` and `skipped` hold at most 200 each, and say so when there were more. `affected`
    comes with a preview: by type and key, how many resources lack the key.
    """

    applied_tags: dict[str, str] = Field(default_factory=dict)
    summary: Counts
    by_type: dict[str, Counts] = Field(default_factory=dict)
    failures: tuple[Untouched, ...] = ()
    failures_truncated: bool = False
    skipped: tuple[Untouched, ...] = ()
    skipped_truncated: bool = False
    affected: dict[str, dict[str, int]] = Field(default_factory=dict)


class ApplyProgress(Wire):
    """What a running apply has counted so far: `counts` of its operation; `totals` are what it found to go through."""

    summary: Counts
    by_type: dict[str, Counts] = Field(default_factory=dict)
    totals: dict[str, int] = Field(default_factory=dict)


class ApplyStarted(Wire):
    """A run that was begun. `operation_id` is that of all runs of a tenant, `run_id` that of this one."""

    operation_id: str
    run_id: str = ""
    status: str = ""
    resource_type: str = ""
    created_at: Instant | None = None


class ApplyRun(Wire):
    """One of a tenant's last runs. `kind` is apply or undo; an undone one names the run that undid it."""

    run_id: str
    kind: str = "apply"
    status: str
    started_at: Instant | None = None
    completed_at: Instant | None = None
    applied_tags: dict[str, str] = Field(default_factory=dict)
    summary: Counts | None = None
    started_by: Person | None = None
    undoable: bool = False
    undone_by: str | None = None
    undoes: str | None = None
