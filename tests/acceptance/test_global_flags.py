"""Global flags and conventions, through the real command on the real platform."""

from collections.abc import Sequence

import pytest
import yaml

from client import __version__
from tests.acceptance.people import WEB_SHOP
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


def test_config_names_the_only_file_that_is_read(home: Home) -> None:
    other, missing = str(home.path / "x.yaml"), str(home.path / "missing.yaml")
    refused = home.frost("--config", missing, "config", "show")
    assert (refused.code, missing in refused.err) == (2, True)
    assert home.frost("config", "show").code == 0
    assert home.frost("--config", other, "config", "set", "region", "elsewhere").code == 0
    home.config.parent.mkdir(exist_ok=True, mode=0o700)
    home.config.write_text("this: [is not, yaml\n")
    home.config.chmod(0o600)
    result = home.frost("--config", other, "config", "show", "-o", "json")
    assert (result.code, "elsewhere" in result.out) == (0, True)


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
    # The message has the id of the one tenant of that name, or the next step.
    for result in (flag, variable):
        assert f"id of Web Shop (Aurora Labs) is {WEB_SHOP}" in result.err
    assert "tenant use" in unknown.err


def test_before_a_request_no_platform_and_no_session_is_started(home: Home) -> None:
    result = home.frost("--tenant", "Web Shop", "tenant", "current")
    assert (result.code, "tenant use" in result.err) == (2, True)
    screens = home.frost()
    assert screens.code == 2
    assert all(text in screens.err for text in ("terminal", "frost --help"))
    assert home.frost("--version").out.split()[-1] == __version__
    assert home.platform_pid() is None
    assert not home.config.exists()
