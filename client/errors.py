"""Errors of the client, and exit codes of its commands."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

SESSION_ENDED = "SESSION_ENDED"
"""Code of a session that cannot be refreshed. Other refresh errors do not replace the 401 response."""


class Exit(IntEnum):
    """Exit codes of commands."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    NOT_SIGNED_IN = 3
    NOT_ALLOWED = 4
    NOT_FOUND = 5
    CONFLICT = 6
    UNREACHABLE = 7
    INTERRUPTED = 130


class FrostError(Exception):
    """An expected error, with a message for the user and an exit code.

    Args:
        message: One line that names the invalid input, escaped for a terminal.
        code: The platform's error code, or one of the client's.
        hint: The next step for the user, often a command; empty if there is none.
        exit_code: The exit code of the command.
        request_id: `X-Request-Id` of the response; empty without a response.
        details: The `details` object of the response, not escaped for a terminal.
        status: The HTTP status; 0 without a response.
        operation_id: `operationId` of the error body: the running operation that conflicts.
        run_id: `runId` of the error body: the run of that operation.
        gone: True only for a 404 with a flat error body: the resource does not exist.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        hint: str = "",
        exit_code: Exit = Exit.REFUSED,
        request_id: str = "",
        details: Mapping[str, Any] | None = None,
        status: int = 0,
        operation_id: str = "",
        run_id: str = "",
        gone: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
        self.exit_code = exit_code
        self.request_id = request_id
        self.details = details
        self.status = status
        self.operation_id = operation_id
        self.run_id = run_id
        self.gone = gone

    def document(self) -> dict[str, Any]:
        """Return the output for `-o json`: `{"error": {code, message, hint, requestId, details}}`."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "hint": self.hint,
                "requestId": self.request_id,
                "details": dict(self.details or {}),
            }
        }


def usage(message: str, hint: str = "", *, code: str = "INVALID_USAGE") -> FrostError:
    """Return an error for invalid input (exit 2), found before a request was sent."""
    return FrostError(message, code=code, hint=hint, exit_code=Exit.USAGE)
