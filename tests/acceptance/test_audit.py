"""`frost platform audit verify` against a real local platform. hostile I04"""

import sqlite3
from contextlib import closing

import pytest

from tests.homes import Home


def test_I04_a_whole_log_is_told_whole_and_an_altered_entry_by_name(demo: Home) -> None:
    demo.frost("tenant", "create", "--name", "Audited", "--organization", "Aurora Labs")
    told = demo.json("platform", "audit", "verify")
    assert (told["ok"], told["firstBad"], told["unchained"]) == (True, None, 0)
    assert told["entries"] > 1
    assert "whole" in demo.frost("platform", "audit", "verify").out
    with closing(sqlite3.connect(demo.platform_dir / "platform.db")) as database, database:
        (number,) = database.execute("SELECT max(id) FROM audit_log WHERE operation = 'tenant.create'").fetchone()
        database.execute("UPDATE audit_log SET target = 'tenant:other' WHERE id = ?", (number,))
    broken = demo.frost("platform", "audit", "verify", "-o", "json")
    assert broken.code == 1
    assert broken.json()["firstBad"]["id"] == number
    assert broken.error()["code"] == "AUDIT_BROKEN"
    said = demo.frost("platform", "audit", "verify")
    assert f"entry {number} of " in said.err
    # What counts the good part alone says so.
    assert not {"entries", "head"} & {line.split("  ")[0] for line in said.out.splitlines()}
    assert f"entry {number} of " in said.out
    assert "altered" in said.out
    assert f"{broken.json()['entries']} entries" in said.out


@pytest.mark.slow
def test_a_platform_served_with_its_own_folder_is_asked_by_that_folder(demo: Home, home: Home) -> None:
    demo.start()
    folder = str(demo.platform_dir)
    told = home.json("platform", "status", "--data-dir", folder)
    assert (told["status"], told["pid"]) == ("running", demo.platform_pid())
    assert home.json("platform", "audit", "verify", "--data-dir", f"{folder}/../platform")["ok"]
    assert home.json("platform", "status")["status"] == "stopped"
    # Of others nothing is started.
    assert home.frost("platform", "audit", "verify", "--data-dir", str(home.path / "none")).code == 7
    assert home.json("platform", "status", "--data-dir", str(home.path / "none"))["status"] == "stopped"
    assert home.frost("platform", "status", "--data-dir", "").code == 2
    assert not home.platform_dir.exists()
