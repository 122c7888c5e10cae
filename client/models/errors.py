"""The two error envelopes. Which one an answer has carries meaning: only the flat one says "there is no such resource".

Source: facts 1.7, 1.8.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from client.models.base import Wire


class ErrorBody(Wire):
    """What went wrong. `required_permission` keeps its name on the wire."""

    code: str
    message: str
    details: dict[str, Any] | None = None
    operation_id: str | None = None
    required_permission: str | None = Field(default=None, alias="required_permission")
    hint: str | None = None


class NestedError(Wire):
    """The envelope of refusals: `{"error": {code, message, …}}`."""

    error: ErrorBody


class FlatError(Wire):
    """The envelope of "this resource does not exist"."""

    code: str
    message: str
    details: dict[str, Any] | None = None
