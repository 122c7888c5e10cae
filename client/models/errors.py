"""The two error envelopes. Only the flat one means that a resource does not exist."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from client.models.base import Wire


class ErrorBody(Wire):
    """An error. `required_permission` is in snake case on the wire."""

    code: str
    message: str
    details: dict[str, Any] | None = None
    operation_id: str | None = None
    required_permission: str | None = Field(default=None, alias="required_permission")
    hint: str | None = None


class NestedError(Wire):
    """The envelope of other errors: `{"error": {code, message, …}}`."""

    error: ErrorBody


class FlatError(Wire):
    """The envelope for a resource that does not exist."""

    code: str
    message: str
    details: dict[str, Any] | None = None
