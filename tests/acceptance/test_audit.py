"""`frost platform audit verify` against a real local platform."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.homes import Home


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
