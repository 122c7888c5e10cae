"""The secret that processes and a database share."""

import os
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import insert, select

from service.app import create_app
from service.db import migrate
from service.db.engine import Database
from service.db.tables import platform_state
from service.secret_key import FINGERPRINT, SECRET_BYTES, fingerprint, secret_for
from service.settings import from_arguments
from tests.service.conftest import KINDS
from tests.service.running import OWNER, WEB_SHOP, Running

NewUrl = Callable[[str, bool], str]


def kept(path: Path, secret: bytes = b"k" * SECRET_BYTES) -> Path:
    path.write_bytes(secret)
    path.chmod(0o600)
    return path


def stored(database: Database) -> str | None:
    with database.read() as connection:
        return connection.scalar(select(platform_state.c.value).where(platform_state.c.name == FINGERPRINT))


def begin_world(database: Database) -> None:
    with database.write() as connection:
        connection.execute(insert(platform_state).values(name="world", value="demo"))


def test_a_new_database_gets_a_secret_and_stores_its_fingerprint(database: Database, tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    secret = secret_for(database, path)
    assert (path.read_bytes(), len(secret), path.stat().st_mode & 0o777) == (secret, SECRET_BYTES, 0o600)
    assert stored(database) == fingerprint(secret)
    assert secret.hex() not in fingerprint(secret)
    assert secret_for(database, path) == secret


def test_a_new_secret_is_synced_before_its_fingerprint(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file and its name: a machine that loses its power just then has both or neither."""
    safe: list[tuple[bool, str | None]] = []
    real = os.fsync

    def noted(descriptor: int) -> None:
        real(descriptor)
        safe.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), stored(database)))

    monkeypatch.setattr("os.fsync", noted)
    path = tmp_path / "secret.key"
    secret_for(database, path)
    assert [one for one in safe if one[1] is None] == [(False, None), (True, None)]
    assert path.exists()


def test_another_secret_is_refused_in_one_line_and_stays_as_it_is(database: Database, tmp_path: Path) -> None:
    secret_for(database, tmp_path / "first")
    other = kept(tmp_path / "other")
    with pytest.raises(
        ValueError, match=r"created with another secret than .*/other; set --secret-file to the original file$"
    ) as refused:
        secret_for(database, other)
    assert "\n" not in str(refused.value)
    assert other.read_bytes() == b"k" * SECRET_BYTES


def test_a_missing_secret_is_not_replaced(database: Database, tmp_path: Path) -> None:
    first = secret_for(database, tmp_path / "first")
    with pytest.raises(ValueError, match="is missing, and without it no API key works"):
        secret_for(database, tmp_path / "lost")
    assert list(tmp_path.iterdir()) == [tmp_path / "first"]
    assert secret_for(database, kept(tmp_path / "lost", first)) == first


def test_a_database_of_an_older_version_takes_the_secret_that_is_there(database: Database, tmp_path: Path) -> None:
    begin_world(database)
    with pytest.raises(ValueError, match="is missing"):
        secret_for(database, tmp_path / "lost")
    secret = secret_for(database, kept(tmp_path / "secret.key"))
    assert stored(database) == fingerprint(secret)


def test_of_many_that_begin_a_database_at_once_one_decides(database_url: str, tmp_path: Path) -> None:
    shared, outcomes = tmp_path / "shared", list[bytes | str]()
    paths = [path for number in range(4) for path in (shared, tmp_path / f"own-{number}")]
    gate = threading.Barrier(len(paths))

    def begin(path: Path) -> None:
        opened = Database(database_url)
        gate.wait()
        try:
            outcomes.append(secret_for(opened, path))
        except ValueError as error:
            outcomes.append(str(error))
        opened.close()

    with ThreadPoolExecutor(len(paths)) as threads:
        list(threads.map(begin, paths))
    (made,) = tmp_path.iterdir()
    secrets = [outcome for outcome in outcomes if isinstance(outcome, bytes)]
    assert set(secrets) == {made.read_bytes()}
    assert len(secrets) == (4 if made == shared else 1)
    assert all("is missing" in outcome for outcome in outcomes if isinstance(outcome, str))


def test_a_world_readable_secret_is_refused(database: Database, tmp_path: Path) -> None:
    path = kept(tmp_path / "secret.key")
    path.chmod(0o644)
    with pytest.raises(ValueError, match="is readable by all users"):
        secret_for(database, path)
    path.chmod(0o640)
    assert secret_for(database, path) == path.read_bytes()


def test_a_file_that_cannot_be_made_begins_nothing(database: Database, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is missing and cannot be created: No such file or directory"):
        secret_for(database, tmp_path / "nowhere" / "secret.key")
    assert stored(database) is None
    assert secret_for(database, tmp_path / "secret.key")


@pytest.mark.parametrize("kind", KINDS)
def test_another_secret_leaves_an_older_database_unchanged(kind: str, new_database_url: NewUrl, tmp_path: Path) -> None:
    database = Database(new_database_url(kind, False))
    with database.write() as connection:
        migrate.create(connection, "0005")
    secret_for(database, tmp_path / "first")
    url = database.engine.url.render_as_string(hide_password=False)
    other = kept(tmp_path / "other")
    with pytest.raises(ValueError, match="another secret"):
        create_app(from_arguments(["--data-dir", str(tmp_path), "--database", url, "--secret-file", str(other)], {}))
    assert migrate.stored_revision(database) == "0005"
    database.close()


@pytest.mark.slow
def test_processes_with_one_secret_accept_each_others_credentials(new_database_url: NewUrl) -> None:
    url = new_database_url("postgresql", True)
    with Running(url) as first:
        secret_file = first.folder / "secret.key"
        with Running(url, "demo", "--secret-file", str(secret_file)) as second:
            assert not (second.folder / "secret.key").exists()
            assert second.get("/api/v1/me", headers={"X-API-Key": first.key("deploy-pipeline")}).status == 200
            token = first.token(OWNER)
            assert second.get("/api/v1/me", headers={"Authorization": f"Bearer {token}"}).status == 200
            # Signed by the other one: the local issuer's key lies beside the secret.
            assert first.get("/api/v1/me", headers={"Authorization": f"Bearer {second.token(OWNER)}"}).status == 200
            groups = f"/api/v1/tenants/{WEB_SHOP}/iam/groups?limit=1"
            cursor = first.get(groups, as_=OWNER).json()["nextCursor"]
            assert second.get(f"{groups}&cursor={cursor}", as_=OWNER).status == 200
            refused = Running(url)
            try:
                assert refused.launch().wait(60) == 1
                told = refused.log.splitlines()[-1]
                assert told.startswith("frost platform: ")
                assert "is missing" in told
            finally:
                refused.__exit__(None, None, None)
