"""Backup and restore."""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select, update

from service.app import open_platform
from service.db.engine import Database
from service.db.tables import audit_log, tenants
from service.http_server.sockets import StartError
from service.operator import backup_archive
from service.operator.backup import create_backup
from service.operator.backup_archive import InvalidBackup
from service.operator.restore import READY, STAGED, finish_interrupted_restore, restore_backup
from service.settings import Settings, from_arguments
from tests.people import AURORA, OWNER, STAGING
from tests.service import factories
from tests.service.queries import execute, fetch_scalars
from tests.service.running import Running
from tests.waiting import until

RENAME = f"/api/v1/tenants/{STAGING}"


def settings_in(folder: Path, *flags: str) -> Settings:
    return from_arguments(["--data-dir", str(folder), *flags], {})


def settings_of(running: Running) -> Settings:
    return settings_in(running.folder, "--database", running.database_url)


def rename(running: Running, name: str) -> None:
    assert running.ask("PATCH", RENAME, as_=OWNER, body={"displayName": name}).status == 200


def verified(running: Running) -> Any:
    return running.get("/api/v1/platform/audit/verify").json()


def values_of(settings: Settings, query: Any) -> list[Any]:
    with closing(Database(settings.database_url)) as database:
        return fetch_scalars(database, query)


@pytest.mark.slow
def test_a_busy_platform_is_restored_to_one_moment(platform: Running, tmp_path: Path) -> None:
    """Keys, sessions, the chain and open operations are as they were; later changes are gone."""
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
        audit = create_backup(settings, file)["audit"]
    finally:
        stop.set()
        busy.join()
    assert file.stat().st_mode & 0o777 == 0o600
    rename(platform, "After")
    creation = f"/api/v1/organizations/{AURORA}/tenants"
    later = platform.ask("POST", creation, as_=OWNER, body={"displayName": "Later"}).json()["id"]
    assert platform.stop() == 0
    assert restore_backup(settings, file)["auditWhole"]
    platform.start()
    until(lambda: verified(platform)["unsealed"] == 0)
    whole = verified(platform)
    # A session that is marked as seen writes no entry.
    assert (whole["ok"], whole["entries"]) == (True, audit["entries"] + audit["unsealed"])
    for log in (audit, whole):
        head = select(audit_log.c.hash).where(audit_log.c.sequence == log["entries"])
        assert values_of(settings, head) == [log["head"]]
    assert platform.get(RENAME, as_=OWNER).json()["displayName"].startswith(("Before", "Busy"))
    assert platform.get("/api/v1/tenants", key="terraform").status == 200
    assert later not in [one["id"] for one in platform.get("/api/v1/tenants", as_=OWNER).json()["tenants"]]
    assert platform.get("/api/v1/platform/status").json()["openOperations"] == 1
    rename(platform, "Goes on")
    assert verified(platform)["ok"]


@pytest.mark.slow
def test_running_replicas_are_not_restored(new_database_url: Callable[[str, bool], str], tmp_path: Path) -> None:
    with Running(new_database_url("postgresql", True), "empty") as running:
        settings = settings_of(running)
        create_backup(settings, tmp_path / "backup.tar")
        other = Running(running.database_url, "empty")
        shutil.copytree(running.folder, other.folder, ignore=shutil.ignore_patterns("*.sock", "*.lock"))
        with other:
            running.stop()
            with pytest.raises(InvalidBackup, match="other replicas are running"):
                restore_backup(settings, tmp_path / "backup.tar")
        running.start()


def test_only_a_stopped_platform_is_restored_and_dropped_entries_stay_so(platform: Running, tmp_path: Path) -> None:
    file, settings = tmp_path / "backup.tar", settings_of(platform)
    segment = platform.get("/api/v1/platform/audit/export?before=9999-01-01T00:00:00Z").json()["segment"]
    assert platform.ask("POST", "/api/v1/platform/audit/drop", body=segment).status == 200
    create_backup(settings, file)
    dropped = verified(platform)["dropped"]
    rename(platform, "Since")
    with pytest.raises(StartError, match="is already running") as running:
        restore_backup(settings, file)
    assert running.value.status == 75
    assert platform.stop() == 0
    assert restore_backup(settings, file)["auditWhole"]
    platform.start()
    after = verified(platform)
    assert (after["ok"], after["dropped"], dropped["last"]) == (True, dropped, segment["last"])
    # The chain is shorter than before: the restore has set the mark.
    assert (after["mark"]["state"], after["mark"]["origin"]) == ("ok", "restored")


