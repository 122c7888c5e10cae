"""The frame of the command line: flags anywhere, aliases, lazy groups, hints."""

import json
from pathlib import Path

import click
import pytest

from client import __version__
from client.commands import usage_errors
from client.commands.command import Group, Lazy
from client.commands.invocation import Invocation
from client.commands.output import Output
from client.commands.root import main
from client.errors import FrostError
from tests.client.scripted import Run
from tests.homes import write_config

T, OTHER = "4793d4e5-9e63-4ff7-8783-9bb3aca1f5d5", "eae729b9-26d8-4a2b-bf67-4649d1ea4d7d"


made = Group("frost")
policies = Group("policy")
seen: list[tuple[object, ...]] = []


@policies.leaf("list", click.Option(["--limit"], type=int), aliases=("ls",))
def list_policies(run: Invocation, limit: int | None) -> None:
    """List policies."""
    seen.append(("list", limit, run.flags.tenant, run.flags.output, run.flags.quiet))


@made.leaf("simulate", click.Option(["--tenant"]), click.Argument(["words"], nargs=-1), aliases=("test",))
def simulate(run: Invocation, tenant: str | None, words: tuple[str, ...]) -> None:
    """Simulate."""
    seen.append(("simulate", tenant, run.flags.tenant, words))


made.lazy["policy"] = Lazy(f"{__name__}:policies", "Policies.", aliases=("policies",))
made.aliases["policy"] = ("policies",)


def did(*words: str) -> tuple[object, ...]:
    """The result of a command line of the tree."""
    seen.clear()
    with made.make_context("frost", list(words), obj=Invocation(list(words))) as ctx:
        made.invoke(ctx)
    return seen[0]


def test_aliases_combine_and_help_names_them(run: Run) -> None:
    for words in ("policy list", "policies list", "policy ls", "policies ls"):
        assert did(*words.split())[0] == "list"
    assert "frost tenant" in run("tenants", "-h").out.split("Aliases:")[1].splitlines()[1]


def test_global_flags_are_accepted_anywhere_and_the_last_one_wins() -> None:
    for words in (
        f"-q --tenant {T} -o json policy list --limit 3",
        f"policy -q --tenant {T} --output=json list --limit=3",
        f"policy list --limit 3 -qo json --tenant={T}",
        f"policy list -ojson -q --tenant {T} --limit=3",
        f"--tenant {OTHER} policy --tenant {OTHER} list -o=json -q --limit 3 --tenant {T}",
    ):
        assert did(*words.split()) == ("list", 3, T, "json", True), words
    # A command with a flag of that name keeps its meaning, and two dashes end the flags.
    assert did("--tenant", T, "test", "--tenant", "its own") == ("simulate", "its own", T, ())
    assert did("simulate", "--tenant", "")[1] == ""
    assert did("simulate", "--", "--tenant", "-q")[3] == ("--tenant", "-q")
    assert did("simulate", "--tenant", "--all", "x") == ("simulate", "--all", None, ("x",))


def test_a_group_of_another_module_is_imported_when_it_is_used() -> None:
    group = Group("frost", {"far": Lazy("client.commands.nowhere:x", "Far away.")})
    ctx = click.Context(group, info_name="frost", obj=Invocation([]))
    assert "Far away." in group.get_help(ctx)
    with pytest.raises(ModuleNotFoundError):
        group.get_command(ctx, "far")


def test_lists_deletions_and_single_records_have_short_names() -> None:
    group = Group("frost")
    for name in ("list", "get", "remove", "revoke"):
        group.leaf(name)(lambda run: None)
    assert [group.main_name(word) for word in ("ls", "show", "rm", "revoke", "rn")] == [
        "list",
        "get",
        "remove",
        "revoke",
        None,
    ]
    taken = Group("frost")
    for name in ("show", "get"):
        taken.leaf(name)(lambda run: None)
    assert taken.main_name("show") == "show"


@pytest.mark.parametrize(
    ("line", "same"),
    [("help", "--help"), ("help iam policy", "iam policy --help"), ("help tenants ls", "tenants ls --help")],
)
def test_help_shows_the_help_of_a_command(capsys: pytest.CaptureFixture[str], line: str, same: str) -> None:
    assert main(same.split()) == 0
    expected = capsys.readouterr().out
    assert main(line.split()) == 0
    assert capsys.readouterr().out == expected


def test_version_is_a_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"version": __version__}
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"frost {__version__}\n"


def test_the_version_does_not_need_a_readable_config_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    config = tmp_path / ".cli" / "config.yaml"
    config.parent.mkdir()
    config.write_text("output_format: [")
    config.chmod(0o600)
    for words, out in (("version", f"frost {__version__}\n"), ("version -o yaml", f'version: "{__version__}"\n')):
        assert main(words.split()) == 0
        assert capsys.readouterr().out == out


