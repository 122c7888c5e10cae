"""The files of the data directory: what a start needs, and refuses with the name of the file and the way back."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from joserfc.jwk import ECKey
from sqlalchemy import delete
from sqlalchemy.exc import SQLAlchemyError

from service import data_directory
from service.app import create_app, open_platform
from service.db import migrate
from service.db.engine import Database
from service.db.tables import platform_state
from service.files import DamagedFile
from service.jobs import queue_file
from service.oidc_issuer.issuer import LocalIssuer
from service.oidc_issuer.key_file import N, public_point, read_key
from service.secret_key import secret_for
from service.seed.loader import KEY_FILE
from service.server import start_error
from service.settings import Settings, from_arguments
from tests.service.queries import execute
from tests.service.running import Executed

Damage = Callable[[Path], object]
SUFFIXES = ("", "-wal", "-shm")


def settings_of(folder: Path) -> Settings:
    return from_arguments(["--data-dir", str(folder), "--world", "empty"], {})


def start(folder: Path) -> None:
    """Open the platform and close it."""
    open_platform(settings_of(folder)).database.close()


def refusal(folder: Path) -> str:
    """Return the single line with which a start is refused; empty if it starts."""
    settings = settings_of(folder)
    try:
        start(folder)
    except (ValueError, DamagedFile, OSError, SQLAlchemyError) as error:
        line = start_error(error, settings)
        assert "\n" not in line
        return line
    return ""


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a platform that has run operations and sign-ins."""
    folder = tmp_path_factory.mktemp("whole")
    platform = open_platform(settings_of(folder))
    assert isinstance(platform.issuer, LocalIssuer)
    platform.issuer.load_key()
    platform.database.close()
    with closing(sqlite3.connect(folder / "workflows.db")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE runs (text)")
        connection.executemany("INSERT INTO runs VALUES (?)", [("x" * 1000,)] * 50)
        connection.commit()
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "platform"
    shutil.copytree(whole, copy)
    return copy


def empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def overwrite(path: Path) -> None:
    path.write_bytes(b"\x01 no such content" * 500)


def replace_by_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def replace_by_fifo(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("name", "damages"),
    [
        ("platform.db", (Path.unlink, empty, cut, overwrite)),
        ("workflows.db", (cut, overwrite)),
        ("secret.key", (Path.unlink, empty, cut, overwrite)),
        ("issuer.jwk", (empty, cut, overwrite)),
    ],
)
def test_a_damaged_file_is_named_with_the_way_back_and_kept(
    folder: Path, whole: Path, name: str, damages: tuple[Damage, ...]
) -> None:
    file = folder / name
    for damage in damages:
        damage(file)
        before = file.read_bytes() if file.exists() else None
        line = refusal(folder)
        assert str(file) in line, (name, damage)
        assert "frost platform restore" in line or "frost platform reset" in line or "copy it from" in line
        # Nothing was repaired, replaced or created, so a second start says the same.
        assert (file.read_bytes() if file.exists() else None) == before
        assert refusal(folder) == line
        shutil.copy(whole / name, file)
        assert refusal(folder) == ""


def test_a_file_that_is_no_file_is_named(folder: Path, whole: Path) -> None:
    names = {file.name for file in whole.iterdir()} | {
        f"{name}{suffix}" for name in ("platform.db", "workflows.db") for suffix in SUFFIXES
    }
    for name in sorted(names):
        file = folder / name
        for damage, undo in ((replace_by_folder, Path.rmdir), (replace_by_fifo, Path.unlink)):
            damage(file)
            assert refusal(folder).startswith(f"{file} is not a plain file"), (name, damage)
            undo(file)
        if (whole / name).exists():
            shutil.copy(whole / name, file)
    assert refusal(folder) == ""


@pytest.mark.skipif(os.getuid() == 0, reason="root reads every file")
def test_a_file_that_this_user_cannot_use_is_named(folder: Path) -> None:
    for name in ("platform.db", "workflows.db", "secret.key", "issuer.jwk"):
        file = folder / name
        file.chmod(0)
        assert f"{file} cannot be read" in refusal(folder)
        file.chmod(0o600)
    assert refusal(folder) == ""


def test_what_the_platform_creates_again_may_be_missing(folder: Path) -> None:
    for name in ("workflows.db", "issuer.jwk", "world-keys.json", "platform.loaded"):
        (folder / name).unlink()
    (folder / "workflows.db").touch()  # as after a kill while it is created
    assert refusal(folder) == ""
    assert (folder / "platform.loaded").exists()


# The first start


@pytest.mark.parametrize("state", ["created", "migrated", "filled"])
def test_an_interrupted_first_start_begins_again(tmp_path: Path, migrated_file: Path, state: str) -> None:
    """It was killed after the file was created, after the migration, or before the commit of the seed."""
    database = tmp_path / "platform.db"
    if state == "created":
        database.touch()
    else:
        shutil.copy(migrated_file, database)
    if state == "filled":
        with closing(Database(f"sqlite:///{database}")) as opened:
            secret_for(opened, tmp_path / "secret.key")
        (tmp_path / KEY_FILE).write_text("{}")
    tmp_path.chmod(0o700)
    assert refusal(tmp_path) == ""
    assert (tmp_path / data_directory.MARK).exists()
    with closing(Database(f"sqlite:///{database}")) as opened:
        assert migrate.has_seed(opened)


def test_a_secret_may_be_there_before_the_first_start(tmp_path: Path) -> None:
    folder = tmp_path / "platform"
    folder.mkdir()
    secret = folder / "secret.key"
    secret.write_bytes(b"k" * 32)
    secret.chmod(0o600)
    assert refusal(folder) == ""
    assert secret.read_bytes() == b"k" * 32


def test_no_new_world_takes_the_place_of_a_lost_one(folder: Path) -> None:
    database = folder / "platform.db"

    def lose_world() -> None:
        with closing(Database(f"sqlite:///{database}")) as opened:
            execute(opened, delete(platform_state).where(platform_state.c.name == "world"))

    lose_world()
    assert f"{database} has lost the data" in refusal(folder)
    database.unlink()
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    assert f"{database} has lost the data" in refusal(folder)
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


def test_the_keys_of_a_seed_stand_for_the_mark_that_earlier_releases_did_not_write(folder: Path) -> None:
    (folder / data_directory.MARK).unlink()
    assert refusal(folder) == ""
    (folder / data_directory.MARK).unlink()
    (folder / "platform.db").unlink()
    assert "platform.db is missing" in refusal(folder)
    assert not (folder / "platform.db").exists()


def test_a_log_of_changes_is_not_lost_with_an_emptied_database(folder: Path) -> None:
    database, log = folder / "platform.db", folder / "platform.db-wal"
    empty(database)
    log.write_bytes(b"changes that are not in the database yet")
    assert "platform.db is empty" in refusal(folder)
    assert log.read_bytes() == b"changes that are not in the database yet"


def test_another_database_than_the_default_needs_no_mark(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "platform", tmp_path / "elsewhere.db"
    folder.mkdir(mode=0o700)
    arguments = ["--data-dir", str(folder), "--world", "empty", "--database", f"sqlite:///{elsewhere}"]
    settings = from_arguments(arguments, {})
    open_platform(settings).database.close()
    assert not (folder / data_directory.MARK).exists()
    elsewhere.unlink()
    for name in ("secret.key", "audit.mark"):
        (folder / name).unlink(missing_ok=True)
    open_platform(settings).database.close()


# workflows.db


def test_the_queue_file_is_whole_damaged_or_locked(folder: Path) -> None:
    file = folder / "workflows.db"
    assert queue_file.check(file) == "ok"
    assert queue_file.check(folder / "none.db") == "ok"
    assert not (folder / "none.db").exists()
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        assert queue_file.check(file) == "locked"
    with file.open("r+b") as out:
        out.seek(5 * 4096)
        out.write(b"\xff" * 4096)
    assert queue_file.check(file) == "damaged"


def test_the_queue_file_is_checked_again_when_it_has_changed(folder: Path) -> None:
    checked = queue_file.QueueFile(folder / "workflows.db")
    assert [checked.check(), checked.check()] == ["ok", "ok"]
    cut(folder / "workflows.db")
    assert [checked.check(), checked.check()] == ["damaged", "damaged"]
    (folder / "workflows.db").unlink()
    assert checked.check() == "ok"


def test_a_start_checks_the_queue_file_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[Path] = []
    check = queue_file.check

    def count(path: Path) -> str:
        checks.append(path)
        return check(path)

    monkeypatch.setattr(queue_file, "check", count)
    app = create_app(settings_of(folder))
    with closing(app.state.platform.database):
        assert app.state.worker.check() == "ok"
    assert checks == [folder / "workflows.db"]


# issuer.jwk


def key_of(**changes: object) -> dict[str, object]:
    key = ECKey.generate_key("P-256", auto_kid=True).as_dict(private=True)
    return {name: value for name, value in {**key, **changes}.items() if value is not None}


def test_a_generated_key_is_read_and_its_public_part_is_that_of_the_private(tmp_path: Path) -> None:
    file = tmp_path / "issuer.jwk"
    for key in (key_of(), key_of(kid=None), key_of(use="sig", alg="ES256", key_ops=["sign"])):
        file.write_text(json.dumps(key))
        assert read_key(file) == key
    assert read_key(tmp_path / "none") is None
    # Points of NIST's test vectors for the curve.
    two = 0x7CF27B188D034F7E8A52380304B51AC3C08969E277F21B35A60B48FC47669978
    assert public_point(2)[0] == two
    assert public_point(N - 2)[0] == two
    for number in (0, N):
        with pytest.raises(ValueError, match="range"):
            public_point(number)


OTHER = ECKey.generate_key("P-256").as_dict(private=True)


CHANGES: tuple[dict[str, object], ...] = (
    {"kty": "OKP"},
    {"crv": "P-384"},
    {"d": None},
    {"d": 5},
    {"d": "AAAA"},
    {"d": OTHER["d"]},
    {"x": OTHER["x"]},
    {"y": "A" * 43},
    {"d": "!" * 43},
    {"kid": 5},
    {"use": "enc"},
    {"alg": "RS256"},
    {"key_ops": ["verify"]},
    {"key_ops": 5},
)


def test_another_content_is_no_key(tmp_path: Path) -> None:
    file = tmp_path / "issuer.jwk"
    contents = [b"", b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 16_000, b" " * 20_000]
    for content in (*contents, *(json.dumps(key_of(**changes)).encode() for changes in CHANGES)):
        file.write_bytes(content)
        with pytest.raises(DamagedFile, match=f"^{file} is damaged: it is not a private P-256 key; "):
            read_key(file)


@pytest.mark.slow
def test_the_process_refuses_each_path_in_one_line() -> None:
    """Also those that are opened before the platform."""
    with Executed(None, "empty") as running:
        running.stop()
        for name, damage in (
            ("platform.db", Path.unlink),
            ("restore.staged", replace_by_fifo),
            ("restore.ready", Path.touch),
            ("platform.lock", replace_by_folder),
            ("api.sock", Path.touch),
        ):
            file = running.folder / name
            damage(file)
            lines = len(running.log.splitlines())
            assert running.launch().wait(60) == 1
            (line,) = running.log.splitlines()[lines:]
            assert line.startswith(f"frost platform: {file} "), line
            if file.is_dir():
                file.rmdir()
            file.unlink(missing_ok=True)
            if name == "platform.db":
                # What `frost platform reset` removes.
                (running.folder / data_directory.MARK).unlink()
                (running.folder / KEY_FILE).unlink()
                (running.folder / "audit.mark").unlink()
        running.start()
