"""Parses policy documents strictly; errors list the problems with their positions."""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Self

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
from service.authz.decisions import CatalogueSnapshot
from service.context import Platform
from service.errors import ApiError

MAX_CACHED_CHARACTERS = 2 * 1024 * 1024
"""Limit on the text of all cached documents; a parsed document takes up to ten times its text."""


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

    def __init__(self, max_characters: int = MAX_CACHED_CHARACTERS) -> None:
        self.max_characters = max_characters
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
            while self.characters > self.max_characters:
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
