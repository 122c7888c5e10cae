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


def test_init_without_a_terminal_writes_defaults_and_says_what_is_missing(home: Home) -> None:
    result = home.frost("config", "init")
    assert result.code == 0
    assert home.config.is_file()
    assert "credential" in result.err.casefold()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("api_endpoint", "https://host.example/api"),
        ("api_endpoint", "http://127.0.0.1:8080/api"),
        ("region", "no"),
        ("region", "0123"),
        ("region", "12:30:45"),
        ("output_format", "json"),
    ],
)
def test_each_key_is_stored_as_text_and_read_by_the_next_command(home: Home, name: str, value: str) -> None:
    assert home.frost("config", "set", name, value).code == 0
    assert value in home.frost("config", "show", "-o", "json").out


@pytest.mark.parametrize("words", [["color", "off"], ["output_format", "wide"], ["region"], ["region", "a", "b"], []])
def test_what_cannot_be_set_is_refused_with_what_can(home: Home, words: list[str]) -> None:
    result = home.frost("config", "set", *words)
    assert result.code == 2
    if words[:1] == ["color"]:
        for key in ("api_endpoint", "region", "api_key", "output_format"):
            assert key in result.err
    assert not home.config.exists()


@pytest.mark.parametrize(
    "endpoint",
    [
        "host.example/api",
        "ftp://host.example/api",
        "https://user:pass@host.example/api",
        "https://host.example/api?x=1",
        "https://host.example/api#x",
        "http://host.example/api",
        "http://127.0.0.1.example/api",
        "https://169.254.169.254/latest",
        "unix:relative.sock",
        "file:///etc/passwd",
        "https://host.example/\x1b[31m",
    ],
)
def test_an_endpoint_that_could_leak_is_refused(home: Home, endpoint: str) -> None:
    result = home.frost("config", "set", "api_endpoint", endpoint)
    assert result.code == 2
    assert "\x1b" not in result.err
    assert not home.config.exists()


def test_a_unix_socket_is_accepted(demo: Home) -> None:
    demo.start()
    assert demo.frost("config", "set", "api_endpoint", f"unix:{demo.socket}").code == 0


def test_a_dash_reads_standard_input(home: Home) -> None:
    assert home.frost("config", "set", "api_key", "-", stdin=f"{KEY}\n").code == 0
    assert KEY in home.config.read_text()


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml"])
def test_show_gives_secrets_as_prefix_and_last_four(home: Home, form: str) -> None:
    assert home.frost("config", "set", "api_key", KEY).code == 0
    result = home.frost("config", "show", "-o", form)
    assert KEY not in result.out
    assert KEY[-4:] in result.out
    assert KEY[:4] in result.out
    assert KEY[4:-4] not in result.out


def test_contexts_are_listed_switched_and_never_guessed(home: Home) -> None:
    write_config(
        home,
        f"current_context: dev\ncontexts:\n  dev: {{api_endpoint: 'https://dev.example/api'}}\n"
        f"  prod:\n    api_endpoint: https://prod.example/api\n    credentials: {{api_key: {KEY}}}\n",
    )
    result = home.frost("config", "get-contexts")
    assert result.code == 0
    assert KEY not in result.out
    lines = result.out.splitlines()
    assert next(line for line in lines if " dev " in line).startswith("*")
    assert home.frost("config", "use-context", "prod").code == 0
    assert "prod.example" in home.frost("config", "show").out
    unknown = home.frost("config", "use-context", "nope")
    assert unknown.code == 5
    assert "dev" in unknown.err
    assert "prod" in unknown.err
    assert yaml.safe_load(home.config.read_text())["current_context"] == "prod"


def test_comments_and_unknown_members_survive_every_write(demo: Home) -> None:
    demo.start()
    text = demo.config.read_text()
    assert "\nplugins" not in text
    demo.config.write_text(f"# my notes\n{text}plugins: {{mine: [1, 2]}} # kept\n")
    assert demo.frost("config", "set", "region", "r9").code == 0
    assert demo.frost("tenant", "use", "Data Lake").code == 0
    assert demo.frost("login").code == 0
    text = demo.config.read_text()
    assert "# my notes" in text
    assert "# kept" in text
    assert yaml.safe_load(text)["plugins"] == {"mine": [1, 2]}


