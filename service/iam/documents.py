"""Policy documents as requests bring them: read strictly, or refused with every problem and its place."""

from typing import Any

from service import errors
from service.access.decisions import Known
from service.errors import Refusal
from service.platform import Platform
from service.policy.document import DocumentRefused, Reading, read
from service.policy.problems import Problem


def read_document(platform: Platform, known: Known, text: str) -> Reading:
    """The document of a text.

    Raises:
        Refusal: 400 INVALID_POLICY_DOCUMENT with the problems in the order of the text.
    """
    try:
        return read(text, known.catalogue, region_targets=platform.settings.region_targets)
    except DocumentRefused as refused:
        raise Refusal(
            400,
            "INVALID_POLICY_DOCUMENT",
            f"the policy document is refused: {refused}",
            details={"problems": [problem(one) for one in refused.problems]},
            hint="mend the document at the place that is named and send it again",
        ) from None


def problem(found: Problem) -> dict[str, Any]:
    """A problem on the wire."""
    return {
        "path": found.path,
        "line": found.line,
        "column": found.column,
        "reason": found.reason,
        "suggestions": list(found.suggestions),
    }


def required(text: str | None) -> str:
    """A document that must be there."""
    if text is None:
        raise errors.invalid_input('"document" is required', member="document", reason="missing")
    return text
