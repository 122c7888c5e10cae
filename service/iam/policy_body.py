"""Reads bodies that contain a policy document, and extracts the document as text.

Parsing the whole body would drop repeated members of the document, and would report lines and columns of the body.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from starlette.requests import Request

from client.models import strict_json
from client.models.strict_json import StrictJsonError
from service import errors
from service.api.request_body import parse_body, require_few_values, require_json

DOCUMENT = "document"
MAX_MEMBERS = 100
"""Limit on members that are searched for `document`."""
_SPACE = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True, slots=True)
class PolicyBody:
    """The members of a body; `document` is unparsed text."""

    name: str | None = None
    description: str | None = None
    document: str | None = None


async def policy_body(request: Request) -> PolicyBody:
    """Return the body of a route that writes a policy.

    Raises:
        ApiError: 415, or 400 INVALID_INPUT for an invalid object or an unknown member.
    """
    require_json(request)
    try:
        members, document = await parse_body(request, lambda body: split(body.decode("utf-8-sig")))
    except UnicodeDecodeError:
        raise errors.invalid_input("invalid request body: not UTF-8", reason="invalid_json") from None
    except StrictJsonError as error:
        raise errors.invalid_input(f"invalid request body: {error}", reason="invalid_json") from None
    return PolicyBody(document=document, **_texts(members))


def _texts(members: Mapping[str, Any]) -> dict[str, str]:
    texts = {}
    for name, value in members.items():
        if name not in ("name", "description"):
            raise errors.invalid_input(
                f'invalid request body: unknown member "{name}"', member=name, reason="unknown_member"
            )
        if not isinstance(value, str):
            raise errors.invalid_input(f'"{name}" must be a string', member=name, reason="string_type")
        texts[name] = value
    return texts


def split(text: str) -> tuple[dict[str, Any], str | None]:
    """Return the members of a strict JSON object without `document`, and the text of `document`.

    The text of an invalid document extends to the end of the body; the document parser reports its error.

    Raises:
        StrictJsonError: the text around the document is not a strict JSON object.
        ApiError: 400 INVALID_INPUT for too many values around the document.
    """
    span = _find_document(text)
    around = text
    if span is None:
        document = None
    else:
        begin, end = span
        # The end of an invalid document is unknown.
        rest, document = ("}", text[begin:]) if end is None else (text[end:], text[begin:end])
        around = f"{text[:begin]}null{rest}"
    members = strict_json.loads(around)
    require_few_values(members, around)
    if not isinstance(members, dict):
        raise StrictJsonError("a JSON object is required")
    if document is not None:
        del members[DOCUMENT]
    return members, document


def _find_document(text: str) -> tuple[int, int | None] | None:
    """Return the start and end of the value of `document`; the end is None if it is invalid JSON."""
    span: tuple[int, int] | None = None
    decoder = json.JSONDecoder()
    at = _space(text, 0)
    mark = "{"
    for _ in range(MAX_MEMBERS):
        if not text.startswith(mark, at):
            break
        at = _space(text, at + 1)
        if not text.startswith('"', at):
            break
        begin = 0
        name = ""
        try:
            name, at = scanstring(text, at + 1, True)
            at = _space(text, at)
            if not text.startswith(":", at):
                break
            begin = at = _space(text, at + 1)
            _, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return (begin, None) if name == DOCUMENT and span is None else span
        if name == DOCUMENT:
            if span is not None:
                return None
            span = (begin, at)
        at = _space(text, at)
        mark = ","
    return span


def _space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()