def test_a_file_others_can_read_warns_and_a_foreign_one_is_refused(home: Home) -> None:
    write_config(home, "region: r1\n", 0o644)
    result = home.frost("config", "show")
    assert result.code == 0
    assert f"chmod 600 {home.config}" in result.err
    if os.getuid() == 0:
        os.chown(home.config, 12345, 12345)
        refused = home.frost("config", "show")
        assert refused.code == 2
        assert "owned" in refused.err


@pytest.mark.parametrize(
    "text",
    [
        "contexts: [unclosed\n",
        "region: a\nregion: b\n",
        "a: &a [x,x,x]\nb: [*a,*a,*a,*a]\nc: !!python/object/apply:os.system [id]\n",
        "\tregion: r\n",
        "- a\n- b\n",
        "region: {deep: " + "[" * 200 + "]" * 200 + "}\n",
    ],
)
def test_damage_is_named_by_line_and_never_overwritten(home: Home, text: str) -> None:
    write_config(home, text)
    for words in (["config", "show"], ["config", "set", "region", "new"], ["config", "use-context", "x"]):
        result = home.frost(*words)
        assert result.code == 2
        assert "line" in result.err
        assert "Traceback" not in result.err
    assert home.config.read_text() == text


def test_two_writers_lose_nothing(home: Home) -> None:
    assert home.frost("config", "set", "region", "r0").code == 0
    command = [sys.executable, "-m", "tui", "config", "set"]
    jobs = [("region", "r1"), ("output_format", "yaml"), ("api_endpoint", "https://host.example/api")] * 3
    running = [
        subprocess.Popen([*command, *job], env=home.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for job in jobs
    ]
    for process in running:
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
    document = yaml.safe_load(home.config.read_text())
    context = document["contexts"][document["current_context"]]
    assert context["region"] == "r1"
    assert context["api_endpoint"] == "https://host.example/api"
    assert document["defaults"]["output_format"] == "yaml"
    assert not list(home.config.parent.glob("*.tmp"))


def test_without_a_keyring_the_secret_is_in_the_file_with_a_notice(home: Home) -> None:
    result = home.frost("config", "set", "api_key", KEY, env={"FROST_CREDENTIAL_STORE": "<unset>"})
    assert result.code == 0
    assert "keyring" in result.err
    assert KEY in home.config.read_text()
    assert stat.S_IMODE(home.config.stat().st_mode) == 0o600


def test_a_context_without_credentials_uses_none_of_anothers(home: Home) -> None:
    write_config(
        home,
        "current_context: bare\ncontexts:\n  bare: {api_endpoint: 'https://bare.example/api'}\n"
        f"  rich: {{api_endpoint: 'https://rich.example/api', credentials: {{api_key: {KEY}}}}}\n"
        f"credentials: {{api_key: {KEY}}}\n",
    )
    result = home.frost("tenant", "list")
    assert result.code == 3
    assert "login" in result.err


def test_a_link_planted_by_somebody_else_is_not_followed(home: Home, tmp_path: Path) -> None:
    target = tmp_path / "target.yaml"
    target.write_text("region: theirs\n")
    target.chmod(0o600)
    home.config.parent.mkdir(mode=0o700, exist_ok=True)
    home.config.symlink_to(target)
    assert "theirs" in home.frost("config", "show").out
    assert home.frost("config", "set", "region", "mine").code == 0
    assert "mine" in home.frost("config", "show").out
    if os.getuid() == 0:
        home.config.unlink()
        home.config.symlink_to(target)
        os.chown(home.config, 12345, 12345, follow_symlinks=False)
        assert home.frost("config", "show").code == 2
        assert home.frost("config", "set", "region", "x").code == 2


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
