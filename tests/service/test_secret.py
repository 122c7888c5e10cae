"""The secret that processes and a database share."""

import os
import stat
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import insert, select

from service.app import create_app
from service.db import migrate
from service.db.engine import Database
from service.db.tables import platform_state
from service.secret_key import FINGERPRINT, SECRET_BYTES, fingerprint, secret_for
from service.settings import from_arguments
from tests.service.conftest import KINDS, NewDatabaseUrl
from tests.service.queries import execute
from tests.waiting import at_once


def write_key(path: Path, secret: bytes = b"k" * SECRET_BYTES) -> Path:
    path.write_bytes(secret)
    path.chmod(0o600)
    return path


def stored(database: Database) -> str | None:
    with database.read() as connection:
        return connection.scalar(select(platform_state.c.value).where(platform_state.c.name == FINGERPRINT))


def test_a_new_database_gets_a_secret_and_stores_its_fingerprint(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[bool, str | None]] = []
    real = os.fsync

    def record(descriptor: int) -> None:
        real(descriptor)
        synced.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), stored(database)))

    monkeypatch.setattr("os.fsync", record)
    path = tmp_path / "secret.key"
    secret = secret_for(database, path)
    # The file and its name are synced before the fingerprint: after a loss of power both are there, or neither.
    assert [one for one in synced if one[1] is None] == [(False, None), (True, None)]
    assert (path.read_bytes(), len(secret), path.stat().st_mode & 0o777) == (secret, SECRET_BYTES, 0o600)
    assert stored(database) == fingerprint(secret)
    assert secret.hex() not in fingerprint(secret)
    assert secret_for(database, path) == secret


def test_another_or_a_missing_secret_is_refused_and_not_replaced(database: Database, tmp_path: Path) -> None:
    first = secret_for(database, tmp_path / "first")
    other = write_key(tmp_path / "other")
    message = r"created with another secret than .*/other; set --secret-file to the original file$"
    with pytest.raises(ValueError, match=message) as refusal:
        secret_for(database, other)
    assert "\n" not in str(refusal.value)
    assert other.read_bytes() == b"k" * SECRET_BYTES
    with pytest.raises(ValueError, match="is missing, and without it no API key works"):
        secret_for(database, tmp_path / "lost")
    assert set(tmp_path.iterdir()) == {tmp_path / "first", other}
    assert secret_for(database, write_key(tmp_path / "lost", first)) == first


def test_a_database_of_an_older_version_takes_the_secret_that_is_there(database: Database, tmp_path: Path) -> None:
    execute(database, insert(platform_state).values(name="world", value="demo"))
    with pytest.raises(ValueError, match="is missing"):
        secret_for(database, tmp_path / "lost")
    secret = secret_for(database, write_key(tmp_path / "secret.key"))
    assert stored(database) == fingerprint(secret)


def test_of_many_that_begin_a_database_at_once_one_decides(database_url: str, tmp_path: Path) -> None:
    shared = tmp_path / "shared"

    def begin(opened: Database, path: Path) -> bytes | str:
        with closing(opened):
            try:
                return secret_for(opened, path)
            except ValueError as error:
                return str(error)

    paths = [path for number in range(4) for path in (shared, tmp_path / f"own-{number}")]
    outcomes = at_once([partial(begin, Database(database_url), path) for path in paths])
    (file,) = tmp_path.iterdir()
    secrets = [outcome for outcome in outcomes if isinstance(outcome, bytes)]
    assert set(secrets) == {file.read_bytes()}
    assert len(secrets) == (4 if file == shared else 1)
    assert all("is missing" in outcome for outcome in outcomes if isinstance(outcome, str))


def test_a_world_readable_secret_and_a_file_that_cannot_be_created_are_refused(
    database: Database, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="is missing and cannot be created: No such file or directory"):
        secret_for(database, tmp_path / "nowhere" / "secret.key")
    assert stored(database) is None
    path = write_key(tmp_path / "secret.key")
    path.chmod(0o644)
    with pytest.raises(ValueError, match="is readable by all users"):
        secret_for(database, path)
    path.chmod(0o640)
    assert secret_for(database, path) == path.read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_another_secret_changes_no_older_database(kind: str, new_database_url: NewDatabaseUrl, tmp_path: Path) -> None:
    database = Database(new_database_url(kind, False))
    with database.write() as connection:
        migrate.create(connection, "0005")
    secret_for(database, tmp_path / "first")
    url = database.engine.url.render_as_string(hide_password=False)
    other = write_key(tmp_path / "other")
    with pytest.raises(ValueError, match="another secret"):
        create_app(from_arguments(["--data-dir", str(tmp_path), "--database", url, "--secret-file", str(other)], {}))
    assert migrate.stored_revision(database) == "0005"
    database.close()
