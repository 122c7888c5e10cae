"""Every expected failure of the client, and the exit code it ends a command with.

Source: design: Command line (exit codes), checklist G40, G41; contract: platform facts 1.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

SESSION_ENDED = "SESSION_ENDED"
"""The code of a session that cannot be refreshed any more: the only refresh failure that replaces a 401 (facts 1.5)."""


class Exit(IntEnum):
    """How a command ends (design: Command line)."""

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
    """A failure that was foreseen: what happened, what to do next, and how a command ends.

    Args:
        message: One line that names the input at fault; already safe for a terminal.
        code: The platform's code as sent, or one of the client's own.
        hint: The next thing to do, often a command; empty when there is none.
        exit_code: How a command ends with this failure.
        request_id: `X-Request-Id` of the answer, empty when nothing was answered.
        details: The `details` object of the answer, as sent: not safe to print.
        status: HTTP status, 0 when nothing was answered.
        operation_id: `operationId` beside the code (a conflict with a running operation).
        run_id: `runId` beside it: the very run, where the operation's id is that of all runs.
        gone: True only for a flat 404: the platform's word that the resource does not exist (facts 1.7).
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
        """`{"error": {code, message, hint, requestId, details}}`: what `-o json` prints of it (checklist G40)."""
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
    """A mistake that was found before anything was sent (exit 2)."""
    return FrostError(message, code=code, hint=hint, exit_code=Exit.USAGE)
