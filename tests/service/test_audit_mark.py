"""The mark of the audit log: a chain that was set back or replaced is noticed, at the start and later."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Executable, delete, insert, select, update

from service.audit import chain, chain_watch
from service.audit.chain_watch import ChainWatch
from service.audit.continuity import ChainStart
from service.audit.entries import AuditEvent
from service.audit.mark import MARK_FILE, Mark, MarkDamagedError, MarkFile, MarkRefusedError, Origin
from service.audit.seals import ChainBroken
from service.audit.segments import drop_segment, export_segment
from service.clock import SystemClock
from service.db.engine import Database
from service.db.tables import audit_head, audit_log
from tests.people import OWNER, WEB_SHOP
from tests.service.audited import KEY, NOW, SECRET, fault_of, seal, verdict, write_entry
from tests.service.queries import execute, fetch, fetch_row
from tests.service.running import Running
from tests.waiting import until

MARK = Mark(1_000_000, 7, "a" * 64, Origin.NEW, "2026-03-01T12:00:00Z")
STRIPPED = {"hash": None, "previous_hash": None, "sequence": None, "mac": None}


@pytest.fixture
def file(tmp_path: Path) -> MarkFile:
    return MarkFile(tmp_path, SECRET)


class Log:
    """A database with an audit log, and its platform in this process."""

    def __init__(self, url: str, folder: Path) -> None:
        self.database = Database(url)
        self.file = MarkFile(folder, SECRET)
        self.watch = ChainWatch(self.database, SECRET, self.file, SystemClock())
        chain.install_audit_hooks(self.database, SECRET, require_intact=self.watch.require_intact)

    def start(self, reason: str | None = None, *, is_new: bool = False, is_upgrade: bool = False) -> Mark | None:
        start = ChainStart(self.database, SECRET, self.file, reason)
        self.watch.mark = start.finish(NOW, rolling=False, is_new=is_new, is_upgrade=is_upgrade)
        return self.watch.mark

    def write(self, *targets: str) -> None:
        for target in targets:
            write_entry(self.database, target)
        seal(self.database)

    def set_back(self, entries: int) -> Executable:
        """Return the statement that completes a set-back to a number of entries: their head as it was."""
        head = fetch_row(self.database, select(audit_head))
        assert head["entries"] == entries
        return insert(audit_head).values(head)

    @property
    def own_entries(self) -> list[tuple[str, dict[str, Any]]]:
        query = select(audit_log.c.operation, audit_log.c.details).order_by(audit_log.c.id)
        return [(row.operation, row.details) for row in fetch(self.database, query) if "chain" in row.operation]


@pytest.fixture
def log(database_url: str, tmp_path: Path) -> Iterator[Log]:
    """A log of six entries, all of them in the mark."""
    opened = Log(database_url, tmp_path)
    with closing(opened.database):
        opened.start(is_new=True)
        opened.write(*"abc")
        opened.earlier = opened.set_back(3)  # type: ignore[attr-defined]
        opened.write(*"def")
        opened.watch.look()
        yield opened


def replaced_by(log: Log, name: str) -> None:
    """Do what a person can who writes to the database only."""
    cases: dict[str, list[Executable]] = {
        "emptied": [delete(audit_head), delete(audit_log)],
        "stripped": [delete(audit_head), update(audit_log).values(STRIPPED)],
        "stripped and cut": [
            delete(audit_head),
            delete(audit_log).where(audit_log.c.id > 4),
            update(audit_log).values(STRIPPED),
        ],
        "without a head": [delete(audit_head)],
        "forged": [update(audit_head).values(entries=5)],
        "set back": [
            delete(audit_log).where(audit_log.c.sequence > 3),
            delete(audit_head),
            log.earlier,  # type: ignore[attr-defined]
        ],
    }
    for statement in cases[name]:
        execute(log.database, statement)


REPLACED = ("emptied", "stripped", "stripped and cut", "without a head", "forged", "set back")


@pytest.mark.parametrize("name", REPLACED)
def test_a_replaced_chain_starts_only_with_a_reason_that_is_recorded(log: Log, name: str) -> None:
    recorded = fetch_row(log.database, select(audit_head))
    replaced_by(log, name)
    before = log.file.path.read_bytes()
    with pytest.raises(ValueError, match="accept-new-chain REASON") as refused:
        log.start()
    assert recorded["hash"] in str(refused.value)
    assert log.file.path.read_bytes() == before
    mark = log.start("the disk was lost")
    assert mark is not None
    assert mark.origin is Origin.ACCEPTED
    [(event, details)] = log.own_entries
    assert event == AuditEvent.AUDIT_CHAIN_ACCEPT
    assert details["reason"] == "the disk was lost"
    assert details["recorded"]["head"] == recorded["hash"]
    assert (details["found"] is None) == (name != "set back")
    # It goes on as any other chain.
    log.write("g")
    log.watch.look()
    assert verdict(log.database).fault is None
    assert log.start() == log.watch.mark
    assert len(log.own_entries) == 1


def test_a_reason_accepts_one_chain(log: Log) -> None:
    """A flag that stays in a unit file accepts no later replacement."""
    replaced_by(log, "emptied")
    log.start("first")
    log.write(*"xyz")
    log.watch.look()
    replaced_by(log, "emptied")
    with pytest.raises(ValueError, match="a reason accepts one chain"):
        log.start("first")
    assert log.start("second") is not None
    # Where the chain continues, a reason changes nothing.
    mark = log.watch.mark
    assert log.start("third") == mark


@pytest.mark.parametrize("state", ["is_new", "is_upgrade"])
def test_the_first_start_and_an_upgrade_write_the_mark_in_silence(
    state: str, database_url: str, tmp_path: Path
) -> None:
    log = Log(database_url, tmp_path)
    with closing(log.database):
        assert log.start(**{state: True}) == log.file.read()  # type: ignore[arg-type]
        assert log.own_entries == []
    assert log.file.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("other", [b"", b"another platform's secret"], ids=["no file", "of another platform"])
def test_a_directory_without_a_mark_of_this_platform_takes_the_chain_and_says_so(
    other: bytes, log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    log.file.path.unlink()
    if other:
        MarkFile(log.file.path.parent, other).write(replace(MARK, entries=99))
    mark = log.start()
    assert mark is not None
    assert (mark.origin, mark.entries) == (Origin.ADOPTED, 6)
    [(event, details)] = log.own_entries
    assert event == AuditEvent.AUDIT_CHAIN_ADOPT
    assert details["found"]["head"] == mark.hash
    assert "has no mark of this platform" in caplog.text
    assert log.start() == mark
    assert len(log.own_entries) == 1


def test_a_copied_data_directory_continues_and_is_not_behind_for_long(log: Log, tmp_path: Path) -> None:
    """A second replica with a copy of the first one's directory."""
    folder = tmp_path / "copy"
    folder.mkdir()
    (folder / MARK_FILE).write_bytes(log.file.path.read_bytes())
    log.write("g")
    with closing(Database(str(log.database.engine.url.render_as_string(hide_password=False)))) as database:
        file = MarkFile(folder, SECRET)
        watch = ChainWatch(database, SECRET, file, SystemClock())
        start = ChainStart(database, SECRET, file, None)
        watch.mark = start.finish(NOW, rolling=False, is_new=False, is_upgrade=False)
        watch.look()
    stored, first = file.read(), log.file.read()
    assert stored is not None
    assert first is not None
    assert (stored.entries, first.entries) == (7, 6)


