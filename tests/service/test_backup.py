"""Backup and restore."""

import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import ColumnElement, select, update

from service.app import open_platform
from service.db import migrate
from service.db.engine import Database
from service.db.tables import audit_log, tenants
from service.operator import backup_archive
from service.operator.backup import create_backup
from service.operator.backup_archive import InvalidBackup
from service.operator.restore import READY, STAGED, finish_interrupted_restore, restore_backup
from service.settings import Settings, from_arguments
from tests.service.planned import until
from tests.service.running import AURORA, OWNER, STAGING, Running

RENAME = f"/api/v1/tenants/{STAGING}"


def settings_of(running: Running) -> Settings:
    return from_arguments(["--data-dir", str(running.folder), "--database", running.database_url], {})


def rename(running: Running, name: str) -> None:
    assert running.ask("PATCH", RENAME, as_=OWNER, body={"displayName": name}).status == 200


def name_of(running: Running) -> str:
    return str(running.get(RENAME, as_=OWNER).json()["displayName"])


def verified(running: Running) -> Any:
    return running.get("/api/v1/platform/audit/verify").json()


def hash_of(running: Running, number: int) -> str | None:
    """Return the hash of an entry of the audit log."""
    database = Database(running.database_url)
    with database.read() as connection:
        found = connection.scalar(select(audit_log.c.hash).where(audit_log.c.sequence == number))
    database.close()
    return found


@pytest.mark.slow
def test_a_busy_platform_is_restored_to_one_moment(platform: Running, tmp_path: Path) -> None:
    """Keys, sessions, the chain and open operations are as they were; what came after is gone."""
    file, settings = tmp_path / "backup.tar", settings_of(platform)
    platform.token(OWNER)
    rename(platform, "Before")
    stop = threading.Event()

    def be_busy() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            rename(platform, f"Busy {number}")

    busy = threading.Thread(target=be_busy)
    busy.start()
    try:
        told = create_backup(settings, file)
    finally:
        stop.set()
        busy.join()
    assert file.stat().st_mode & 0o777 == 0o600
    rename(platform, "After")
    made_after = platform.ask(
        "POST", f"/api/v1/organizations/{AURORA}/tenants", as_=OWNER, body={"displayName": "Later"}
    ).json()
    assert platform.stop() == 0
    assert restore_backup(settings, file)["auditWhole"]
    platform.start()
    until(lambda: verified(platform)["unsealed"] == 0)
    whole, audit = verified(platform), told["audit"]
    # A session that is marked as seen writes no entry; nothing else was asked since.
    assert (whole["ok"], whole["entries"]) == (True, audit["entries"] + audit["unsealed"])
    assert hash_of(platform, audit["entries"]) == audit["head"]
    assert hash_of(platform, whole["entries"]) == whole["head"]
    assert name_of(platform).startswith(("Before", "Busy"))
    assert platform.get("/api/v1/tenants", key="terraform").status == 200
    assert made_after["id"] not in [one["id"] for one in platform.get("/api/v1/tenants", as_=OWNER).json()["tenants"]]
    assert platform.get("/api/v1/platform/status").json()["openOperations"] == 1
    rename(platform, "Goes on")
    assert verified(platform)["ok"]


def test_a_running_platform_is_not_restored(platform: Running, tmp_path: Path) -> None:
    file = tmp_path / "backup.tar"
    create_backup(settings_of(platform), file)
    words = [str(file), "--data-dir", str(platform.folder), "--database", platform.database_url]
    done = restored(*words)
    assert done.returncode == 75
    assert "is already running" in done.stderr


@pytest.mark.slow
def test_a_database_with_running_replicas_is_not_restored(
    new_database_url: Callable[[str, bool], str], tmp_path: Path
) -> None:
    with Running(new_database_url("postgresql", True), "empty") as running:
        settings = settings_of(running)
        create_backup(settings, tmp_path / "backup.tar")
        other = Running(running.database_url, "empty")
        other.folder.mkdir(mode=0o700)
        for name in backup_archive.FILES:
            if (running.folder / name).exists():
                shutil.copy(running.folder / name, other.folder / name)
        with other:
            running.stop()
            with pytest.raises(InvalidBackup, match="other replicas are running"):
                restore_backup(settings, tmp_path / "backup.tar")
        running.start()


