"""What makes a request cheap: remembered revisions, joined writes, log lines in one write, short paths of checks."""

import asyncio
import logging
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from service.api.middleware import add_headers, is_canonical_path, new_request_id
from service.authn import secret_format
from service.db.engine import Database
from service.db.prepared import Reader
from service.db.revisions import memory_of, read_revisions
from service.http_server.connections import MAX_PENDING_BYTES, JoinedWrites
from service.logs import RotatingStderrHandler
from service.settings import VERSION
from tests.service.counted import Counted
from tests.service.running import AURORA


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Counted]:
    opened = Counted(tmp_path, None)
    yield opened
    opened.close()


@pytest.fixture
def database(platform: Counted) -> Database:
    return platform.platform.database


def increase(database: Database) -> None:
    with database.write() as connection:
        connection.execute(text("INSERT OR IGNORE INTO revisions (domain, revision) VALUES (:d, 0)"), {"d": AURORA})
        connection.execute(text("UPDATE revisions SET revision = revision + 1 WHERE domain = :d"), {"d": AURORA})


@pytest.mark.parametrize("process", ["this", "another"])
async def test_a_commit_empties_the_memory(platform: Counted, database: Database, process: str) -> None:
    def read() -> int:
        with database.read() as connection:
            revision = read_revisions(connection, [AURORA])[AURORA]
            assert memory_of(connection) is not None
            return revision

    before = await database.loop_reads.run(read)
    writer = database if process == "this" else Database(platform.platform.settings.database_url)
    await asyncio.to_thread(increase, writer)
    assert await database.loop_reads.run(read) == before + 1
    await database.loop_reads.close()


async def test_a_commit_is_not_seen_within_a_snapshot(database: Database) -> None:
    def read() -> None:
        with database.read() as connection:
            reader = cast("Reader", connection)
            first = read_revisions(connection, [AURORA])
            memory = reader.memory()
            with ThreadPoolExecutor(1) as threads:
                threads.submit(increase, database).result()
            assert reader.memory() is memory
            assert read_revisions(connection, [AURORA]) == first

    try:
        await database.loop_reads.run(read)
    finally:
        await database.loop_reads.close()


class Transport:
    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


LARGE = b"x" * (MAX_PENDING_BYTES + 1)


@pytest.mark.parametrize(
    ("steps", "sent"),
    [
        ((b"head", b"body"), [b"headbody"]),
        ((b"head", b"", b"body"), [b"head", b"body"]),
        ((b"head", b"body", b"head", b"body"), [b"headbody", b"headbody"]),
        ((b"head", None), [b"head"]),
        ((LARGE, b"x"), [LARGE, b"x"]),
        ((b"head", LARGE), [b"head" + LARGE]),
    ],
)
async def test_the_head_and_the_body_of_a_response_are_one_write(
    steps: tuple[bytes | None, ...], sent: list[bytes]
) -> None:
    """None closes the transport, and `b""` is the next iteration of the event loop."""
    transport = Transport()
    joined = JoinedWrites(cast("asyncio.Transport", transport), asyncio.get_running_loop())
    for step in steps:
        if step is None:
            joined.close()
        elif step:
            joined.write(step)
        else:
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert transport.written == sent


class Stream(StringIO):
    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return len(text)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> tuple[logging.Logger, Stream]:
    stream = Stream()
    monkeypatch.setattr(sys, "stderr", stream)
    logger = logging.Logger("service.test")
    logger.addHandler(RotatingStderrHandler(None))
    return logger, stream


async def test_the_lines_of_an_iteration_of_the_event_loop_are_one_write(log: tuple[logging.Logger, Stream]) -> None:
    logger, stream = log
    for pair in ("one two", "three four"):
        for line in pair.split():
            logger.info(line)
        assert stream.writes == []
        await asyncio.sleep(0)
        assert stream.writes == [pair.replace(" ", "\n") + "\n"]
        stream.writes.clear()
    logger.info("five")
    await asyncio.to_thread(logger.info, "six")
    assert stream.writes in (["five\n", "six\n"], ["five\nsix\n"])


def test_a_line_of_a_thread_is_written_at_once(log: tuple[logging.Logger, Stream]) -> None:
    log[0].info("one")
    assert log[1].writes == ["one\n"]


@given(st.text(alphabet="abfkmw_.~-/ 0") | st.text())
def test_a_text_is_masked_in_full_whatever_its_parts(value: str) -> None:
    assert secret_format.mask_secrets(value) == secret_format._SECRETS.sub(r"\1\2…", value)


@given(st.lists(st.sampled_from([b"a", b"..", b".", b"", b"%2e", b"%2f", b"x.y", b".x", b"\xff", b"a~b", b"a:b"])))
def test_a_plain_path_has_no_other_form(segments: list[bytes]) -> None:
    path = b"/" + b"/".join(segments)
    unclean = {b"", b".", b"..", b"%2e", b"%2f", b"\xff"}
    assert is_canonical_path(path) is (path == b"/" or not unclean.intersection(segments))


def test_a_request_id_is_a_random_uuid() -> None:
    ids = {new_request_id() for _ in range(1_000)}
    assert len(ids) == 1_000
    variants = {(UUID(each).version, UUID(each).variant, str(UUID(each)) == each) for each in ids}
    assert variants == {(4, "specified in RFC 4122", True)}


def test_a_response_keeps_its_own_cache_control() -> None:
    headers = [(b"cache-control", b"public")]
    add_headers(headers, "some-id")
    assert dict(headers) == {
        b"cache-control": b"public",
        b"x-request-id": b"some-id",
        b"x-frost-version": VERSION.encode(),
        b"x-content-type-options": b"nosniff",
    }