# docs/commands.md has the required flags and the choices of every command.
@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("tennant list", ['unknown command "tennant"', "did you mean tenant?"]),
        ("tenant lst", ['unknown command "lst" (frost tenant)', "list"]),
        ("help zzz", ['unknown command "zzz"', "frost --help"]),
        ("help tenant list x", ['unknown command "x"']),
        ("zzz", ['unknown command "zzz"', "frost --help"]),
        ("platform start", ['unknown command "start" (frost platform)', "the next command starts the platform; see"]),
        ("tenant list --al", ["unknown flag --al (frost tenant list)", "--all"]),
        ("--quite config show", ["unknown flag --quite", "--quiet"]),
        ("config show -z", ["unknown flag -z", "frost config show --help"]),
        ("config show --organization O", ["unknown flag --organization", "tenant commands"]),
        ("config show -o xml", ["-o/--output", '"xml"', "table, yaml, json, wide"]),
        ("config show -o", ["-o needs a value (frost config show)"]),
        ("config show --quiet=yes", ["--quiet takes no value"]),
        ("config show more", ["unexpected argument (more)"]),
        ("config set region", ["VALUE is missing (frost config set)"]),
        ("config set color off", ["KEY", "api_endpoint", "region", "api_key", "output_format"]),
        ("tenant create", ["--name is required (frost tenant create)"]),
        ("tenant", ["a command is required (frost tenant)", "create, current, list, rename, use"]),
        ("", ["a command is required (frost)", "tenant, config"]),
        ("--read-only tenant create --name x", ["--read-only is for the screens"]),
        ("tenant list --all --organization O", ["exclude each other"]),
        ("--tenant web-shop config show", ["--tenant takes a tenant id", "tenant use"]),
        ("login --device --browser", ["exclude each other"]),
        ("login --endpoint https://host/api", ["--context NAME"]),
        ("config get-context", ["get-contexts"]),
        ("iam policy detach P --type GROUP --id I", ["'api_key', 'workload_identity', 'group'"]),
        ("iam group create", ["--name is required (frost iam group create)"]),
        ("iam policy attach P --id I", ["--type is required"]),
        ("iam group member add G --type group --id I", ["'api_key', 'workload_identity'"]),
        ("iam access robot I", ["'api_key', 'workload_identity', 'user'"]),
    ],
)
def test_a_usage_error_is_one_line_with_the_next_step(run: Run, words: str, parts: list[str]) -> None:
    code, out, err = run(*words.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("frost: ")
    for part in parts:
        assert part.casefold() in err.casefold()


def test_an_empty_value_is_a_mistake_and_no_default(run: Run) -> None:
    for words in (["--tenant", ""], ["--tenant="], ["--config", ""], ["-o", ""], ["--output="]):
        for ended in (run(*words, "config", "show"), run("config", "show", *words)):
            assert ended.code == 2
            assert words[0].rstrip("=").lstrip("-")[:1] in ended.err


def test_a_mistake_is_json_when_json_was_asked_for_anywhere(run: Run) -> None:
    for words in (
        "-o json tennant", "tenant list --al -o json", "--output=json config set", "tenant -ojson", "nonsense -o=json",
        "-o table -o json nonsense", "config show --nonsense --output json", "nonsense -qo json",
    ):  # fmt: skip
        ended = run(*words.split())
        assert (ended.code, ended.error()["code"]) == (2, "INVALID_USAGE")
        assert set(ended.error()) == {"code", "message", "hint", "requestId", "details"}
    for words in ("nonsense -- -o json", "nonsense -o xml", "-o yaml nonsense"):
        ended = run(*words.split())
        assert (ended.code, ended.err[:7]) == (2, "frost: ")


@pytest.mark.parametrize("file", ["", "output_format: yaml\n"])
def test_a_tenant_that_is_no_id_is_refused_as_json_when_the_format_follows(run: Run, tmp_path: Path, file: str) -> None:
    """The config file has been read by then: it is searched for the id of the name."""
    write_config(tmp_path / ".cli" / "config.yaml", file)
    ended = run("tenant", "current", "--tenant", "Web Shop", "-o", "json")
    assert (ended.code, ended.error()["code"]) == (2, "TENANT_ID_NEEDED")


def test_flags_behind_an_unknown_command_count_for_its_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[tuple[str, bool, bool]] = []

    def error(output: Output, failure: FrostError) -> None:
        chosen.append((output.format, output.quiet, output._no_color))

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(Output, "error", error)
    for words in ("--no-color -q", "--config x -dqojson", "-- --no-color -q -o json"):
        assert run("tennant", "list", *words.split()).code == 2
    assert chosen == [("table", True, True), ("json", True, False), ("table", False, False)]
    # Flags of a command that was parsed are not read again.
    invocation = Invocation(["config", "set", "region", "-o", "json"])
    invocation.parsed = True
    invocation.read_remaining_flags()
    assert invocation.flags.output is None


def test_terminal_escapes_in_the_words_are_not_echoed(run: Run) -> None:
    for words in (
        ["\x1b[31mx"],
        ["config", "show", "--\x1b[31m"],
        ["config", "show", "\x1b]0;x\x07"],
        ["-o", "\x1b[2J"],
    ):
        ended = run(*words)
        assert (ended.code, "\x1b" in ended.err) == (2, False)


def test_an_unforeseen_mistake_of_click_still_reads_like_ours() -> None:
    error = usage_errors.from_click(click.UsageError("Something Else."))
    assert isinstance(error, FrostError)
    assert error.message == "something Else"
    assert error.exit_code == 2


def test_a_defect_is_one_line_and_its_story_holds_no_secret(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "fmk_abcdefghijklmnopqrstuvwxyz0123456789"

    def broken(*_: object, **__: object) -> None:
        raise KeyError(f"near {secret}")

    monkeypatch.setattr("client.config.reader.load", broken)
    line = "frost: internal error: KeyError. Run the command again with --debug for details\n"
    assert run("config", "show") == (1, "", line)
    code, _, traceback = run("-d", "config", "show")
    assert code == 1
    assert "test_frame.py" in traceback
    assert (secret in traceback, "fmk_…" in traceback) == (False, True)


def test_interrupting_ends_with_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("client.config.reader.load", interrupted)
    assert run("config", "show").code == 130


def test_help_and_version_read_no_file_and_start_nothing(run: Run, tmp_path: Path) -> None:
    config = write_config(tmp_path / ".cli" / "config.yaml", "contexts: [damaged")
    for words in (["--version"], ["-h"], ["tenant", "list", "-h"], ["completion", "bash"]):
        ended = run(*words)
        assert (ended.code, ended.err) == (0, ""), words
    assert list(config.parent.iterdir()) == [config]
