"""Policy documents as requests bring them: read strictly, or refused with every problem and its place."""

import threading
from collections import OrderedDict
from typing import Any

from client.policy.document import InvalidDocument, ParsedDocument, RegionTargets, canonical_text, parse_document
from client.policy.model import Document
from client.policy.problems import Problem
from service import errors
from service.authz.decisions import CatalogueSnapshot
from service.context import Platform
from service.errors import ApiError

MAX_CACHED_CHARACTERS = 2 * 1024 * 1024
"""Of all documents in the cache; read, a document takes up to ten times its text."""


def read_document(platform: Platform, known: CatalogueSnapshot, text: str) -> ParsedDocument:
    """The document of a text.

    Raises:
        Refusal: 400 INVALID_POLICY_DOCUMENT with the problems in the order of the text.
    """
    try:
        return _CACHE.read(text, known, platform.settings.region_targets)
    except InvalidDocument as refused:
        raise ApiError(
            400,
            "INVALID_POLICY_DOCUMENT",
            f"the policy document is refused: {refused}",
            details={"problems": [problem(one) for one in refused.problems]},
            hint="mend the document at the place that is named and send it again",
        ) from None


def read_stored(text: str, known: CatalogueSnapshot) -> Document:
    """Return the document of a stored or canonical text. Raises `DocumentRefused`."""
    return _CACHE.read(text, known, "accept").document


def canonical(reading: ParsedDocument, known: CatalogueSnapshot) -> str:
    """Return the canonical text of a document that was just read; `read_stored` then knows it."""
    text = canonical_text(reading.document)
    _CACHE.add(text, known, "accept", ParsedDocument(reading.document))
    return text


class ReadingCache:
    """The documents that were read last, by their text: an editor sends the same one with each request it tries."""

    def __init__(self, max_characters: int = MAX_CACHED_CHARACTERS) -> None:
        self.max_characters = max_characters
        self.characters = 0
        self._lock = threading.Lock()
        self._readings: OrderedDict[tuple[str, CatalogueSnapshot, RegionTargets], ParsedDocument] = OrderedDict()

    def read(self, text: str, known: CatalogueSnapshot, region_targets: RegionTargets) -> ParsedDocument:
        """Return the reading of a text. Raises `DocumentRefused`; a refused text is read again the next time."""
        key = (text, known, region_targets)
        with self._lock:
            reading = self._readings.get(key)
            if reading is not None:
                self._readings.move_to_end(key)
                return reading
        reading = parse_document(text, known.catalogue, region_targets=region_targets)
        self.add(text, known, region_targets, reading)
        return reading

    def add(self, text: str, known: CatalogueSnapshot, region_targets: RegionTargets, reading: ParsedDocument) -> None:
        """Keep a reading; the ones that were used longest ago make room for it."""
        key = (text, known, region_targets)
        with self._lock:
            if key not in self._readings:
                self._readings[key] = reading
                self.characters += len(text)
            while self.characters > self.max_characters:
                (oldest, _, _), _ = self._readings.popitem(last=False)
                self.characters -= len(oldest)


_CACHE = ReadingCache()


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
