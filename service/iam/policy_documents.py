"""Policy documents: strict parsing, with the problems and their positions, and bodies that contain a document.

A body's document is extracted as text: parsing the whole body would drop repeated members of the document, and would
report lines and columns of the body.
"""

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Self

from starlette.requests import Request

from client.models import strict_json
from client.models.strict_json import StrictJsonError
from client.policy.document import (
    MAX_BYTES,
    InvalidDocument,
    ParsedDocument,
    RegionTargets,
    canonical_text,
    parse_document,
)
from client.policy.model import Document
from client.policy.problems import Problem
from service import errors
from service.api.request_body import parse_body, require_few_values, require_json
from service.authz.decisions import CatalogueSnapshot
from service.context import Platform
from service.errors import ApiError

MAX_CACHED_CHARACTERS = 2 * 1024 * 1024
"""Limit on the text of all cached documents; a parsed document takes up to ten times its text."""
MAX_CACHED_DOCUMENTS = 2_000
"""A small document takes 1.2 KB, so the limit on text alone would allow 20 MiB of them."""
DOCUMENT = "document"
MAX_MEMBERS = 100
"""Limit on members that are searched for `document`."""
_SPACE = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True, slots=True)
class Draft:
    """A policy document in canonical form, compared by its digest; `document` is None until it is parsed."""

    document: Document | None = field(compare=False, repr=False)
    canonical_text: str = field(compare=False, repr=False)
    digest: bytes

    @classmethod
    def of(cls, document: Document) -> Self:
        text = canonical_text(document)
        encoded = text.encode()
        # The canonical form may be longer than the request. Beyond the limit it cannot be read later.
        return cls(document if len(encoded) <= MAX_BYTES else None, text, sha256(encoded).digest())

    @classmethod
    def stored(cls, text: str) -> Self:
        """Return the draft of a document that is parsed on demand."""
        return cls(None, text, sha256(text.encode()).digest())

    def read(self, catalogue: CatalogueSnapshot) -> Document:
        """Parse the document on demand. Raises `InvalidDocument` if a stored document is no longer valid."""
        return self.document or read_stored(self.canonical_text, catalogue)


def read_document(platform: Platform, catalogue: CatalogueSnapshot, text: str) -> ParsedDocument:
    """Parse a document. Raises `ApiError`: 400 INVALID_POLICY_DOCUMENT with the problems in text order."""
    try:
        return _CACHE.read(text, catalogue, platform.settings.region_targets)
    except InvalidDocument as refused:
        raise ApiError(
            400,
            "INVALID_POLICY_DOCUMENT",
            f"the policy document is refused: {refused}",
            details={"problems": [problem(one) for one in refused.problems]},
            hint="fix the document at the given position and send it again",
        ) from None


def read_stored(text: str, catalogue: CatalogueSnapshot) -> Document:
    """Parse a canonical text. Raises `InvalidDocument` if the document is no longer valid."""
    return _CACHE.read(text, catalogue, "accept").document


class ReadingCache:
    """The latest parsed documents by text: an editor sends the same text with each request."""

    def __init__(self, max_characters: int = MAX_CACHED_CHARACTERS, max_documents: int = MAX_CACHED_DOCUMENTS) -> None:
        self.max_characters = max_characters
        self.max_documents = max_documents
        self.characters = 0
        self._lock = threading.Lock()
        self._readings: OrderedDict[tuple[str, CatalogueSnapshot, RegionTargets], ParsedDocument] = OrderedDict()

    def read(self, text: str, catalogue: CatalogueSnapshot, region_targets: RegionTargets) -> ParsedDocument:
        """Return the parsed document of a text. Raises `InvalidDocument`; errors are not cached."""
        key = (text, catalogue, region_targets)
        with self._lock:
            reading = self._readings.get(key)
            if reading is not None:
                self._readings.move_to_end(key)
                return reading
        reading = parse_document(text, catalogue.operations, region_targets=region_targets)
        self.add(text, catalogue, region_targets, reading)
        return reading

    def add(
        self, text: str, catalogue: CatalogueSnapshot, region_targets: RegionTargets, reading: ParsedDocument
    ) -> None:
        key = (text, catalogue, region_targets)
        with self._lock:
            if key not in self._readings:
                self._readings[key] = reading
                self.characters += len(text)
            while self.characters > self.max_characters or len(self._readings) > self.max_documents:
                (oldest, _, _), _ = self._readings.popitem(last=False)
                self.characters -= len(oldest)


_CACHE = ReadingCache()


def problem(entry: Problem) -> dict[str, Any]:
    return {
        "path": entry.path,
        "line": entry.line,
        "column": entry.column,
        "reason": entry.reason,
        "suggestions": list(entry.suggestions),
    }


def required(text: str | None) -> str:
    if text is None:
        raise errors.invalid_input('"document" is required', member="document", reason="missing")
    return text


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
