"""Global flags and conventions, through the real command on the real platform."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.acceptance.people import (
    AURORA,
    BOREALIS,
    DATA_LAKE,
    MEMBER,
    NEWSROOM,
    NOBODYS,
    OUTSIDER,
    OWNER,
    STAGING,
    VIEWER,
    WEB_SHOP,
    current,
)
from tests.homes import Home

COMMANDS = [
    "account api-key create",
    "account api-key delete",
    "account api-key get",
    "account api-key list",
    "account api-key revoke",
    "account api-key rotate",
    "account api-key scopes",
    "account api-key update",
    "account delete",
    "account profile",
    "account session list",
    "account session revoke-all",
    "completion bash",
    "completion fish",
    "completion zsh",
    "config get-contexts",
    "config init",
    "config set",
    "config show",
    "config use-context",
    "iam access",
    "iam catalog",
    "iam group create",
    "iam group delete",
    "iam group get",
    "iam group list",
    "iam group member add",
    "iam group member list",
    "iam group member remove",
    "iam group update",
    "iam policy attach",
    "iam policy attachments",
    "iam policy check",
    "iam policy create",
    "iam policy delete",
    "iam policy detach",
    "iam policy diff",
    "iam policy get",
    "iam policy history",
    "iam policy list",
    "iam policy rollback",
    "iam policy update",
    "iam simulate",
    "iam who",
    "login",
    "logout",
    "platform account restore",
    "platform audit drop",
    "platform audit export",
    "platform audit verify",
    "platform backup",
    "platform operations",
    "platform operations cancel",
    "platform reset",
    "platform restore",
    "platform review approve",
    "platform review list",
    "platform review reject",
    "platform serve",
    "platform status",
    "platform stop",
    "tenant activity",
    "tenant create",
    "tenant current",
    "tenant default-tags apply",
    "tenant default-tags clear",
    "tenant default-tags get",
    "tenant default-tags history",
    "tenant default-tags set",
    "tenant default-tags undo",
    "tenant list",
    "tenant quota",
    "tenant quota request",
    "tenant quota requests",
    "tenant quota what-if",
    "tenant rename",
    "tenant use",
    "whoami",
]
GLOBAL_FLAGS = ("--config", "--debug", "--no-color", "--output", "--quiet", "--tenant", "--help")
GROUPS = (
    "config",
    "tenant",
    "tenant default-tags",
    "platform",
    "platform review",
    "completion",
    "iam",
    "iam group",
    "iam group member",
    "iam policy",
)
READS = (
    "tenant current",
    "tenant list --all",
    "tenant quota",
    "tenant default-tags history",
    "iam group list",
    "iam policy list",
    "iam catalog --filter dns",
    "whoami",
    "config show",
    "config get-contexts",
    "platform status",
)


@pytest.mark.parametrize("words", ["", *GROUPS, *(pytest.param(one, marks=pytest.mark.slow) for one in COMMANDS)])
def test_help_is_printed_for_every_group_and_command_and_names_the_global_flags(home: Home, words: str) -> None:
    for flag in ("--help", "-h"):
        result = home.frost(*words.split(), flag)
        assert result.code == 0
        assert not result.err
        for name in GLOBAL_FLAGS:
            assert name in result.out, name
    # Asking for help starts no platform and writes no file.
    assert not (home.path / ".cli").exists()


def test_the_command_tree_is_exactly_the_fixed_list() -> None:
    import click

    from client.commands.root import root

    def walk(command: click.Command, words: tuple[str, ...]) -> list[str]:
        if not isinstance(command, click.Group):
            return [" ".join(words)]
        context = click.Context(command)
        found = [" ".join(words)] if getattr(command, "does_something", False) else []
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            found += walk(child, (*words, name))
        return found

    tree = walk(root, ())
    if "completion" in tree:
        tree = [words for words in tree if words != "completion"] + [w for w in COMMANDS if w.startswith("completion")]
    assert sorted(tree) == COMMANDS


def test_config_reads_that_file_only(home: Home) -> None:
    other = home.path / "x.yaml"
    assert home.frost("--config", str(other), "config", "set", "region", "elsewhere").code == 0
    home.config.parent.mkdir(exist_ok=True, mode=0o700)
    home.config.write_text("this: [is not, yaml\n")
    home.config.chmod(0o600)
    result = home.frost("--config", str(other), "config", "show", "-o", "json")
    assert result.code == 0
    assert "elsewhere" in result.out


def test_the_default_file_is_found_by_the_home_of_the_call(home: Home, tmp_path: Path) -> None:
    assert home.frost("config", "set", "region", "r1").code == 0
    assert home.config.is_file()
    assert home.frost("config", "set", "region", "r2", env={"HOME": str(tmp_path)}).code == 0
    assert "r2" in (tmp_path / ".cli" / "config.yaml").read_text()
    assert "r1" in home.config.read_text()


def test_a_named_file_must_exist_except_for_the_commands_that_make_it(home: Home) -> None:
    missing = str(home.path / "missing.yaml")
    result = home.frost("--config", missing, "config", "show")
    assert result.code == 2
    assert missing in result.err
    assert home.frost("config", "show").code == 0
    assert home.frost("--config", missing, "config", "set", "region", "r").code == 0


def test_debug_adds_lines_on_standard_error_and_changes_no_byte_of_standard_output(shared: Home) -> None:
    plain = shared.frost("tenant", "list", "--all", "-o", "json")
    for flag in ("-d", "--debug"):
        traced = shared.frost(flag, "tenant", "list", "--all", "-o", "json")
        assert traced.out == plain.out
        assert re.search(r"GET /api/v1/tenants\S* .*200.*ms", traced.err), traced.err
        assert re.search(r"[0-9a-f-]{8,}", traced.err)


def test_debug_shows_no_secret_whole(demo: Home) -> None:
    token = demo.sign_in()
    document = yaml.safe_load(demo.config.read_text())
    refresh = document["contexts"][document["current_context"]]["credentials"]["refresh_token"]
    out = [demo.frost("-d", *words.split()) for words in ("tenant list --all", "login", "whoami", "logout")]
    printed = "".join(result.out + result.err for result in out)
    assert token not in printed
    assert refresh not in printed
    assert token.split(".")[2] not in printed


def test_no_colour_is_written_without_a_terminal_or_when_it_is_switched_off(shared: Home) -> None:
    from tests.terminal import Program

    assert "\x1b" not in shared.frost("tenant", "list", "--all").out
    for words, env in (("--no-color", {}), ("", {"NO_COLOR": "1"})):
        program = Program(
            [sys.executable, "-m", "tui", "tenant", "list", "--all", *words.split()],
            env=shared.environment(env),
            inherit=False,
        )
        assert program.wait_end() == 0
        assert b"\x1b[" not in program.raw()


@pytest.mark.parametrize("words", READS)
@pytest.mark.parametrize("form", ["table", "yaml", "json", "wide"])
def test_every_format_is_accepted_by_every_command_that_prints_a_record(shared: Home, words: str, form: str) -> None:
    short = shared.frost(*words.split(), "-o", form)
    assert short.code == 0
    assert short.out.strip()
    if words != "platform status":
        assert shared.frost(*words.split(), f"--output={form}").out == short.out


def test_the_format_is_table_then_the_configured_one_then_the_flag(demo: Home) -> None:
    assert demo.frost("tenant", "list", "--all").out.split()[0].isupper()
    assert demo.frost("config", "set", "output_format", "json").code == 0
    assert demo.frost("tenant", "list", "--all").json()["items"]
    assert demo.frost("tenant", "list", "--all", "-o", "table").out.split()[0].isupper()


def test_an_unknown_format_is_refused_with_the_four_values(home: Home) -> None:
    result = home.frost("config", "show", "-o", "xml")
    assert result.code == 2
    for value in ("table", "yaml", "json", "wide"):
        assert value in result.err


def test_wide_has_every_column_of_the_table_and_more(shared: Home) -> None:
    table = shared.frost("tenant", "list", "--all").out.splitlines()[0]
    wide = shared.frost("tenant", "list", "--all", "-o", "wide").out.splitlines()[0]
    heads = [re.split(r"\s{2,}", line.strip()) for line in (table, wide)]
    assert set(heads[0]) < set(heads[1])


@pytest.mark.parametrize("words", READS)
def test_json_is_one_document_and_yaml_is_the_same_value(shared: Home, words: str) -> None:
    first = shared.frost(*words.split(), "-o", "json")
    document = json.loads(first.out)
    assert first.out.endswith("}\n")
    if words != "platform status":
        assert yaml.safe_load(shared.frost(*words.split(), "-o", "yaml").out) == document


def test_quiet_hides_talk_and_keeps_the_result_and_the_errors(demo: Home) -> None:
    loud = demo.frost("tenant", "create", "--name", "Loud", "--organization", AURORA)
    quiet = demo.frost("-q", "tenant", "create", "--name", "Quiet", "--organization", AURORA)
    assert loud.err
    assert not quiet.err
    assert "Quiet" in quiet.out
    assert demo.frost("-q", "tenant", "use", "nobody knows this").err


def test_flag_variable_selection_and_default_come_in_this_order(demo: Home) -> None:
    assert current(demo)["id"] == WEB_SHOP
    assert demo.frost("tenant", "use", DATA_LAKE).code == 0
    assert current(demo)["id"] == DATA_LAKE
    assert current(demo, FROST_TENANT=NEWSROOM)["id"] == NEWSROOM
    flag = demo.json("--tenant", STAGING, "tenant", "current", env={"FROST_TENANT": NEWSROOM})
    assert flag["id"] == STAGING
    # each says where it comes from
    assert demo.json("tenant", "current", env={"FROST_TENANT": NEWSROOM})["source"] == "variable"
    assert flag["source"] == "flag"
    assert current(demo)["source"] == "context"


def test_a_name_is_refused_where_an_id_is_needed_and_the_source_is_named(shared: Home) -> None:
    assert shared.frost("whoami").code == 0  # signed in, on a platform that runs
    flag = shared.frost("--tenant", "Web Shop", "tenant", "current")
    variable = shared.frost("tenant", "current", env={"FROST_TENANT": "web-shop"})
    unknown = shared.frost("--tenant", "No Such Shop", "tenant", "current")
    for result in (flag, variable, unknown):
        assert result.code == 2
    assert "--tenant" in flag.err
    assert "FROST_TENANT" in variable.err
    # The one tenant of that name is told by its id; where there is none, what to do instead.
    for result in (flag, variable):
        assert f"id of Web Shop (Aurora Labs) is {WEB_SHOP}" in result.err
    assert "tenant use" in unknown.err


def test_a_name_where_an_id_is_needed_starts_no_platform_and_signs_nobody_in(home: Home) -> None:
    result = home.frost("--tenant", "Web Shop", "tenant", "current")
    assert result.code == 2
    assert "tenant use" in result.err
    assert home.platform_pid() is None
    assert not home.config.exists()


def test_an_empty_variable_is_not_set_and_an_empty_flag_is_a_mistake(shared: Home) -> None:
    assert current(shared, FROST_TENANT="")["id"] == WEB_SHOP
    assert shared.frost("--tenant", "", "tenant", "current").code == 2
    assert shared.frost("--tenant=", "tenant", "current").code == 2


def test_a_tenant_out_of_reach_reads_like_one_that_does_not_exist(demo: Home) -> None:
    demo.sign_in(MEMBER)
    foreign = demo.frost("--tenant", NEWSROOM, "tenant", "current")
    limited = demo.frost("--tenant", DATA_LAKE, "tenant", "current")
    missing = demo.frost("--tenant", NOBODYS, "tenant", "current")
    assert foreign.code == missing.code == limited.code != 0
    assert foreign.err.replace(NEWSROOM, "ID") == missing.err.replace(NOBODYS, "ID")
    assert limited.err.replace(DATA_LAKE, "ID") == missing.err.replace(NOBODYS, "ID")


@pytest.mark.parametrize(
    "words",
    [
        "tenant list",
        "tenant current",
        "tenant default-tags get",
        "tenant default-tags set --tag a=1 --dry-run",
        "tenant default-tags apply --preview",
        "tenant default-tags history",
        "tenant quota",
        "tenant quota --org",
        "tenant quota requests",
        "tenant quota what-if vcpu=1",
        "tenant quota request vcpu 200 --reason same",
    ],
)
def test_organization_is_accepted_by_the_tenant_commands(shared: Home, words: str) -> None:
    assert shared.frost(*words.split(), "--organization", AURORA).code == 0


@pytest.mark.parametrize("words", ["config show", "whoami", "platform status"])
def test_organization_is_an_unknown_flag_elsewhere(shared: Home, words: str) -> None:
    result = shared.frost(*words.split(), "--organization", AURORA)
    assert result.code == 2
    assert "--organization" in result.err


def test_the_only_organization_needs_no_flag(demo: Home) -> None:
    demo.sign_in("admin@aurora.example")
    result = demo.json("tenant", "create", "--name", "No Flag")
    assert result["organizationId"] == AURORA


def test_two_organizations_are_listed_and_the_flag_is_named(demo: Home) -> None:
    result = demo.frost("tenant", "create", "--name", "x")
    assert result.code == 2
    for wanted in (AURORA, BOREALIS, "--organization"):
        assert wanted in result.err


def test_nobodys_member_is_told_so(demo: Home) -> None:
    demo.sign_in(OUTSIDER)
    result = demo.frost("tenant", "create", "--name", "x")
    assert result.code != 0
    assert "you belong to no organization" in result.err


def test_a_foreign_organization_reads_like_one_that_does_not_exist(demo: Home) -> None:
    demo.sign_in(MEMBER)
    foreign = demo.frost("tenant", "list", "--organization", BOREALIS)
    missing = demo.frost("tenant", "list", "--organization", NOBODYS)
    assert foreign.code == missing.code != 0
    assert foreign.err.replace(BOREALIS, "ID") == missing.err.replace(NOBODYS, "ID")


def test_flags_stand_anywhere_and_two_dashes_end_them(shared: Home) -> None:
    expected = shared.frost("-o", "json", "tenant", "list", "--all").out
    for words in ("tenant -o json list --all", "tenant list --all --output=json", "--output json tenant list --all"):
        assert shared.frost(*words.split()).out == expected
    result = shared.frost("tenant", "use", "--", "--all")
    assert result.code == 5
    assert "--all" in result.err


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        ("tennant list", "tenant"),
        ("tenant lst", "list"),
        ("tenant list --al", "--all"),
        ("config get-context", "get-contexts"),
        ("--quite tenant list", "--quiet"),
    ],
)
def test_a_slip_of_the_finger_gets_the_nearest_spelling(home: Home, words: str, nearest: str) -> None:
    result = home.frost(*words.split())
    assert result.code == 2
    assert nearest in result.err


@pytest.mark.parametrize(
    ("alias", "words"),
    [
        ("tenants list --all", "tenant list --all"),
        ("iam groups list -o json", "iam group list -o json"),
        ("iam policies list -o json", "iam policy list -o json"),
        ("iam groups members list nobody", "iam group member list nobody"),
        ("iam test --document {", "iam simulate --document {"),
    ],
)
def test_aliases_print_the_same_bytes(shared: Home, alias: str, words: str) -> None:
    one, other = shared.frost(*alias.split()), shared.frost(*words.split())
    assert (one.code, one.out) == (other.code, other.out)
    assert one.err.replace("iam test", "iam simulate") == other.err


@pytest.mark.parametrize(
    "words",
    [
        "tenant use nobody",
        "tenant list --al",
        "nonsense",
        "config set color off",
        "iam group get nobody",
        "iam policy create --name x --document {",
        "iam group list --cursor x",
    ],
)
def test_under_json_an_error_is_one_object_on_standard_error(shared: Home, words: str) -> None:
    result = shared.frost(*words.split(), "-o", "json")
    assert result.code != 0
    assert result.out == ""
    assert len(result.err.strip().splitlines()) == 1
    assert set(result.error()) == {"code", "message", "hint", "requestId", "details"}


def test_an_error_names_the_input_and_the_next_step(shared: Home) -> None:
    result = shared.frost("tenant", "use", "no such tenant")
    assert "no such tenant" in result.err
    assert "tenant list" in result.err


def test_a_closed_pipe_ends_without_a_traceback(shared: Home) -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m tui tenant list --all -o json | head -c 1; exit ${{PIPESTATUS[0]}}"],
        env=shared.environment(),
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 141)
    assert b"Traceback" not in done.stderr


@pytest.mark.slow
def test_a_service_out_of_reach_is_exit_7_with_the_endpoint_named(home: Home) -> None:
    assert home.frost("config", "set", "api_endpoint", "http://127.0.0.1:1/api").code == 0
    assert home.frost("config", "set", "api_key", "fmk_000000000000000000000000000000000000").code == 0
    result = home.frost("tenant", "list")
    assert result.code == 7
    assert "127.0.0.1:1" in result.err
    assert "Traceback" not in result.err


def test_version_is_printed_without_a_platform(home: Home) -> None:
    from client import __version__

    assert home.frost("--version").out.split()[-1] == __version__
    assert not (home.path / ".cli").exists()


def test_screens_need_a_terminal_and_say_which_commands_do_not(home: Home) -> None:
    result = home.frost()
    assert result.code == 2
    assert "terminal" in result.err
    assert "frost --help" in result.err


def test_whoami_tells_the_credential_and_why(shared: Home) -> None:
    record = shared.json("whoami")
    assert record["email"] == OWNER
    assert "session" in json.dumps(record)
    assert VIEWER not in json.dumps(record)