Stopped = tuple[Settings, Path]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    """A platform on SQLite that does not run, and a backup of it."""
    running = Running(None, "empty")
    running.start()
    running.stop()
    settings, file = settings_of(running), tmp_path_factory.mktemp("backup") / "good.tar"
    create_backup(settings, file)
    yield settings, file
    shutil.rmtree(running.folder.parent)


def state(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "platform.lock")
    return {str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest() for path in files}


Part = tuple[tarfile.TarInfo, bytes]


def members(file: Path) -> list[Part]:
    with tarfile.open(file) as tar:
        return [(one, tar.extractfile(one).read()) for one in tar.getmembers()]  # type: ignore[union-attr]


def write(path: Path, parts: list[Part]) -> None:
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for member, content in parts:
            member.size = len(content) if member.isreg() else 0
            tar.addfile(member, io.BytesIO(content))


def sealed(manifest: bytes, parts: list[Part], secret: bytes | None = None) -> list[Part]:
    """Parts with another manifest and the digest and seal of it, without a secret with the seal as it was."""
    first, *files, digest, seal = parts
    end = backup_archive.seal_of(manifest, secret).encode() if secret else seal[1]
    return [(first[0], manifest), *files, (digest[0], sha256(manifest).hexdigest().encode()), (seal[0], end)]


def secret_in(parts: list[Part]) -> bytes:
    return next(content for member, content in parts if member.name == backup_archive.SECRET)


Forge = Callable[[list[Part]], list[Part]]
"""Make the parts of another archive from those of a good backup."""


def change_manifest(parts: list[Part], **changes: Any) -> list[Part]:
    return sealed(json.dumps(json.loads(parts[0][1]) | changes).encode(), parts, secret_in(parts))


def rename_keys(name: str, parts: list[Part]) -> list[Part]:
    for member, _ in parts:
        member.name = name if member.name == "world-keys.json" else member.name
    return sealed(parts[0][1].replace(b'"world-keys.json"', json.dumps(name).encode()), parts, secret_in(parts))


def link_secret(kind: bytes, parts: list[Part]) -> list[Part]:
    """Make the secret a link, as another program would follow it."""
    for member, _ in parts:
        if member.name == "secret.key":
            member.type, member.linkname = kind, "/etc/passwd"
    return parts


def flip_bit(name: str, parts: list[Part]) -> list[Part]:
    return [(one, bytes([data[0] ^ 1, *data[1:]]) if one.name == name else data) for one, data in parts]


def change_end(*end: Part, of: int = 1) -> Forge:
    return lambda parts: [*parts[:-of], *end]