def test_dropped_entries_stay_dropped_after_a_restore(platform: Running, tmp_path: Path) -> None:
    file, settings = tmp_path / "backup.tar", settings_of(platform)
    exported = platform.get("/api/v1/platform/audit/export?before=9999-01-01T00:00:00Z").json()["segment"]
    assert platform.ask("POST", "/api/v1/platform/audit/drop", body=exported).status == 200
    create_backup(settings, file)
    dropped = verified(platform)["dropped"]
    assert platform.stop() == 0
    assert restore_backup(settings, file)["auditWhole"]
    platform.start()
    after = verified(platform)
    assert (after["ok"], after["dropped"]) == (True, dropped)
    assert dropped["last"] == exported["last"]


# Invalid backups


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Settings, Path]]:
    """A platform on SQLite that does not run, and a backup of it."""
    running = Running(None, "empty")
    running.start()
    running.stop()
    file = tmp_path_factory.mktemp("backup") / "good.tar"
    settings = settings_of(running)
    create_backup(settings, file)
    yield running, settings, file
    shutil.rmtree(running.folder.parent)


def opened(folder: Path, *flags: str) -> Settings:
    """A new platform that does not run."""
    folder.mkdir(mode=0o700)
    settings = from_arguments(["--data-dir", str(folder), "--world", "empty", *flags], {})
    open_platform(settings).database.close()
    return settings


def state(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "platform.lock")
    return {str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest() for path in files}


Part = tuple[tarfile.TarInfo, bytes]
Forgery = Callable[[Path, Path], Path]
"""Writes another file after a good backup, and returns its path."""


def members(file: Path) -> list[Part]:
    with tarfile.open(file) as tar:
        return [(one, tar.extractfile(one).read()) for one in tar.getmembers()]  # type: ignore[union-attr]


def written(path: Path, parts: list[Part]) -> Path:
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for member, content in parts:
            member.size = len(content) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(content))
    return path


def with_manifest(path: Path, good: Path, **changed: Any) -> Path:
    """The same backup with another manifest, its digest and its seal made to fit."""
    first, *files, _, _ = members(good)
    content = json.dumps(json.loads(first[1]) | changed).encode()
    return written(path, [(first[0], content), *files, *ending(content, secret_in(good))])


def secret_in(backup: Path) -> bytes:
    return next(content for member, content in members(backup) if member.name == backup_archive.SECRET)


def ending(manifest: bytes, secret: bytes) -> list[Part]:
    """Digest and seal of a manifest."""
    digest = sha256(manifest).hexdigest().encode()
    seal = backup_archive.seal_of(manifest, secret).encode()
    return [(tarfile.TarInfo(backup_archive.DIGEST), digest), (tarfile.TarInfo(backup_archive.SEAL), seal)]


def cut(path: Path, good: Path) -> Path:
    content = good.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    return path


def one_bit(name: str) -> Forgery:
    def forge(path: Path, good: Path) -> Path:
        with tarfile.open(good) as tar:
            at = tar.getmember(name).offset_data + 20
        content = bytearray(good.read_bytes())
        content[at] ^= 1
        path.write_bytes(content)
        return path

    return forge


def linked(kind: bytes) -> Forgery:
    """Make the secret a link, as another program would follow it."""

    def forge(path: Path, good: Path) -> Path:
        parts = members(good)
        for member, _ in parts:
            if member.name == "secret.key":
                member.type, member.linkname = kind, "/etc/passwd"
        return written(path, parts)

    return forge


def named(name: str) -> Forgery:
    """The keys of the seed under another name, in the manifest as well."""

    def forge(path: Path, good: Path) -> Path:
        first, *files, _, _ = members(good)
        manifest = json.loads(first[1])
        manifest["files"] = {name if one == "world-keys.json" else one: fact for one, fact in manifest["files"].items()}
        for member, _ in files:
            member.name = name if member.name == "world-keys.json" else member.name
        content = json.dumps(manifest).encode()
        return written(path, [(first[0], content), *files, *ending(content, secret_in(good))])

    return forge


def other_manifest(**changed: Any) -> Forgery:
    return lambda path, good: with_manifest(path, good, **changed)


def other_end(*parts: Part) -> Forgery:
    """Put other parts in the place of the seal."""
    return lambda path, good: written(path, [*members(good)[:-1], *parts])


def huge(path: Path, good: Path) -> Path:
    manifest = json.loads(members(good)[0][1])
    files = {**manifest["files"], "platform.db": {"bytes": 2**60, "sha256": "0"}}
    return with_manifest(path, good, files=files)


