"""Global flags and conventions, through the real command on the real platform."""

import json
import re
from collections.abc import Sequence

import pytest
import yaml

from tests.acceptance.people import (
    AURORA,
    BOREALIS,
    OUTSIDER,
    OWNER,
    VIEWER,
    WEB_SHOP,
)
from tests.homes import Home
from tests.terminal import screens

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


def test_help_lists_the_global_flags_and_starts_nothing(home: Home) -> None:
    for words in ("", "iam group member", "platform operations cancel"):
        for flag in ("--help", "-h"):
            result = home.frost(*words.split(), flag)
            assert (result.code, result.err) == (0, "")
            for name in ("--config", "--debug", "--no-color", "--output", "--quiet", "--tenant", "--help"):
                assert name in result.out, name
    assert not (home.path / ".cli").exists()


def test_config_reads_that_file_only(home: Home) -> None:
    other = home.path / "x.yaml"
    assert home.frost("--config", str(other), "config", "set", "region", "elsewhere").code == 0
    home.config.parent.mkdir(exist_ok=True, mode=0o700)
    home.config.write_text("this: [is not, yaml\n")
    home.config.chmod(0o600)
    result = home.frost("--config", str(other), "config", "show", "-o", "json")
    assert result.code == 0
    assert "elsewhere" in result.out


@pytest.mark.parametrize("flag", ["--tenant", "--config"])
def test_an_empty_flag_is_refused_before_the_screens_open(home: Home, flag: str) -> None:
    with screens(home, f"{flag}=") as program:
        assert program.wait_end() == 2
        assert f"{flag} requires a value" in program.text


@pytest.mark.parametrize(("arguments", "variable"), [(("--tenant", "alpha"), ""), ((), "alpha")])
def test_a_tenant_name_is_refused_before_the_screens_open(home: Home, arguments: Sequence[str], variable: str) -> None:
    with screens(home, *arguments, FROST_TENANT=variable) as program:
        assert program.wait_end() == 2
        assert "alpha" in program.text


def test_a_named_file_must_exist_unless_the_command_makes_it(home: Home) -> None:
    missing = str(home.path / "missing.yaml")
    result = home.frost("--config", missing, "config", "show")
    assert result.code == 2
    assert missing in result.err
    assert home.frost("config", "show").code == 0
    assert home.frost("--config", missing, "config", "set", "region", "r").code == 0


def test_debug_writes_to_standard_error_only(shared: Home) -> None:
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


@pytest.mark.parametrize("words", READS)
def test_every_record_is_printed_in_every_format(shared: Home, words: str) -> None:
    shown = {form: shared.frost(*words.split(), "-o", form) for form in ("table", "wide", "json", "yaml")}
    assert all(result.code == 0 and result.out.strip() for result in shown.values())
    document = shown["json"].json()
    assert shown["json"].out.endswith("}\n")
    if words != "platform status":
        assert yaml.safe_load(shown["yaml"].out) == document
        assert shared.frost(*words.split(), "--output=yaml").out == shown["yaml"].out


def test_the_format_is_table_then_the_configured_one_then_the_flag(demo: Home) -> None:
    assert demo.frost("tenant", "list", "--all").out.split()[0].isupper()
    assert demo.frost("config", "set", "output_format", "json").code == 0
    assert demo.frost("tenant", "list", "--all").json()["items"]
    assert demo.frost("tenant", "list", "--all", "-o", "table").out.split()[0].isupper()


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


def test_a_name_for_an_id_starts_no_platform_and_no_session(home: Home) -> None:
    result = home.frost("--tenant", "Web Shop", "tenant", "current")
    assert result.code == 2
    assert "tenant use" in result.err
    assert home.platform_pid() is None
    assert not home.config.exists()


def test_the_only_organization_needs_no_flag(demo: Home) -> None:
    demo.sign_in("admin@aurora.example")
    result = demo.json("tenant", "create", "--name", "No Flag")
    assert result["organizationId"] == AURORA


def test_two_organizations_are_listed_and_the_flag_is_named(demo: Home) -> None:
    result = demo.frost("tenant", "create", "--name", "x")
    assert result.code == 2
    for wanted in (AURORA, BOREALIS, "--organization"):
        assert wanted in result.err


def test_a_person_without_an_organization_is_refused(demo: Home) -> None:
    demo.sign_in(OUTSIDER)
    result = demo.frost("tenant", "create", "--name", "x")
    assert result.code != 0
    assert "you belong to no organization" in result.err


@pytest.mark.parametrize(
    ("alias", "words"),
    [
        ("tenants list --all", "tenant list --all"),
        ("iam groups list -o json", "iam group list -o json"),
        ("iam policies list -o json", "iam policy list -o json"),
        ("iam groups members list nobody", "iam group member list nobody"),
        ("iam test --document {", "iam simulate --document {"),
        ("tenants quotas", "tenant quota"),
        ("tenants quotas --org", "tenant quota --org"),
        ("tenants quotas requests", "tenant quota requests"),
        ("tenants default-tag get", "tenant default-tags get"),
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
