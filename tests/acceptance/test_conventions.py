"""Global flags, configuration, sign-in and tables of all commands."""

import json
import stat
from pathlib import Path

import pytest
import yaml

from client import __version__
from tests.homes import Home
from tests.people import MEMBER, NEWSROOM, WEB_SHOP
from tests.terminal import on_terminal, screens

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
    home.write_config("this: [is not, yaml\n")
    result = home.frost("--config", other, "config", "show", "-o", "json")
    assert (result.code, "elsewhere" in result.out) == (0, True)


@pytest.mark.parametrize(
    ("words", "variable", "message"),
    [
        (["--tenant="], "", "--tenant requires a value"),
        (["--config="], "", "--config requires a value"),
        (["--tenant", "alpha"], "", "alpha"),
        ([], "alpha", "alpha"),
    ],
)
def test_an_invalid_flag_is_refused_before_the_screens_open(
    home: Home, words: list[str], variable: str, message: str
) -> None:
    with screens(home, *words, FROST_TENANT=variable) as program:
        assert program.wait_end() == 2
        assert message in program.text


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


KEY = "fmk_abcdefghijklmnopqrstuvwxyz0123456789"


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
    home.write_config("# mine\nregion: r1\n")
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


def test_logout_ends_the_session_on_the_platform(demo: Home) -> None:
    token = demo.sign_in()
    assert demo.frost("logout").code == 0
    assert demo.request("GET", "/api/v1/me", token=token).status == 401
    refused = demo.frost("tenant", "list", "--all")
    assert (refused.code, "frost login" in refused.err) == (3, True)


@pytest.mark.slow
def test_logout_without_the_platform_warns_of_the_open_session(demo: Home) -> None:
    demo.sign_in()
    # One that is not started on demand.
    text = demo.config.read_text()
    assert text.count("  local:\n") == 1
    demo.config.write_text(text.replace("  local:\n", "  local:\n    api_endpoint: http://127.0.0.1:9/api\n"))
    result = demo.frost("logout")
    assert result.code == 0
    assert "the platform could not end the session" in result.err
    assert "stays valid there until it expires" in result.err


def test_login_with_a_context_and_an_endpoint_makes_that_context(demo: Home) -> None:
    demo.start()
    result = demo.frost("login", "--context", "work", "--endpoint", f"unix:{demo.socket}", "--as", MEMBER)
    assert result.code == 0
    assert "(context work, now the current one)" in result.err + result.out
    again = demo.frost("login", "--context", "work", "--as", MEMBER)
    assert "(context work)" in again.err + again.out
    assert demo.json("whoami")["email"] == MEMBER
    names = [item["name"] for item in demo.json("config", "get-contexts")["items"]]
    assert names == ["local", "work"]


def test_a_key_in_the_config_is_bound_to_its_tenant(demo: Home) -> None:
    demo.start()
    secret = demo.world_key("tenant-reader")
    assert demo.frost("config", "set", "api_key", "-", stdin=secret).code == 0
    assert demo.json("tenant", "current")["id"] == WEB_SHOP
    result = demo.frost("--tenant", NEWSROOM, "tenant", "current")
    assert result.code == 4
    assert "key" in result.err
    record = demo.json("whoami")
    assert "api_key" in json.dumps(record)
    assert secret not in json.dumps(record)


DEPLOYERS = "142c8364-7806-4577-93e7-83e7eb04b39b"
CHECKOUT = "47eaa099-2cb6-416d-86dc-283cf0480ff9"
COMPUTE_ALL = "42a68fec-c75a-43c4-8d0d-866b16519537"


def printed(home: Home, columns: int, *words: str) -> str:
    program = on_terminal(home, *words, "--no-color", columns=columns, rows=60)
    assert program.wait_end() == 0
    return program.raw().decode().replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("words", "identifier", "long"),
    [
        (("tenant", "list", "--all"), WEB_SHOP, "Aurora Labs"),
        (("iam", "group", "member", "list", DEPLOYERS), CHECKOUT, "workload_identity"),
        (("account", "api-key", "list"), COMPUTE_ALL, "deploy-pipeline"),
    ],
)
def test_a_table_fits_80_columns_keeps_ids_and_is_whole_in_a_pipe(
    shared: Home, words: tuple[str, ...], identifier: str, long: str
) -> None:
    lines = printed(shared, 80, *words).splitlines()
    assert max(map(len, lines)) <= 80
    assert f"  {identifier}  " in "\n".join(lines)
    assert long not in "\n".join(lines)
    assert "…" in "\n".join(lines)
    piped = shared.frost(*words).out
    assert long in piped
    assert "…" not in piped
