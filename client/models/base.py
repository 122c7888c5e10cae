"""What every wire model has in common: camelCase members, instants, and the way back to the wire."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel


def instant_text(value: datetime) -> str:
    """RFC 3339 in UTC with `Z`; milliseconds only when there are any (`2026-03-01T09:00:00.250Z`)."""
    text = value.astimezone(UTC).isoformat(timespec="milliseconds" if value.microsecond // 1000 else "seconds")
    return text.removesuffix("+00:00") + "Z"


def _utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


Instant = Annotated[AwareDatetime, AfterValidator(_utc), PlainSerializer(instant_text, when_used="json")]
"""A point in time; always UTC after reading."""


class Wire(BaseModel):
    """A record as it travels: members are camelCase on the wire, unknown ones are ignored (checklist G45).

    Values with a fixed vocabulary (`status`, `role`, `kind`) are plain text, so that one unknown to this version is
    kept as sent.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True, defer_build=True
    )

    def wire(self) -> dict[str, Any]:
        """The record as JSON values under its wire names; members that were never given are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)
