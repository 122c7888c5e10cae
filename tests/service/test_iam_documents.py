"""The cache of parsed policy documents."""

import pytest

from client.policy.coverage import Catalogue
from client.policy.document import InvalidDocument
from service.authz.decisions import CatalogueSnapshot
from service.iam.policy_documents import ReadingCache
from tests.service.access import allow, document_text

NAME = "compute:instances:read"


def known(*names: str) -> CatalogueSnapshot:
    return CatalogueSnapshot(Catalogue(names or (NAME,)), {})


def text(number: int, operation: str = NAME, target: str = "*") -> str:
    return document_text(allow(operation, targets=(target,)) | {"name": f"rule {number:04}"})


def test_a_full_cache_evicts_the_least_recently_used_document() -> None:
    catalogue, cache = known(), ReadingCache(max_characters=10 * len(text(0)))
    first = cache.read(text(0), catalogue, "accept")
    for number in range(1, 200):
        assert cache.read(text(number), catalogue, "accept").document != first.document
        assert cache.read(text(0), catalogue, "accept") is first
        assert cache.characters <= cache.max_characters
    forgotten = cache.read(text(199), catalogue, "accept")
    for number in range(200, 210):
        cache.read(text(number), catalogue, "accept")
    assert cache.read(text(199), catalogue, "accept") is not forgotten
    small = ReadingCache(max_characters=10)
    assert small.read(text(1), catalogue, "accept").document.rules
    assert small.characters == 0


def test_the_number_of_small_documents_is_limited() -> None:
    catalogue, cache = known(), ReadingCache(max_documents=3)
    first = cache.read(text(0), catalogue, "accept")
    for number in range(1, 4):
        cache.read(text(number), catalogue, "accept")
    assert cache.characters == 3 * len(text(0))
    assert cache.read(text(0), catalogue, "accept") is not first


def test_a_larger_catalogue_or_another_setting_reads_again() -> None:
    cache = ReadingCache()
    with pytest.raises(InvalidDocument):
        cache.read(text(1, "storage:buckets:read"), known(), "accept")
    assert cache.read(text(1, "storage:buckets:read"), known(NAME, "storage:buckets:read"), "accept").document.rules
    catalogue, pinned = known(), text(1, target="frn:compute:eu:*:instances/*")
    assert cache.read(pinned, catalogue, "accept").document.rules
    with pytest.raises(InvalidDocument):
        cache.read(pinned, catalogue, "refuse")