UNFIT: dict[str, tuple[Forge, str]] = {
    "cut before its end": (change_end(of=2), "truncated"),
    "cut in its seal": (change_end((tarfile.TarInfo("more"), b"0" * 64)), "another file in place"),
    "sealed with another secret": (
        lambda parts: sealed(parts[0][1], parts, b"x" * 32),
        "its seal does not match the secret in",
    ),
    "an empty seal": (change_end((tarfile.TarInfo(backup_archive.SEAL), b"")), "its seal does not match the secret in"),
    "a seal of other bytes": (
        change_end((tarfile.TarInfo(backup_archive.SEAL), b"\xff" * 64)),
        "its seal does not match the secret in",
    ),
    "without a seal": (change_end(), "it has no seal.*--trust"),
    "a bit of the database": (partial(flip_bit, "platform.db"), "damaged"),
    "a bit of the secret": (partial(flip_bit, "secret.key"), "damaged"),
    "a bit of the manifest": (partial(flip_bit, "manifest.json"), "not a frost backup|damaged"),
    "a symbolic link": (partial(link_secret, tarfile.SYMTYPE), "another file in place"),
    "a hard link": (partial(link_secret, tarfile.LNKTYPE), "another file in place"),
    "a device": (partial(link_secret, tarfile.CHRTYPE), "another file in place"),
    "a way up": (partial(rename_keys, "../../evil"), "unexpected file"),
    "a way elsewhere": (partial(rename_keys, "/tmp/evil"), "unexpected file"),
    "another file": (partial(rename_keys, "platform.lock"), "unexpected file"),
    "huge": (partial(change_manifest, files={"secret.key": {"bytes": 2**60, "sha256": "0"}}), "not enough space"),
    "newer format": (partial(change_manifest, format=99), "newer frost"),
    "newer schema": (partial(change_manifest, revision="0999", version="9.9"), "newer frost"),
    "another schema than it says": (partial(change_manifest, revision="0001"), "its database is corrupt"),
    "of PostgreSQL": (partial(change_manifest, database="postgresql"), "has a postgresql database"),
    "no secret": (partial(change_manifest, files={}), "not a frost backup"),
    "a file without its digest": (partial(change_manifest, files={"secret.key": {"bytes": 32}}), "not a frost backup"),
    "without an instant": (partial(change_manifest, createdAt=None), "not a frost backup"),
}
NO_ARCHIVE: dict[str, Callable[[Path, bytes], object]] = {
    "not a frost backup": lambda path, good: path.write_bytes(b"a" * 2000),
    "cannot be read": lambda path, good: None,
    "not a regular file": lambda path, good: os.mkfifo(path),
    "Is a directory": lambda path, good: path.mkdir(),
    "truncated": lambda path, good: path.write_bytes(good[: len(good) // 2]),
}


@pytest.mark.parametrize("name", [*UNFIT, *NO_ARCHIVE])
def test_an_invalid_backup_is_refused_and_changes_nothing(stopped: Stopped, tmp_path: Path, name: str) -> None:
    settings, good = stopped
    before, bad = state(settings.data_dir), tmp_path / "bad.tar"
    forge, reason = UNFIT.get(name, (None, name))
    if forge:
        write(bad, forge(members(good)))
    else:
        NO_ARCHIVE[name](bad, good.read_bytes())
    with pytest.raises(InvalidBackup, match=reason):
        restore_backup(settings, bad)
    assert state(settings.data_dir) == before
    assert not list(settings.data_dir.parent.rglob("evil"))


def test_a_backup_without_a_seal_is_restored_with_trust_only(stopped: Stopped, tmp_path: Path) -> None:
    settings, good = stopped
    file = tmp_path / "earlier.tar"
    write(file, members(good)[:-1])
    before = state(settings.data_dir)
    command = [sys.executable, "-m", "service.operator.restore", str(file), "--data-dir", str(settings.data_dir)]
    refused = subprocess.run([*command, "--check"], capture_output=True, text=True, timeout=120, check=False)
    assert (refused.returncode, refused.stderr) == (
        3,
        "it has no seal: an earlier release created it, or the seal was removed; "
        "--trust restores it without verification\n",
    )
    assert state(settings.data_dir) == before
    done = subprocess.run([*command, "--trust"], capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout)["auditWhole"]


def test_an_empty_machine_is_restored_with_the_secret_or_with_trust(stopped: Stopped, tmp_path: Path) -> None:
    settings, good = stopped
    empty = settings_in(tmp_path / "empty")
    with pytest.raises(InvalidBackup) as refused:
        restore_backup(empty, good)
    reason = str(refused.value)
    assert reason.startswith(f"its seal cannot be verified: no secret in {empty.secret_file}; ")
    assert "--secret-file FILE" in reason
    assert "--trust" in reason
    assert {path.name for path in empty.data_dir.iterdir()} <= {"platform.lock"}
    restore_backup(empty, good, trust=True)
    assert empty.secret_file.read_bytes() == settings.secret_file.read_bytes()
    # The secret of the backup verifies it from another file, and another secret does not.
    other = tmp_path / "other.key"
    other.touch(0o600)
    second = settings_in(tmp_path / "second", "--secret-file", str(other))
    other.write_bytes(b"o" * 32)
    with pytest.raises(InvalidBackup):
        restore_backup(second, good, trust=True)
    other.write_bytes(settings.secret_file.read_bytes())
    assert restore_backup(second, good)["auditWhole"]


def test_a_wrong_seal_is_refused_with_trust_as_well(stopped: Stopped, tmp_path: Path) -> None:
    """Everything but the seal fits the changed manifest."""
    settings, good = stopped
    parts, file = members(good), tmp_path / "changed.tar"
    write(file, sealed(json.dumps(json.loads(parts[0][1]) | {"createdAt": "2020-01-01T00:00:00.000Z"}).encode(), parts))
    for place in (settings, settings_in(tmp_path / "empty")):
        with pytest.raises(InvalidBackup, match="its seal does not match"):
            restore_backup(place, file, trust=True)


def test_a_backup_needs_a_platform_and_replaces_no_file(stopped: Stopped, tmp_path: Path) -> None:
    settings, good = stopped
    before = good.read_bytes()
    elsewhere = settings_in(tmp_path)
    for reason, place, file in (("already exists", settings, good), ("no platform in", elsewhere, tmp_path / "b.tar")):
        with pytest.raises(InvalidBackup, match=reason):
            create_backup(place, file)
    assert (good.read_bytes(), [one.name for one in good.parent.iterdir()]) == (before, [good.name])


def change(settings: Settings) -> None:
    """Rename all tenants, and add an entry without a hash."""
    entry = insert(audit_log).values(factories.entry("since"))
    with closing(Database(settings.database_url)) as database:
        execute(database, update(tenants).values(display_name="changed since"), entry)


def is_changed(settings: Settings) -> bool:
    return "since" in values_of(settings, select(audit_log.c.target))


def test_a_database_on_another_disk_is_restored(tmp_path: Path) -> None:
    folder, disk = tmp_path / "platform", Path("/dev/shm")
    if not disk.is_dir() or disk.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs a second file system: /dev/shm is none here")
    folder.mkdir(mode=0o700)
    with tempfile.TemporaryDirectory(dir=disk) as elsewhere:
        settings = settings_in(folder, "--world", "empty", "--database", f"sqlite:///{elsewhere}/other.db")
        open_platform(settings).database.close()
        create_backup(settings, tmp_path / "good.tar")
        change(settings)
        restore_backup(settings, tmp_path / "good.tar")
        assert not is_changed(settings)
        assert [one.name for one in Path(elsewhere).iterdir()] == ["other.db"]
    assert not (folder / READY).exists()


@pytest.mark.parametrize("decided", [True, False])
def test_a_start_finishes_or_discards_a_restore(
    stopped: Stopped, monkeypatch: pytest.MonkeyPatch, decided: bool
) -> None:
    settings, good = stopped
    change(settings)
    end_process(monkeypatch, "service.files.fsync_directory", 2 if decided else 0)
    with pytest.raises(KeyboardInterrupt):
        restore_backup(settings, good)
    monkeypatch.undo()
    left = settings.data_dir / (READY if decided else STAGED)
    assert left.exists()
    finish_interrupted_restore(settings)
    assert is_changed(settings) is not decided
    assert not left.exists()


def end_process(monkeypatch: pytest.MonkeyPatch, function: str, calls: int) -> None:
    """Have the process end in a function after some calls, without the cleaning that follows an error."""
    left, cleaning = iter(range(calls)), iter([finish_interrupted_restore])

    def call(*_: object) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    def clean(settings: Settings) -> None:
        # The first call is that at the start of a restore.
        for first in cleaning:
            return first(settings)

    monkeypatch.setattr(function, call)
    monkeypatch.setattr("service.operator.restore.finish_interrupted_restore", clean)


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
        change(settings)
        # As after a loss of the folder: the secret comes back with the database, and only with it.
        key.unlink()
        step = "_is_audit_intact" if committed else "_require_no_replicas"
        end_process(monkeypatch, f"service.operator.restore.{step}", 0)
        with pytest.raises(KeyboardInterrupt):
            restore_backup(settings, file, trust=True)
        monkeypatch.undo()
        assert (settings.data_dir / STAGED).exists()
        finish_interrupted_restore(settings)
        assert is_changed(settings) is not committed
        assert (key.exists() and key.read_bytes() == secret) is committed
        restore_backup(settings, file, trust=True)
        running.start()