def text_of(content: bytes) -> Forgery:
    def forge(path: Path, good: Path) -> Path:
        path.write_bytes(content)
        return path

    return forge


def pipe(path: Path, good: Path) -> Path:
    os.mkfifo(path)
    return path


unsealed = other_end()
"""As an earlier release made it."""


def resealed(path: Path, good: Path, secret: bytes) -> Path:
    """The same content with the seal of another installation."""
    first, *files, _, _ = members(good)
    return written(path, [first, *files, *ending(first[1], secret)])


UNFIT: dict[str, tuple[Forgery, str]] = {
    "empty": (text_of(b""), "not a frost backup"),
    "text": (text_of(b"a" * 2000), "not a frost backup"),
    "missing": (lambda path, good: path, "cannot be read"),
    "pipe": (pipe, "not a regular file"),
    "folder": (lambda path, good: path.parent, "Is a directory"),
    "cut in the database": (cut, "truncated"),
    "cut before its end": (lambda path, good: written(path, members(good)[:-2]), "truncated"),
    "cut in its seal": (other_end((tarfile.TarInfo("more"), b"0" * 64)), "another file in place"),
    "sealed with another secret": (
        lambda path, good: resealed(path, good, b"x" * 32),
        "its seal does not match the secret in",
    ),
    "an empty seal": (
        other_end((tarfile.TarInfo(backup_archive.SEAL), b"")),
        "its seal does not match the secret in",
    ),
    "without a seal": (unsealed, "it has no seal.*--trust"),
    "a bit of the database": (one_bit("platform.db"), "damaged"),
    "a bit of the secret": (one_bit("secret.key"), "damaged"),
    "a bit of the manifest": (one_bit("manifest.json"), "not a frost backup|damaged"),
    "a symbolic link": (linked(tarfile.SYMTYPE), "another file in place"),
    "a hard link": (linked(tarfile.LNKTYPE), "another file in place"),
    "a device": (linked(tarfile.CHRTYPE), "another file in place"),
    "a way up": (named("../../evil"), "unexpected file"),
    "a way elsewhere": (named("/tmp/evil"), "unexpected file"),
    "another file": (named("platform.lock"), "unexpected file"),
    "huge": (huge, "not enough space"),
    "newer format": (other_manifest(format=99), "newer frost"),
    "newer schema": (other_manifest(revision="0999", version="9.9"), "newer frost"),
    "another schema than it says": (other_manifest(revision="0001"), "its database is corrupt"),
    "of PostgreSQL": (other_manifest(database="postgresql"), "has a postgresql database"),
    "no secret": (other_manifest(files={}), "not a frost backup"),
    "a file without its digest": (other_manifest(files={"secret.key": {"bytes": 32}}), "not a frost backup"),
    "without an instant": (other_manifest(createdAt=None), "not a frost backup"),
}


@pytest.mark.parametrize("which", UNFIT)
def test_an_invalid_backup_is_refused_and_changes_nothing(
    stopped: tuple[Running, Settings, Path], tmp_path: Path, which: str
) -> None:
    running, settings, good = stopped
    before = state(running.folder)
    make_it, why = UNFIT[which]
    with pytest.raises(InvalidBackup, match=why):
        restore_backup(settings, make_it(tmp_path / "bad.tar", good))
    assert state(running.folder) == before
    assert not list(running.folder.parent.rglob("evil"))


# The seal


