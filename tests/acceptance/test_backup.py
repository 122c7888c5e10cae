"""`frost platform backup` and `frost platform restore` against a real local platform."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.people import AURORA
from tests.homes import Home


def names(home: Home) -> list[str]:
    return [item["displayName"] for item in home.json("tenant", "list", "--all")["items"]]


@pytest.mark.slow
def test_a_running_platform_is_backed_up_and_put_back(demo: Home, tmp_path: Path) -> None:
    demo.sign_in()
    file = tmp_path / "monday.tar"
    before = names(demo)
    made = demo.json("platform", "backup", str(file))
    assert (made["database"], made["file"], made["bytes"]) == ("sqlite", str(file), file.stat().st_size)
    demo.frost("tenant", "create", "--name", "Later", "--organization", AURORA)
    assert "Later" in names(demo)
    pid = demo.platform_pid()
    assert demo.frost("platform", "restore", str(file)).code == 2
    assert demo.platform_pid() == pid
    restored = demo.json("platform", "restore", str(file), "--yes")
    assert restored["auditWhole"]
    # It ran, so it runs again; who was signed in still is.
    assert demo.platform_pid() not in (None, pid)
    assert names(demo) == before
    assert demo.json("platform", "audit", "verify")["ok"]


def test_an_invalid_backup_stops_no_platform(demo: Home, tmp_path: Path) -> None:
    demo.start()
    pid = demo.platform_pid()
    (tmp_path / "not.tar").write_text("no tar")
    refused = demo.frost("platform", "restore", str(tmp_path / "not.tar"), "--yes", "-o", "json")
    assert (refused.code, refused.error()["code"]) == (1, "RESTORE_REFUSED")
    assert "not a frost backup" in refused.error()["message"]
    again = demo.frost("platform", "backup", str(tmp_path / "not.tar"))
    assert (again.code, "already exists" in again.err) == (1, True)
    assert demo.frost("platform", "restore", "", "--yes").code == 2
    nowhere = demo.frost("platform", "backup", str(tmp_path / "none" / "x.tar"))
    assert (nowhere.code, f"{tmp_path / 'none'}: No such file" in nowhere.err) == (1, True), nowhere.err
    assert demo.platform_pid() == pid


def test_backup_and_restore_take_a_secret_file(demo: Home, tmp_path: Path) -> None:
    """As a replica is served; which folder is the current one does not matter."""
    demo.start()
    assert demo.frost("platform", "stop").code == 0
    secret, file = tmp_path / "shared.key", tmp_path / "monday.tar"
    (demo.platform_dir / "secret.key").rename(secret)
    served = ("--data-dir", str(demo.platform_dir), "--secret-file", secret.name)
    refused = demo.frost("platform", "backup", str(file), "--data-dir", str(demo.platform_dir))
    assert (refused.code, "use the --secret-file of" in refused.err) == (1, True), refused.err
    assert demo.frost("platform", "backup", str(file), *served, cwd=tmp_path).code == 0
    assert demo.frost("platform", "restore", str(file), "--yes", *served, cwd=tmp_path).code == 0
    assert not (demo.platform_dir / "secret.key").exists()
    secret.rename(tmp_path / "lost.key")
    lost = demo.frost("platform", "restore", str(file), "--yes", *served, cwd=tmp_path)
    assert (lost.code, "shared.key not found" in lost.err) == (1, True), lost.err
    assert demo.frost("platform", "backup", str(file), "--secret-file", "").code == 2


@pytest.mark.slow
def test_a_platform_served_with_flags_is_not_stopped_for_a_restore(demo: Home, tmp_path: Path) -> None:
    """The command cannot start it again with the same flags."""
    file, secret = tmp_path / "monday.tar", tmp_path / "shared.key"
    demo.start()
    assert demo.frost("platform", "stop").code == 0
    (demo.platform_dir / "secret.key").rename(secret)
    command = [sys.executable, "-m", "tui", "platform", "serve", "--secret-file", str(secret)]
    with subprocess.Popen(command, env=demo.environment(), stderr=subprocess.DEVNULL) as served:
        try:
            while demo.json("platform", "status")["status"] != "running":
                assert served.poll() is None
            assert demo.frost("platform", "backup", str(file), "--secret-file", str(secret)).code == 0
            refused = demo.frost("platform", "restore", str(file), "--yes", "--secret-file", str(secret))
            assert (refused.code, "Stop the platform first" in refused.err) == (6, True), refused.err
            assert served.poll() is None
        finally:
            served.terminate()
