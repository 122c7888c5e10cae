"""The client's configuration and the files behind it."""

import stat
import sys
from pathlib import Path

import yaml

from tests.homes import Home
from tests.terminal import Program

KEY = "fmk_abcdefghijklmnopqrstuvwxyz0123456789"


def on_terminal(home: Home, *words: str) -> Program:
    return Program([sys.executable, "-m", "tui", *words], 100, 30, env=home.environment(), inherit=False)


def write_config(home: Home, text: str) -> None:
    home.config.parent.mkdir(mode=0o700, exist_ok=True)
    home.config.write_text(text)
    home.config.chmod(0o600)


def test_init_makes_the_file_and_takes_the_key_without_showing_it(home: Home) -> None:
    program = on_terminal(home, "config", "init")
    program.wait_for("API key")
    program.write(f"{KEY}\r".encode())
    assert program.wait_end() == 0
    assert KEY.encode() not in program.raw()
    assert stat.S_IMODE(home.config.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.config.parent.stat().st_mode) == 0o700
    assert KEY in home.config.read_text()


def test_init_over_a_file_asks_and_keeps_it_beside_the_new_one(home: Home) -> None:
    write_config(home, "# mine\nregion: r1\n")
    assert home.frost("config", "init").code == 2
    program = on_terminal(home, "config", "init")
    program.wait_for("[y/N]")
    program.write(b"n\r")
    assert program.wait_end() != 0
    assert home.config.read_text() == "# mine\nregion: r1\n"
    program = on_terminal(home, "config", "init")
    program.wait_for("[y/N]")
    program.write(b"y\r")
    program.wait_for("API key")
    program.write(b"\r")
    assert program.wait_end() == 0
    (former,) = home.config.parent.glob("config.yaml.*.before")
    assert former.read_text() == "# mine\nregion: r1\n"
    assert stat.S_IMODE(former.stat().st_mode) == 0o600
    document = yaml.safe_load(home.config.read_text())
    assert document["current_context"] == "local"
    assert document["contexts"]["local"]["api_endpoint"].startswith("unix:/")
    assert document["defaults"] == {"output_format": "table"}


def test_init_without_a_terminal_writes_defaults(home: Home) -> None:
    result = home.frost("config", "init")
    assert (result.code, "credential" in result.err.casefold()) == (0, True)
    assert home.config.is_file()
    assert home.frost("config", "set", "api_key", "-", stdin=f"{KEY}\n").code == 0
    assert KEY in home.config.read_text()


def test_odd_values_in_variables_are_plain_text(home: Home) -> None:
    result = home.frost("tenant", "current", env={"FROST_TENANT": "$(touch /tmp/owned)\n'; --"})
    assert result.code == 2
    assert "\n'" not in result.err
    odd = home.path / "a $(b) 'c'\"d"
    odd.mkdir()
    assert home.frost("config", "set", "region", "r", env={"HOME": str(odd)}).code == 0
    assert (odd / ".cli" / "config.yaml").is_file()


def test_a_project_folder_of_that_name_is_never_read(home: Home, tmp_path: Path) -> None:
    (tmp_path / ".cli").mkdir()
    (tmp_path / ".cli" / "config.yaml").write_text("region: planted\n")
    assert "planted" not in home.frost("config", "show", "-o", "json", cwd=tmp_path).out