def restored(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "service.operator.restore", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_backup_without_a_seal_is_restored_with_trust_only(
    stopped: tuple[Running, Settings, Path], tmp_path: Path
) -> None:
    _, settings, good = stopped
    file = unsealed(tmp_path / "earlier.tar", good)
    words = (str(file), "--data-dir", str(settings.data_dir))
    before = state(settings.data_dir)
    for more in ((), ("--check",)):
        refused = restored(*words, *more)
        assert refused.returncode == 3
        assert refused.stderr == (
            "it has no seal: an earlier release created it, or the seal was removed; "
            "--trust restores it without verification\n"
        )
    assert state(settings.data_dir) == before
    done = restored(*words, "--trust")
    assert done.returncode == 0, done
    assert json.loads(done.stdout)["auditWhole"]


def test_an_empty_machine_is_restored_with_the_secret_or_with_trust(
    stopped: tuple[Running, Settings, Path], tmp_path: Path
) -> None:
    _, settings, good = stopped
    empty = tmp_path / "empty"
    refused = restored(str(good), "--data-dir", str(empty))
    assert refused.returncode == 3
    assert refused.stderr.startswith(f"its seal cannot be verified: no secret in {empty / 'secret.key'}; ")
    assert "--secret-file FILE" in refused.stderr
    assert "--trust" in refused.stderr
    assert {path.name for path in empty.iterdir()} <= {"platform.lock"}
    assert restored(str(good), "--data-dir", str(empty), "--trust").returncode == 0
    assert (empty / "secret.key").read_bytes() == settings.secret_file.read_bytes()
    # The secret that was kept elsewhere verifies it, and another one does not.
    kept, other = tmp_path / "kept.key", tmp_path / "other.key"
    kept.write_bytes(settings.secret_file.read_bytes())
    other.write_bytes(b"o" * 32)
    kept.chmod(0o600)
    other.chmod(0o600)
    second = tmp_path / "second"
    assert restored(str(good), "--data-dir", str(second), "--secret-file", str(other), "--trust").returncode == 3
    assert restored(str(good), "--data-dir", str(second), "--secret-file", str(kept)).returncode == 0


@pytest.mark.parametrize("installed", [True, False])
def test_a_wrong_seal_is_refused_with_trust_as_well(
    stopped: tuple[Running, Settings, Path], tmp_path: Path, installed: bool
) -> None:
    _, settings, good = stopped
    data_dir = settings.data_dir if installed else tmp_path / "empty"
    # Changed afterwards, everything but the seal made to fit.
    first, *files, _, seal = members(good)
    content = json.dumps(json.loads(first[1]) | {"createdAt": "2020-01-01T00:00:00.000Z"}).encode()
    file = written(tmp_path / "changed.tar", [(first[0], content), *files, ending(content, b"")[0], seal])
    refused = restored(str(file), "--data-dir", str(data_dir), "--trust")
    assert refused.returncode == 3
    assert "its seal does not match" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_a_backup_replaces_nothing(stopped: tuple[Running, Settings, Path], tmp_path: Path) -> None:
    _, settings, good = stopped
    before = good.read_bytes()
    with pytest.raises(InvalidBackup, match="already exists"):
        create_backup(settings, good)
    assert good.read_bytes() == before
    assert [one.name for one in good.parent.iterdir()] == [good.name]


def test_a_folder_without_a_platform_has_nothing_to_back_up(tmp_path: Path) -> None:
    with pytest.raises(InvalidBackup, match="no platform in"):
        create_backup(from_arguments(["--data-dir", str(tmp_path)], {}), tmp_path / "b.tar")


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder on another disk than those of tests."""
    disk = Path("/dev/shm")
    if not disk.is_dir() or disk.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev:
        pytest.skip("needs a second file system: /dev/shm is none here")
    with tempfile.TemporaryDirectory(dir=disk) as folder:
        yield Path(folder)


def back_up_and_restore(settings: Settings, file: Path) -> None:
    create_backup(settings, file)
    changed(settings)
    restore_backup(settings, file)
    assert "since" not in targets(settings)


def test_a_database_on_another_disk_is_restored(tmp_path: Path, elsewhere: Path) -> None:
    settings = opened(tmp_path / "platform", "--database", f"sqlite:///{elsewhere / 'other.db'}")
    back_up_and_restore(settings, tmp_path / "good.tar")
    assert [one.name for one in elsewhere.iterdir()] == ["other.db"]
    assert not (settings.data_dir / READY).exists()


@pytest.mark.slow
def test_a_path_with_special_characters_of_urls_is_restored(tmp_path: Path) -> None:
    back_up_and_restore(opened(tmp_path / "platform #1?a%41"), tmp_path / "good.tar")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["good.tar", "platform #1?a%41"]


# A crash in the middle


def changed(settings: Settings) -> None:
    database = Database(settings.database_url)
    with database.write() as connection:
        connection.execute(update(tenants).values(display_name="changed since"))
        connection.execute(audit_log.insert().values(UNCHAINED))
    database.close()


UNCHAINED = {
    "at": datetime(2026, 1, 1, tzinfo=UTC),
    "request_id": "r", "actor_kind": "platform", "actor_id": "platform", "operation": "x.y", "target": "since",
    "outcome": "done", "details": {},
}  # fmt: skip


def values_of(settings: Settings, column: ColumnElement[str]) -> set[str]:
    database = Database(settings.database_url)
    try:
        with database.read() as connection:
            return set(connection.scalars(select(column)))
    finally:
        database.close()


def targets(settings: Settings) -> set[str]:
    return values_of(settings, audit_log.c.target)


@pytest.mark.parametrize("decided", [True, False])
def test_the_next_start_finishes_or_discards_an_interrupted_restore(
    stopped: tuple[Running, Settings, Path], monkeypatch: pytest.MonkeyPatch, decided: bool
) -> None:
    _, settings, good = stopped
    changed(settings)
    with monkeypatch.context() as crash:
        crash.setattr("service.files.fsync_directory", fail_after(1 if decided else 0))
        crash.setattr("service.operator.restore.finish_interrupted_restore", once(finish_interrupted_restore))
        with pytest.raises(KeyboardInterrupt):
            restore_backup(settings, good)
    left = settings.data_dir / (READY if decided else STAGED)
    assert left.exists()
    finish_interrupted_restore(settings)
    assert ("since" in targets(settings)) is not decided
    assert not left.exists()


def fail_after(good: int) -> Callable[[Path], None]:
    left = [good]

    def fsync(_: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt

    return fsync


def once(function: Callable[[Settings], None]) -> Callable[[Settings], None]:
    """The first call of it; afterwards the process is gone."""
    left = [1]

    def call(settings: Settings) -> None:
        left[0] -= 1
        if left[0] >= 0:
            function(settings)

    return call


def is_there(url: str) -> bool:
    database = Database(url)
    try:
        return migrate.stored_revision(database) == migrate.HEAD
    finally:
        database.close()


@pytest.mark.slow
@pytest.mark.parametrize("committed", [True, False])
def test_a_restore_of_postgresql_is_decided_by_its_transaction(
    new_database_url: Callable[[str, bool], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    with Running(new_database_url("postgresql", True), "empty") as running:
        settings, file = settings_of(running), tmp_path / "backup.tar"
        running.stop()
        create_backup(settings, file)
        key = settings.data_dir / "secret.key"
        secret = key.read_bytes()
        changed(settings)
        # As after a loss of the folder: what belongs to the database comes back with it, and only with it.
        key.unlink()
        with monkeypatch.context() as crash:
            crash.setattr(
                f"service.operator.restore.{'_is_audit_intact' if committed else '_require_no_replicas'}", interrupted
            )
            crash.setattr("service.operator.restore.finish_interrupted_restore", once(finish_interrupted_restore))
            with pytest.raises(KeyboardInterrupt):
                restore_backup(settings, file, trust=True)
        assert (settings.data_dir / STAGED).exists()
        finish_interrupted_restore(settings)
        assert ("since" in targets(settings)) is not committed
        assert (key.exists() and key.read_bytes() == secret) is committed
        restore_backup(settings, file, trust=True)
        running.start()


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_killed_restore_leaves_the_old_platform_or_the_new_one(
    kind: str, new_database_url: Callable[[str, bool], str], tmp_path: Path
) -> None:
    """kill -9 at 6 moments: the entry written since the backup is there with its data, or both are not."""
    with Running(new_database_url(kind, True) if kind == "postgresql" else None, "empty") as running:
        settings, file = settings_of(running), tmp_path / "backup.tar"
        running.stop()
        create_backup(settings, file)
        words = [str(file), "--data-dir", str(running.folder), "--database", running.database_url]
        command = [sys.executable, "-m", "service.operator.restore", *words]
        began = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        whole = time.monotonic() - began
        for share in (0.0, *(random.Random(7).uniform(0.3, 1.1) for _ in range(5))):
            changed(settings)
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(whole * share)
            process.send_signal(signal.SIGKILL)
            process.wait()
            # What it had begun on a server ends with it, but not at the same moment.
            until(lambda: is_there(running.database_url), 30)
            finish_interrupted_restore(settings)
            assert ("since" in targets(settings)) is ("changed since" in values_of(settings, tenants.c.display_name))
            assert (settings.data_dir / "secret.key").stat().st_size == 32
            assert not (settings.data_dir / READY).exists()
            assert not (settings.data_dir / STAGED).exists()
            restore_backup(settings, file)
        running.start()
        assert verified(running)["ok"]