def test_a_mark_before_dropped_entries_is_continued(log: Log) -> None:
    """A replica that was stopped while others exported and dropped the entries that it knows."""
    with log.database.write() as connection:
        exported = export_segment(connection, KEY, after=0, before=NOW + timedelta(days=1))
        assert exported is not None
        drop_segment(connection, KEY, exported[0], exported[0].seal(KEY), NOW)
    mark = log.watch.mark
    assert mark is not None
    log.file.write(replace(mark, hash="0" * 64))
    with pytest.raises(ValueError, match="set back or replaced"):
        log.start()  # The head is known, and differs.
    log.file.write(replace(mark, entries=4))
    assert log.start() is not None


@pytest.mark.parametrize("name", REPLACED)
def test_a_running_platform_refuses_changes_on_a_replaced_chain(
    log: Log, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    replaced_by(log, name)
    log.watch.look()
    with pytest.raises(ChainBroken):
        log.write("g")
    assert "changes are refused" in caplog.text
    assert log.watch.report()["state"] == "refused"
    stored = log.file.read()
    assert stored is not None
    assert stored.entries == 6


def test_changes_stay_refused_though_another_replica_makes_the_chain_longer(log: Log, database_url: str) -> None:
    kept = fetch(log.database, select(audit_log).where(audit_log.c.sequence > 3))
    head = fetch_row(log.database, select(audit_head))
    replaced_by(log, "set back")
    for is_seen in (False, True):
        # The second time, the longer chain is there before the first look.
        log.watch._fault = log.watch._fault if is_seen else None
        with closing(Database(database_url)) as other:
            chain.install_audit_hooks(other, SECRET)
            for number in range(5):
                write_entry(other, f"other:{number}")
            seal(other)
        log.watch.look()
        with pytest.raises(ChainBroken, match="set back or replaced"):
            log.write("g")
    # With the entries of the mark, changes go on.
    execute(log.database, delete(audit_log).where(audit_log.c.sequence > 3))
    execute(log.database, update(audit_head).values(head))
    for row in kept:
        execute(log.database, insert(audit_log).values(row._asdict()))
    log.watch.look()
    log.write("g")
    assert verdict(log.database).fault is None


def test_the_mark_is_written_only_if_the_chain_has_grown(log: Log) -> None:
    log.watch.look()
    before = log.file.path.stat().st_ino
    log.watch.look()
    assert log.file.path.stat().st_ino == before
    log.write("g")
    log.watch.look()
    stored = log.file.read()
    assert stored is not None
    assert stored.entries == 7


def test_a_watch_writes_the_last_change_also_at_the_stop(log: Log) -> None:
    watch = ChainWatch(log.database, SECRET, log.file, SystemClock(), seconds=0.05)
    watch.mark = log.watch.mark
    watch.start()
    log.write("g")
    until(lambda: (mark := log.file.read()) is not None and mark.entries == 7)
    watch.stop()
    slow = ChainWatch(log.database, SECRET, log.file, SystemClock(), seconds=3_600)
    slow.mark = log.file.read()
    slow.start()
    log.write("h")
    slow.stop()
    stored = log.file.read()
    assert stored is not None
    assert stored.entries == 8


def test_a_mark_that_cannot_be_written_refuses_no_change(log: Log, caplog: pytest.LogCaptureFixture) -> None:
    log.file.path.unlink()
    log.file.path.mkdir()
    log.write("g")
    log.watch.look()
    log.write("h")
    assert log.watch.report()["state"] == "not written"
    assert caplog.text.count("cannot be written") == 1
    log.file.path.rmdir()
    log.watch.look()
    assert log.watch.report()["state"] == "ok"
    stored = log.file.read()
    assert stored is not None
    assert stored.entries == 8


def test_a_head_that_is_forged_without_a_mark_is_refused_as_before(log: Log) -> None:
    log.file.path.unlink()
    replaced_by(log, "forged")
    assert log.start() is None
    log.watch.look()
    with pytest.raises(ChainBroken):
        log.write("g")
    assert fault_of(log.database)[0] is None


@pytest.mark.parametrize("origin", [None, Origin.ACCEPTED])
def test_a_chain_that_is_repaired_while_the_platform_runs_is_taken_as_at_a_start(
    log: Log, origin: Origin | None, caplog: pytest.LogCaptureFixture
) -> None:
    log.file.path.unlink()
    if origin is not None:
        log.file.write(Mark(None, 0, "", origin, "2026-03-01T12:00:00Z", accepted="a reason"))
    head = fetch_row(log.database, select(audit_head))
    replaced_by(log, "forged")
    log.start()
    log.watch.look()
    assert log.watch.report()["state"] == "refused"
    execute(log.database, delete(audit_head))
    execute(log.database, insert(audit_head).values(head))
    for _ in range(2):
        log.watch.look()
        seal(log.database)
    stored = log.file.read()
    assert stored is not None
    assert stored.accepted == ("a reason" if origin else "")
    assert stored.origin is (origin or Origin.ADOPTED)
    assert [event for event, _ in log.own_entries] == ([] if origin else [AuditEvent.AUDIT_CHAIN_ADOPT])
    assert ("has no mark of this platform" in caplog.text) == (origin is None)


def test_a_mark_of_a_reason_that_takes_any_chain_keeps_the_reason(log: Log) -> None:
    log.file.write(Mark(None, 0, "", Origin.ACCEPTED, "2026-03-01T12:00:00Z", accepted="a reason"))
    mark = log.start()
    assert mark is not None
    assert (mark.accepted, mark.entries) == ("a reason", 6)


def test_an_idle_platform_looks_rarely_and_soon_after_a_change(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, pauses, now = [0], [0.0], [0.0]

    class Entries(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0)
            return super().wait(timeout)

    def look() -> None:
        looks[0] += 1

    monkeypatch.setattr(chain_watch, "IDLE_LOOKS", 1_000_000)
    monkeypatch.setattr(chain_watch, "time", SimpleNamespace(monotonic=lambda: now[0]))
    watch = ChainWatch(log.database, SECRET, log.file, SystemClock(), seconds=0.01)
    watch._has_entries = Entries()
    monkeypatch.setattr(watch, "look", look)
    watch.start()
    until(lambda: looks[0] >= 3)
    now[0] = 20_000
    until(lambda: pauses[-1] == 10_000)
    before = looks[0]
    watch.admit_entries()
    # More than once: the entry may be committed after the first look.
    until(lambda: looks[0] >= before + 3)
    assert pauses[-1] == 0.01
    watch.stop()


def test_a_stop_waits_only_as_long_as_it_may(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()
    watch = ChainWatch(log.database, SECRET, log.file, SystemClock(), seconds=3_600)
    monkeypatch.setattr(watch, "look", answer.wait)
    watch.start()
    thread = watch._thread
    assert thread is not None
    watch.stop(0.01)
    assert thread.is_alive()
    answer.set()
    thread.join()


def alter(name: str, value: Any) -> Callable[[dict[str, Any]], object]:
    return lambda document: document["mark"].update({name: value})


DAMAGE: dict[str, Callable[[dict[str, Any]], object]] = {
    "entries": alter("entries", 1),
    "hash": alter("hash", "b" * 64),
    "chain": alter("chain", 2),
    "any chain": alter("chain", None),
    "accepted": alter("accepted", "x"),
    "origin": alter("origin", "other"),
    "another member": alter("more", 1),
    "mac": lambda document: document.update(mac="é"),
    "without mac": lambda document: document.pop("mac"),
    "a list": lambda document: document.update(mark=[]),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_an_altered_file_is_refused_and_replaced_only_with_a_reason(file: MarkFile, name: str) -> None:
    file.write(MARK)
    document = json.loads(file.path.read_text())
    DAMAGE[name](document)
    file.path.write_text(json.dumps(document))
    with pytest.raises(MarkDamagedError, match="--accept-new-chain REASON"):
        file.read()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff" * 10, b"[" * 4_096, b'{"format": 1}'])
def test_a_damaged_file_is_refused(file: MarkFile, content: bytes) -> None:
    file.path.write_bytes(content)
    with pytest.raises(MarkDamagedError):
        file.read()


def test_a_damaged_file_is_replaced_with_a_reason(log: Log) -> None:
    log.file.path.write_bytes(b"{")
    with pytest.raises(ValueError, match="is damaged"):
        log.start()
    mark = log.start("the file was cut")
    assert mark is not None
    assert mark.entries >= 6
    [(_, details)] = log.own_entries
    assert details["recorded"] is None
    assert details["found"]["entries"] == 6


def link(path: Path) -> None:
    path.with_name("other").write_text("{}")
    path.symlink_to(path.with_name("other"))


def of_other_user(path: Path) -> None:
    path.touch()
    if os.getuid() != 0:
        pytest.skip("only root can give a file to another user")
    os.chown(path, 12_345, 12_345)


@pytest.mark.parametrize("make", [link, Path.mkdir, os.mkfifo, of_other_user])
def test_a_link_and_a_file_of_others_are_refused_with_the_repair(log: Log, make: Callable[[Path], object]) -> None:
    log.file.path.unlink()
    make(log.file.path)
    for reason in (None, "a reason"):
        with pytest.raises(MarkRefusedError, match=f"rm -r {log.file.path}"):
            log.start(reason)


def test_a_file_never_goes_back_on_its_chain(file: MarkFile) -> None:
    assert file.advance(MARK)
    assert not file.advance(replace(MARK, entries=6))
    assert file.read() == MARK
    assert file.advance(replace(MARK, entries=8))
    other = replace(MARK, chain=2_000_000, entries=1)
    assert file.advance(other)
    file.write(replace(MARK, entries=2))
    assert file.read() == replace(MARK, entries=2)


def test_a_platform_refuses_a_replaced_log_and_starts_with_a_reason(world_url: str | None) -> None:
    """The processes: the refusal names both heads, `/readyz`, status and verification show the state."""
    path = f"/api/v1/tenants/{WEB_SHOP}"

    def rename(platform: Running, name: str) -> int:
        return platform.ask("PATCH", path, as_=OWNER, body={"displayName": name}).status

    with Running(world_url) as platform, closing(Database(platform.database_url)) as database:
        assert rename(platform, "first") == 200
        until(lambda: platform.get("/api/v1/platform/audit/verify").json()["unsealed"] == 0)
        head = fetch_row(database, select(audit_head))
        platform.stop()
        mark = json.loads((platform.folder / MARK_FILE).read_text())["mark"]
        assert mark["entries"] >= head["entries"]
        platform.start()
        assert platform.get("/api/v1/platform/status").json()["auditMark"]["state"] == "ok"
        execute(database, delete(audit_head))
        until(lambda: platform.get("/readyz").json()["checks"]["audit"] == "broken")
        assert rename(platform, "second") == 503
        assert not platform.get("/api/v1/platform/audit/verify").json()["ok"]
        platform.stop()
        execute(database, update(audit_log).values(STRIPPED))
        with pytest.raises(RuntimeError, match="--accept-new-chain REASON"):
            platform.start()
        platform.flags += ["--accept-new-chain", "a test"]
        platform.start()
        assert rename(platform, "third") == 200
        status = platform.get("/api/v1/platform/status").json()["auditMark"]
        assert (status["state"], status["origin"]) == ("ok", "accepted")
        report = platform.get("/api/v1/platform/audit/verify").json()
        assert (report["ok"], report["mark"]["origin"]) == (True, "accepted")
