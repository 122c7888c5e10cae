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
    # What counts the good part alone says so.
    assert not {"entries", "head"} & {line.split("  ")[0] for line in result.out.splitlines()}
    assert f"entry {number} of " in result.out
    assert "altered" in result.out
    assert f"{broken.json()['entries']} entries" in result.out


@pytest.mark.slow
def test_a_platform_served_with_its_own_folder_is_asked_by_that_folder(demo: Home, home: Home) -> None:
    demo.start()
    folder = str(demo.platform_dir)
    report = home.json("platform", "status", "--data-dir", folder)
    assert (report["status"], report["pid"]) == ("running", demo.platform_pid())
    assert home.json("platform", "audit", "verify", "--data-dir", f"{folder}/../platform")["ok"]
    assert home.json("platform", "status")["status"] == "stopped"
    # Of others nothing is started.
    assert home.frost("platform", "audit", "verify", "--data-dir", str(home.path / "none")).code == 7
    assert home.json("platform", "status", "--data-dir", str(home.path / "none"))["status"] == "stopped"
    assert home.frost("platform", "status", "--data-dir", "").code == 2
    assert not home.platform_dir.exists()


LATER = "9999-01-01T00:00:00Z"


def test_exported_entries_are_dropped_and_the_rest_is_verified(demo: Home) -> None:
    whole = demo.json("platform", "audit", "verify")
    file, copy = str(demo.path / "audit.jsonl"), demo.path / "copy.jsonl"
    for words, code in (((), 2), (("--before", "yesterday"), 2), (("--before", "2000-01-01"), 1)):
        assert demo.frost("platform", "audit", "export", file, *words).code == code
        assert not Path(file).exists()
    exported = demo.json("platform", "audit", "export", file, "--before", LATER)
    assert (exported["first"], exported["last"]) == (1, whole["entries"])
    assert exported["head"] == whole["head"]
    assert Path(file).stat().st_mode & 0o777 == 0o600
    again = demo.frost("platform", "audit", "export", file, "--before", LATER, "-o", "json")
    assert (again.code, again.error()["code"]) == (1, "FILE_EXISTS")
    assert "in the audit log" in demo.frost("platform", "audit", "verify", "--segment", file).out

    lines = Path(file).read_text().splitlines(keepends=True)
    for damaged, code in (
        (lines[1:], "EXPORT_DAMAGED"),
        (lines[:-1], "EXPORT_DAMAGED"),
        (["no export\n"], "EXPORT_DAMAGED"),
        ([*lines[:-1], lines[-1].replace('"ends":"2', '"ends":"1')], "NOT_EXPORTED"),
    ):
        copy.write_text("".join(damaged))
        for words in (["drop", str(copy), "--yes"], ["verify", "--segment", str(copy)]):
            refused = demo.frost("platform", "audit", *words, "-o", "json")
            assert refused.code != 0
            assert refused.error()["code"] == code

    # Without a terminal there is no question.
    assert demo.frost("platform", "audit", "drop", file).code == 2
    assert demo.json("platform", "audit", "verify")["dropped"] is None
    dropped = demo.json("platform", "audit", "drop", file, "--yes")
    assert (dropped["first"], dropped["last"]) == (1, whole["entries"])
    rest = demo.json("platform", "audit", "verify")
    assert (rest["ok"], rest["dropped"]["last"]) == (True, whole["entries"])
    assert 0 < rest["entries"] < whole["entries"]
    assert f"entries 1 to {whole['entries']}" in demo.frost("platform", "audit", "verify").out
    assert demo.json("platform", "audit", "verify", "--segment", file)["state"] == "dropped"
    twice = demo.frost("platform", "audit", "drop", file, "--yes", "-o", "json")
    assert (twice.code, twice.error()["code"]) == (1, "ALREADY_DROPPED")
    with closing(sqlite3.connect(demo.platform_dir / "platform.db")) as database, database:
        query = "SELECT actor_kind, target FROM audit_log WHERE operation = 'audit.drop' AND outcome = 'done'"
        assert database.execute(query).fetchone() == ("staff", f"audit:1-{min(whole['entries'], 2_000)}")
        database.execute("DELETE FROM audit_checkpoints")
    assert demo.frost("platform", "audit", "verify").code == 1


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


@pytest.mark.slow
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


def test_an_unknown_name_in_a_filter_without_results_gets_a_hint(shared: Home) -> None:
    for flags, hint in (
        (("--operation", "bogus"), "no entry is named bogus"),
        (("--actor", "nobody@x.example"), "no entry is by nobody@x.example"),
    ):
        answer = shared.frost("tenant", "activity", *flags)
        assert (answer.code, hint in answer.err) == (0, True), answer
        assert shared.json("tenant", "activity", *flags)["items"] == []
    answer = shared.frost("tenant", "activity", "--operation", "policy", "--since", "0s")
    assert (answer.code, "no entry" in answer.err) == (0, False), answer


def test_an_age_before_the_first_year_is_too_long_and_not_no_age(shared: Home) -> None:
    for since in ("1000000d", "999999w", "9" * 5_000 + "s"):
        answer = shared.frost("tenant", "activity", "--since", since)
        assert answer.code == 2
        assert ("too long ago" in answer.err, "not an age" in answer.err) == (True, False)


def test_the_help_of_operation_ends_with_no_full_stop_behind_a_value(shared: Home) -> None:
    assert "policy.\n" not in shared.frost("tenant", "activity", "--help").out
