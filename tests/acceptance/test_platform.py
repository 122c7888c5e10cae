"""The commands of the operator, and the activity of a tenant."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.homes import Home
from tests.people import AURORA


def test_an_altered_entry_of_the_log_is_named(demo: Home) -> None:
    demo.frost("tenant", "create", "--name", "Audited", "--organization", "Aurora Labs")
    report = demo.json("platform", "audit", "verify")
    assert (report["ok"], report["firstBad"], report["unchained"]) == (True, None, 0)
    assert report["entries"] > 1
    assert "whole" in demo.frost("platform", "audit", "verify").out
    with closing(sqlite3.connect(demo.platform_dir / "platform.db")) as database, database:
        (number,) = database.execute("SELECT max(id) FROM audit_log WHERE operation = 'tenant.create'").fetchone()
        database.execute("UPDATE audit_log SET target = 'tenant:other' WHERE id = ?", (number,))
    broken = demo.frost("platform", "audit", "verify", "-o", "json")
    assert broken.code == 1
    assert broken.json()["firstBad"]["id"] == number
    assert broken.error()["code"] == "AUDIT_BROKEN"
    result = demo.frost("platform", "audit", "verify")
    assert f"entry {number} of " in result.err
    # The numbers of the valid part are not those of the log.
    assert not {"entries", "head"} & {line.split("  ")[0] for line in result.out.splitlines()}
    for text in (f"entry {number} of ", "altered", f"{broken.json()['entries']} entries"):
        assert text in result.out


@pytest.mark.slow
def test_a_platform_served_with_its_own_folder_is_asked_by_that_folder(demo: Home, home: Home) -> None:
    demo.start()
    folder = str(demo.platform_dir)
    report = home.json("platform", "status", "--data-dir", folder)
    assert (report["status"], report["pid"]) == ("running", demo.platform_pid())
    assert home.json("platform", "audit", "verify", "--data-dir", f"{folder}/../platform")["ok"]
    assert home.json("platform", "status")["status"] == "stopped"
    # Other platforms are not started.
    assert home.frost("platform", "audit", "verify", "--data-dir", str(home.path / "none")).code == 7
    assert home.json("platform", "status", "--data-dir", str(home.path / "none"))["status"] == "stopped"
    assert home.frost("platform", "status", "--data-dir", "").code == 2
    assert not home.platform_dir.exists()


def test_exported_entries_are_dropped_and_the_rest_is_verified(demo: Home) -> None:
    def refused(code: str, *words: str) -> None:
        result = demo.frost("platform", "audit", *words, "-o", "json")
        assert (bool(result.code), result.error()["code"]) == (True, code), words

    whole, later = demo.json("platform", "audit", "verify"), ("--before", "9999-01-01T00:00:00Z")
    file, copy = demo.path / "audit.jsonl", demo.path / "copy.jsonl"
    for words, code in (((), 2), (("--before", "yesterday"), 2), (("--before", "2000-01-01"), 1)):
        assert demo.frost("platform", "audit", "export", str(file), *words).code == code
        assert not file.exists()
    exported = demo.json("platform", "audit", "export", str(file), *later)
    assert (exported["first"], exported["last"], exported["head"]) == (1, whole["entries"], whole["head"])
    assert file.stat().st_mode & 0o777 == 0o600
    refused("FILE_EXISTS", "export", str(file), *later)
    assert "in the audit log" in demo.frost("platform", "audit", "verify", "--segment", str(file)).out
    lines = file.read_text().splitlines(keepends=True)
    for damaged, code in (
        (lines[1:], "EXPORT_DAMAGED"),
        (lines[:-1], "EXPORT_DAMAGED"),
        (["no export\n"], "EXPORT_DAMAGED"),
        ([*lines[:-1], lines[-1].replace('"ends":"2', '"ends":"1')], "NOT_EXPORTED"),
    ):
        copy.write_text("".join(damaged))
        refused(code, "drop", str(copy), "--yes")
        refused(code, "verify", "--segment", str(copy))
    # Without a terminal there is no question.
    assert demo.frost("platform", "audit", "drop", str(file)).code == 2
    assert demo.json("platform", "audit", "verify")["dropped"] is None
    dropped = demo.json("platform", "audit", "drop", str(file), "--yes")
    assert (dropped["first"], dropped["last"]) == (1, whole["entries"])
    rest = demo.json("platform", "audit", "verify")
    assert (rest["ok"], rest["dropped"]["last"]) == (True, whole["entries"])
    assert f"entries 1 to {whole['entries']}" in demo.frost("platform", "audit", "verify").out
    assert demo.json("platform", "audit", "verify", "--segment", str(file))["state"] == "dropped"
    refused("ALREADY_DROPPED", "drop", str(file), "--yes")


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
    assert demo.json("platform", "restore", str(file), "--yes")["auditWhole"]
    # It ran before, so it runs again, with the same session.
    assert demo.platform_pid() not in (None, pid)
    assert names(demo) == before


def test_an_invalid_backup_stops_no_platform(demo: Home, tmp_path: Path) -> None:
    demo.start()
    pid = demo.platform_pid()
    (tmp_path / "not.tar").write_text("no tar")
    refused = demo.frost("platform", "restore", str(tmp_path / "not.tar"), "--yes", "-o", "json")
    assert (refused.code, refused.error()["code"]) == (1, "RESTORE_REFUSED")
    again = demo.frost("platform", "backup", str(tmp_path / "not.tar"))
    assert (again.code, "already exists" in again.err) == (1, True)
    assert demo.frost("platform", "restore", "", "--yes").code == 2
    nowhere = demo.frost("platform", "backup", str(tmp_path / "none" / "x.tar"))
    assert (nowhere.code, f"{tmp_path / 'none'}: No such file" in nowhere.err) == (1, True), nowhere.err
    assert demo.platform_pid() == pid


@pytest.mark.slow
def test_backup_and_restore_take_a_secret_file_and_stop_no_platform_with_flags(demo: Home, tmp_path: Path) -> None:
    """A platform served as a replica, from any current folder."""
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
    # The command cannot start a platform again with the same flags.
    command = [sys.executable, "-m", "tui", "platform", "serve", "--secret-file", str(secret)]
    with subprocess.Popen(command, env=demo.environment(), stderr=subprocess.DEVNULL) as process:
        try:
            while demo.json("platform", "status")["status"] != "running":
                assert process.poll() is None
            refused = demo.frost("platform", "restore", str(file), "--yes", "--secret-file", str(secret))
            assert (refused.code, "Stop the platform first" in refused.err) == (6, True), refused.err
            assert process.poll() is None
        finally:
            process.terminate()
    secret.rename(tmp_path / "lost.key")
    lost = demo.frost("platform", "restore", str(file), "--yes", *served, cwd=tmp_path)
    assert (lost.code, "shared.key not found" in lost.err) == (1, True), lost.err
    assert demo.frost("platform", "backup", str(file), "--secret-file", "").code == 2


def test_filters_of_the_activity_without_results_get_a_hint(shared: Home) -> None:
    activity = ("tenant", "activity")
    for flags, hint in (
        (("--operation", "bogus"), "no entry is named bogus"),
        (("--actor", "nobody@x.example"), "no entry is by nobody@x.example"),
    ):
        answer = shared.frost(*activity, *flags)
        assert (answer.code, hint in answer.err) == (0, True), answer
        assert shared.json(*activity, *flags)["items"] == []
    answer = shared.frost(*activity, "--operation", "policy", "--since", "0s")
    assert (answer.code, "no entry" in answer.err) == (0, False), answer
    for since in ("1000000d", "999999w", "9" * 5_000 + "s"):
        answer = shared.frost(*activity, "--since", since)
        assert (answer.code, "too long ago" in answer.err) == (2, True)
        assert "not an age" not in answer.err
    assert "policy.\n" not in shared.frost(*activity, "--help").out
