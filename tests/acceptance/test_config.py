"""The client's configuration and the files behind it."""

import itertools
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.homes import Home
from tests.terminal import Program

KEY = "fmk_abcdefghijklmnopqrstuvwxyz0123456789"


def on_terminal(home: Home, *words: str) -> Program:
    return Program([sys.executable, "-m", "tui", *words], 100, 30, env=home.environment(), inherit=False)


def write_config(home: Home, text: str, mode: int = 0o600) -> None:
    home.config.parent.mkdir(mode=0o700, exist_ok=True)
    home.config.write_text(text)
    home.config.chmod(mode)


def test_init_makes_the_file_and_takes_the_key_without_showing_it(home: Home) -> None:
    program = on_terminal(home, "config", "init")
    program.wait_for("API key")
    program.write(f"{KEY}\r".encode())
    assert program.wait_end() == 0
    assert KEY.encode() not in program.raw()
    assert home.config.is_file()
    assert stat.S_IMODE(home.config.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.config.parent.stat().st_mode) == 0o700
    assert KEY in home.config.read_text()


def test_init_over_a_file_asks_and_without_a_terminal_is_refused(home: Home) -> None:
    write_config(home, "# mine\nregion: r1\n")
    assert home.frost("config", "init").code == 2
    program = on_terminal(home, "config", "init")
    program.until_quiet(1.0, 10)
    program.write(b"n\r")
    assert program.wait_end() != 0
    assert home.config.read_text() == "# mine\nregion: r1\n"


def test_init_without_a_terminal_writes_defaults(home: Home) -> None:
    result = home.frost("config", "init")
    assert result.code == 0
    assert home.config.is_file()
    assert "credential" in result.err.casefold()


def test_a_dash_reads_standard_input(home: Home) -> None:
    assert home.frost("config", "set", "api_key", "-", stdin=f"{KEY}\n").code == 0
    assert KEY in home.config.read_text()


@pytest.mark.slow
def test_a_write_killed_at_any_moment_leaves_the_old_or_the_new_file(home: Home) -> None:
    start = time.monotonic()
    assert home.frost("config", "set", "region", "start").code == 0
    whole = time.monotonic() - start
    seen = set()
    # At least 25 moments; more, and later ones, while no process has come as far as its write.
    for number in itertools.count():
        if number >= 25 and (len(seen) > 1 or number >= 100):
            break
        process = subprocess.Popen(
            [sys.executable, "-m", "tui", "config", "set", "region", f"r{number}"],
            env=home.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        # From before the write to after it, on a machine as busy as this one is now.
        time.sleep(whole * (0.3 + number * 0.05))
        process.kill()
        process.wait()
        document = yaml.safe_load(home.config.read_text())
        region = document["contexts"][document["current_context"]]["region"]
        seen.add(region)
    assert home.frost("config", "set", "region", "end").code == 0
    assert not list(home.config.parent.glob("*.tmp"))
    assert len(seen) > 1, "every process was killed before it wrote: the delays need another look"


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


def test_completion_gives_names_that_are_safe_to_run(demo: Home) -> None:
    from tests.acceptance.people import AURORA

    name = '$(reboot) it\'s "quoted"'
    assert demo.frost("tenant", "create", "--name", name, "--organization", AURORA).code == 0
    script = "\n".join(
        (
            f'frost() {{ {sys.executable} -m tui "$@"; }}',
            f"source <({sys.executable} -m tui completion bash)",
            "COMP_WORDS=(frost tenant use '')",
            "COMP_CWORD=3",
            "COMP_LINE='frost tenant use '",
            "COMP_POINT=${#COMP_LINE}",
            "$(complete -p frost | sed -E 's/.*-F ([^ ]+).*/\\1/') frost '' use",
            'printf "%s\\n" "${COMPREPLY[@]}"',
        )
    )
    done = subprocess.run(
        ["bash", "-c", script],
        env=demo.environment({"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}),
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert any("Data" in line for line in lines)
    offered = next(line for line in lines if "reboot" in line)
    echoed = subprocess.run(["bash", "-c", f"printf %s {offered}"], capture_output=True, text=True, check=True)
    assert echoed.stdout == name
