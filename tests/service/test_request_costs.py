"""What makes a request cheap: remembered revisions, joined writes, log lines in one write, short paths of checks."""

import asyncio
import logging
import sys
import threading
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any, cast
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

BUMP = text("UPDATE revisions SET revision = revision + 1 WHERE domain = :domain")


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Counted]:
    opened = Counted(tmp_path, None)
    yield opened
    opened.close()


@pytest.fixture
def database(platform: Counted) -> Database:
    return platform.platform.database


async def read_twice(database: Database, between: Any) -> tuple[Any, Any]:
    """Return what two functions on the event loop see of the memory and of a revision."""

    def read() -> tuple[int, int]:
        with database.read() as connection:
            revision = read_revisions(connection, [AURORA])[AURORA]
            memory = memory_of(connection)
            assert memory is not None
            return revision, len(memory)

    first = await database.loop_reads.run(read)
    await asyncio.to_thread(between)
    second = await database.loop_reads.run(read)
    await database.loop_reads.close()
    return first, second


@pytest.mark.parametrize("process", ["this", "another"])
def test_a_commit_empties_the_memory(platform: Counted, database: Database, process: str) -> None:
    writer = database if process == "this" else Database(platform.platform.settings.database_url)

    def change() -> None:
        with writer.write() as connection:
            connection.execute(text("INSERT OR IGNORE INTO revisions (domain, revision) VALUES (:d, 0)"), {"d": AURORA})
            connection.execute(BUMP, {"domain": AURORA})

    (before, _), (after, _) = asyncio.run(read_twice(database, change))
    assert after == before + 1


def test_a_commit_is_not_seen_within_a_snapshot(database: Database) -> None:
    def change() -> None:
        with database.write() as connection:
            connection.execute(BUMP, {"domain": AURORA})

    def read() -> list[int]:
        with database.read() as connection:
            reader = cast("Reader", connection)
            first = read_revisions(connection, [AURORA])[AURORA]
            memory = reader.memory()
            thread = threading.Thread(target=change)
            thread.start()
            thread.join()
            assert reader.memory() is memory
            return [first, read_revisions(connection, [AURORA])[AURORA]]

    async def run() -> list[int]:
        try:
            return await database.loop_reads.run(read)
        finally:
            await database.loop_reads.close()

    first, second = asyncio.run(run())
    assert first == second


class Transport:
    """A stand-in for a socket's transport, which notes what is written to it."""

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


def written(*steps: bytes | None) -> list[bytes]:
    """Return what reaches the transport; None closes it, and `b""` is the next iteration of the event loop."""

    async def run() -> list[bytes]:
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
        return transport.written

    return asyncio.run(run())


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
def test_the_head_and_the_body_of_a_response_are_one_write(steps: tuple[bytes | None, ...], sent: list[bytes]) -> None:
    assert written(*steps) == sent


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


def test_the_lines_of_an_iteration_of_the_event_loop_are_one_write(log: tuple[logging.Logger, Stream]) -> None:
    logger, stream = log

    async def run() -> None:
        logger.info("one")
        logger.info("two")
        assert stream.writes == []
        await asyncio.sleep(0)
        assert stream.writes == ["one\ntwo\n"]
        logger.info("three")
        logger.warning("four")
        assert stream.writes[1:] == ["three\nfour\n"]
        logger.info("five")
        await asyncio.to_thread(logger.info, "six")
        assert stream.writes[2:] == ["five\n", "six\n"] or stream.writes[2:] == ["five\nsix\n"]

    asyncio.run(run())


def test_a_line_of_a_thread_is_written_at_once(log: tuple[logging.Logger, Stream]) -> None:
    logger, stream = log
    logger.info("one")
    assert stream.writes == ["one\n"]


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
    assert {(UUID(each).version, UUID(each).variant, str(UUID(each)) == each) for each in ids} == {
        (4, "specified in RFC 4122", True)
    }


def test_a_response_keeps_its_own_cache_control() -> None:
    headers = [(b"cache-control", b"public")]
    add_headers(headers, "some-id")
    assert dict(headers) == {
        b"cache-control": b"public",
        b"x-request-id": b"some-id",
        b"x-frost-version": VERSION.encode(),
        b"x-content-type-options": b"nosniff",
    }
