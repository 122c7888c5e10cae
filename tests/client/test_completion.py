"""Completion in real shells, with names from the platform, quoted for the shell."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.commands.completion import _quoted, _split
from tests.conftest import home_of
from tests.homes import Home
from tests.people import AURORA, DATA_LAKE, WEB_SHOP
from tests.terminal import Program

pytestmark = pytest.mark.process

TERRAFORM = "f08db22f-d293-456a-b170-fab23d90fbac"
CHECKOUT = "47eaa099-2cb6-416d-86dc-283cf0480ff9"
DEPLOYERS = "142c8364-7806-4577-93e7-83e7eb04b39b"
HOSTILE = '$(reboot) it\'s "q" & `x` \\ é !'
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(frost completion bash)"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -u -D; source <(frost completion zsh)"),
    "fish": (["fish", "--no-config", "-i"], "frost completion fish | source"),
}


@pytest.fixture(scope="module")
def named(demo_platform: Path) -> Iterator[Home]:
    """The demo world with one more tenant, whose name is an attack, and a folder with the command `frost` in it."""
    with home_of(demo_platform) as home:
        program = home.path / "bin" / "frost"
        program.parent.mkdir()
        # The completed command also runs: it prints its words, except for `__complete` and `completion`.
        program.write_text(
            "#!/bin/sh\n"
            f'case "$1" in completion) exec {sys.executable} -m tui "$@";; esac\n'
            f'case "$1" in __complete) {sys.executable} -m tui "$@"; echo >> {home.path}/answered; exit;; esac\n'
            "printf 'ran'; printf '<%s>' \"$@\"; echo\n"
        )
        program.chmod(0o755)
        home.variables["PATH"] = f"{program.parent}:{os.environ['PATH']}"
        home.variables["LC_ALL"] = "C.UTF-8"
        home.json("tenant", "create", "--name", HOSTILE, "--organization", AURORA)
        for name in ("only one.json", ".hidden.json", "drafts/a:b@c.json"):
            (home.path / "files" / name).parent.mkdir(parents=True, exist_ok=True)
            (home.path / "files" / name).touch()
        yield home


def completions(home: Home, *words: str) -> list[str]:
    """The values offered to fish for these words."""
    lines = home.frost("__complete", "fish", *words).out.splitlines()
    return [line.partition("\t")[0] for line in lines]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ten"], ["tenant"]),
        (["tenant", ""], ["create", "current", "list", "rename", "use", "default-tags", "quota", "activity"]),
        (["tenants", "use", "W"], ["Web Shop"]),
        (["iam", "simulate", "--operation", "dns:zones:d"], ["dns:zones:delete"]),
        (["iam", "who", "--operation=dns:zones:d"], ["--operation=dns:zones:delete"]),
        (["iam", "policies", "attach", "P", "--type", ""], ["api_key", "workload_identity", "group"]),
        (["iam", "policy", "attach", "P", "--type", "api_key", "--id", "f08db22f"], [TERRAFORM]),
        (["iam", "policy", "attach", "P", "--type", "workload_identity", "--id", "47ea"], [CHECKOUT]),
        (["iam", "policy", "attach", "P", "--type", "group", "--id", "142c"], [DEPLOYERS]),
        (["iam", "access", "api_key", "f08db22f"], [TERRAFORM]),
        (["iam", "groups", "get", "142c"], [DEPLOYERS]),
        (["iam", "groups", "get", "dep"], ["deployers"]),
        (["iam", "policy", "attach", "P", "--type", "group", "--id", "dep"], ["deployers"]),
        (["iam", "access", "api_key", "terra"], ["terraform"]),
        (["iam", "access", "workload_identity", "shop/"], ["shop/checkout"]),
        (["iam", "policy", "get", "de1b"], ["de1b1471-320a-48ea-b7a7-88d106762832"]),
        (["--tenant", DATA_LAKE, "iam", "group", "get", "142c"], []),
        (["iam", "access", "user", ""], []),
        (["account", "api-key", "get", "42a6"], ["42a68fec-c75a-43c4-8d0d-866b16519537"]),
        (["account", "api-key", "rotate", "deploy-p"], ["deploy-pipeline"]),
        (["account", "api-keys", "rotate", TERRAFORM[:6]], []),
        (["account", "api-key", "create", "--scopes", "dns:"], ["dns:read", "dns:write", "dns:*"]),
        (["account", "api-key", "create", "--scopes", "dns:*,sessions:p"], ["dns:*,sessions:pty"]),
        (["account", "api-key", "create", "--scopes=compute:s"], []),
        (["tenant", "use", "web"], ["web-shop"]),
        (["tenant", "use", WEB_SHOP[:6]], [WEB_SHOP]),
        (["tenant", "rename", WEB_SHOP[:6]], [WEB_SHOP]),
        (["--tenant", WEB_SHOP[:6]], [WEB_SHOP]),
        ([f"--tenant={WEB_SHOP[:6]}"], [f"--tenant={WEB_SHOP}"]),
        (["tenant", "create", "--organization", ""], ["Aurora Labs", "Borealis Media"]),
        (["tenant", "create", "--organization", AURORA[:4]], [AURORA]),
        (["tenant", "create", "--organization", "borealis"], ["borealis-media"]),
        (["config", "use-context", ""], ["local"]),
        (["config", "set", "a"], ["api_endpoint", "api_key"]),
        (["-o", ""], ["table", "yaml", "json", "wide"]),
        (["config", "show", "--de"], ["--debug"]),
        (["iam", "policy", "create", "--document", ""], ["@bin/", "@files/"]),
        (["iam", "policy", "update", "P", "--document", "@files/"], ["@files/drafts/", "@files/only one.json"]),
        (["iam", "policy", "check", "--document", "@files/."], ["@files/.hidden.json"]),
        (["iam", "simulate", "--document=@~/files/o"], ["--document=@~/files/only one.json"]),
        (["iam", "simulate", "--document", "@nowhere/"], []),
        (["iam", "simulate", "--document", "{"], []),
        (["tenant", "quota", "request", "vol"], ["volume", "volume_storage"]),
        (["tenant", "quotas", "what-if", "vcpu=1", "ra"], ["ram="]),
        (["tenant", "default-tags", "set", "--tag", "te"], ["team=storefront"]),
        (["tenant", "default-tags", "set", "--tag", "a=1,env"], ["a=1,env=prod"]),
        (["tenant", "default-tags", "undo", ""], []),
        (["nonsense", ""], []),
    ],
)
def test_completion_offers_values(named: Home, words: list[str], offered: list[str]) -> None:
    assert completions(named, *words) == offered


def test_pressing_tab_starts_nothing_signs_in_nowhere_and_prints_no_error(home: Home) -> None:
    for words in (["tenant", "use", ""], ["--config", "/nowhere", "config", "use-context", ""]):
        result = home.frost("__complete", "zsh", *words)
        assert (result.out, result.err) == ("", "")
    assert not (home.path / ".cli").exists()


@pytest.mark.slow
def test_a_platform_that_does_not_answer_is_not_waited_for(home: Home) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}/api"
        assert home.frost("config", "set", "api_endpoint", endpoint).code == 0
        assert home.frost("config", "set", "api_key", f"fmk_{'a' * 36}").code == 0
        began = time.monotonic()
        result = home.frost("__complete", "fish", "tenant", "use", "")
        assert (result.out, result.err) == ("", "")
        assert time.monotonic() - began < 25


TYPED = {
    "tenant use W": "<tenant><use><Web Shop>",
    "tenant use 'W": "<tenant><use><Web Shop>",
    'tenant use "W': "<tenant><use><Web Shop>",
    "tenant use Web\\ ": "<tenant><use><Web Shop>",
    "tenant use \\$": f"<tenant><use><{HOSTILE}>",
    "tenant use '$": f"<tenant><use><{HOSTILE}>",
    f"tenant list --organization={AURORA[:4]}": f"<tenant><list><--organization={AURORA}>",
    "--output=ya": "<--output=yaml>",
    "tenant li": "<tenant><list>",
    "iam simulate --document @~/files/on": "<iam><simulate><--document><@~/files/only one.json>",
    "iam simulate --document=@~/files/on": "<iam><simulate><--document=@~/files/only one.json>",
    "iam simulate --document '@~/files/on": "<iam><simulate><--document><@~/files/only one.json>",
    "iam simulate --document @~/files/d\tx": "<iam><simulate><--document><@~/files/drafts/x>",
    "iam simulate --document @~/files/drafts/a:b@": "<iam><simulate><--document><@~/files/drafts/a:b@c.json>",
}


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_and_runs_exactly_the_value(named: Home, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    argv, setup = SHELLS[shell]
    answered = named.path / "answered"
    program = Program(argv, 160, 30, env=named.environment(), inherit=False)
    try:
        program.until_quiet(0.5, 5)
        program.write(f"{setup}; echo rea''dy\r".encode())
        program.wait_for("ready")
        for typed, ran in TYPED.items():
            program.until_quiet(0.1, 2)
            program.replay()
            program.emulator.screen.reset()
            answered.write_text("")
            line = f"frost {typed}\t"
            program.write(line.encode())
            program.wait_until(lambda line=line: len(answered.read_text()) >= line.count("\t"), "its values")
            program.until_quiet(0.1, 6)
            program.write(b"\r")
            assert f"ran{ran}" in program.wait_for("ran<")
    finally:
        program.close()


def test_bash_offers_no_name_that_open_double_quotes_cannot_hold(named: Home) -> None:
    offered = named.frost("__complete", "bash", 'frost tenant use "', "").out.splitlines()
    assert "Web Shop" in offered
    assert not any("reboot" in value for value in offered)
    # A name that two tenants have is offered as their ids.
    offered = completions(named, "tenant", "use", "")
    assert ("Staging" in offered, "Web Shop" in offered) == (False, True)
    assert len([value for value in offered if len(value) == 36]) == 2


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_a_quoted_value_is_one_word_for_bash_and_for_us(quote: str) -> None:
    values = [HOSTILE[:-2], "a\\b", "~/x", "a*b?[c]{d,e}", "#x", "a;b|c<d>e(f)", "$HOME", "x\\", "'", '"']
    words = [f"{quote}{_quoted(value, quote)}{quote}" for value in values]
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {' '.join(words)}"], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == values
    assert [_split(f"x {word}")[-1].text for word in words] == values
