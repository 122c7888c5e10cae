"""Base of the wire models: camelCase members, instants and serialization. Also persons."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel


def instant_text(value: datetime) -> str:
    """Format as RFC 3339 in UTC with `Z`; milliseconds only if not zero (`2026-03-01T09:00:00.250Z`)."""
    text = value.astimezone(UTC).isoformat(timespec="milliseconds" if value.microsecond // 1000 else "seconds")
    return text.removesuffix("+00:00") + "Z"


def _utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


Instant = Annotated[AwareDatetime, AfterValidator(_utc), PlainSerializer(instant_text, when_used="json")]
"""An instant, converted to UTC."""


class Wire(BaseModel):
    """A JSON object of the API. Members are camelCase on the wire; unknown ones are ignored.

    Enumerations (`status`, `role`, `kind`) are plain text, so that values unknown to this version are kept.
    """

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True, defer_build=True
    )

    def wire(self) -> Mapping[str, Any]:
        """Return the JSON object with wire names; members that were not set are left out. Do not change it."""
        return self._wire

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values, and a JSON object of its own."""
        copy = super().model_copy(update=update, deep=deep)
        vars(copy).pop("_wire", None)
        return copy

    @cached_property
    def _wire(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Person(Wire):
    """A person, or a key acting for one; a key has no e-mail address."""

    id: str
    name: str = ""
    email: str = ""
