"""A tenant's default tags, their versions, and the results of applying them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from client.models.apply_counts import separate_unlisted
from client.models.base import Instant, Person, Wire
from client.models.tenants import Operation


class DefaultTags(Wire):
    """The current tags. Their version is sent as the ETag."""

    tags: dict[str, str]


class TagVersion(Wire):
    """The tags from `changed_at` on; `changed_by` is None if unknown."""

    version: int
    tags: dict[str, str]
    changed_at: Instant
    changed_by: Person | None = None
    current: bool = False


class Counts(Wire):
    """Numbers of examined resources, in total and by outcome, and of types that could not be listed (`unlisted`)."""

    examined: int = 0
    updated: int = 0
    unchanged: int = 0
    skipped: int = 0
    failed: int = 0
    unlisted: int = 0

    @model_validator(mode="before")
    @classmethod
    def _separate_unlisted(cls, counts: Any) -> Any:
        return separate_unlisted(counts) if isinstance(counts, Mapping) else counts


class Untouched(Wire):
    """A resource that failed or was skipped; the set of reasons is open.

    An empty `resource_id` means a whole type that could not be listed. Only failures have a `message`.
    """

    resource_type: str
    resource_id: str = ""
    resource_name: str = ""
    reason: str
    message: str = ""


class ApplyResult(Wire):
    """The result of an apply or a preview. In a preview, `updated` are the resources that would change.

    The counts are complete; `failures` and `skipped` have at most 200 items, with a flag if truncated. `affected`, only
    in previews, has by type and key the number of resources without the key.
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
    """The progress of an apply, from `counts` of its operation; `totals` are the numbers of resources to examine."""

    summary: Counts
    by_type: dict[str, Counts] = Field(default_factory=dict)
    totals: dict[str, int] = Field(default_factory=dict)


class ApplyOperation(Operation):
    """An apply or undo, with its result and the progress until then."""

    result: ApplyResult | None = None
    counts: ApplyProgress | None = None

    @property
    def numbers(self) -> ApplyResult | ApplyProgress | None:
        """The result, else the progress; None if both are unknown."""
        return self.result or self.counts


class ApplyStarted(Wire):
    """A started run. All runs of a tenant share `operation_id`; `run_id` identifies the run."""

    operation_id: str
    run_id: str = ""
    status: str = ""
    resource_type: str = ""
    created_at: Instant | None = None

    @property
    def operation(self) -> ApplyOperation:
        """The run as an operation that was not read yet."""
        return ApplyOperation(
            operation_id=self.operation_id,
            run_id=self.run_id or self.operation_id,
            status=self.status or "pending",
            created_at=self.created_at,
        )


class ApplyRun(Wire):
    """One of a tenant's last runs. `kind` is apply or undo; `undone_by` is the run that undid it."""

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

    @property
    def operation(self) -> ApplyOperation:
        """The run as an operation that was not read yet."""
        return ApplyOperation(
            operation_id="", run_id=self.run_id, kind=self.kind, status=self.status, started_at=self.started_at
        )
