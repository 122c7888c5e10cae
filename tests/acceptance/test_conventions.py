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
    [(["--tenant="], "", "--tenant requires a value"), ([], "alpha", "alpha")],
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


def test_a_name_is_refused_where_an_id_is_needed_with_the_id(shared: Home) -> None:
    assert shared.frost("whoami").code == 0  # signed in, on a platform that runs
    for words, variable in ((("--tenant", "Web Shop"), ""), ((), "web-shop")):
        refused = shared.frost(*words, "tenant", "current", env={"FROST_TENANT": variable})
        assert (refused.code, ("FROST_TENANT" if variable else "--tenant") in refused.err) == (2, True)
        assert f"id of Web Shop (Aurora Labs) is {WEB_SHOP}" in refused.err


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


def test_init_without_a_terminal_writes_defaults_and_on_one_takes_a_key_unshown(home: Home) -> None:
    result = home.frost("config", "init")
    assert (result.code, "credential" in result.err.casefold()) == (0, True)
    home.write_config("# mine\nregion: r1\n")
    assert home.frost("config", "init").code == 2
    for answer, ended in ((b"n\r", 1), (b"y\r", 0)):
        before = home.config.read_text()
        program = on_terminal(home, "config", "init")
        program.wait_for("[y/N]")
        program.write(answer)
        if ended == 0:
            program.wait_for("API key")
            program.write(f"{KEY}\r".encode())
        assert program.wait_end() == ended
        assert (home.config.read_text() == before) is bool(ended)
    assert KEY.encode() not in program.raw()
    (former,) = home.config.parent.glob("config.yaml.*.before")
    assert former.read_text() == "# mine\nregion: r1\n"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (home.config, former)] == [0o600, 0o600]
    document = yaml.safe_load(home.config.read_text())
    assert document["current_context"] == "local"
    assert document["contexts"]["local"]["api_endpoint"].startswith("unix:/")
    assert document["defaults"] == {"output_format": "table"}
    assert KEY in str(document["contexts"]["local"])


def test_odd_values_in_variables_are_plain_text(home: Home) -> None:
    result = home.frost("tenant", "current", env={"FROST_TENANT": "$(touch /tmp/owned)\n'; --"})
    assert (result.code, "\n'" in result.err) == (2, False)
    odd = home.path / "a $(b) 'c'\"d"
    odd.mkdir()
    assert home.frost("config", "set", "region", "r", env={"HOME": str(odd)}).code == 0
    assert (odd / ".cli" / "config.yaml").is_file()


def test_a_project_folder_of_that_name_is_never_read(home: Home, tmp_path: Path) -> None:
    (tmp_path / ".cli").mkdir()
    (tmp_path / ".cli" / "config.yaml").write_text("region: planted\n")
    assert "planted" not in home.frost("config", "show", "-o", "json", cwd=tmp_path).out


def test_a_context_keeps_its_format_its_session_until_logout_and_the_tenant_of_its_key(demo: Home) -> None:
    demo.start()
    assert demo.frost("tenant", "list", "--all").out.split()[0].isupper()
    assert demo.frost("config", "set", "output_format", "json").code == 0
    assert demo.frost("tenant", "list", "--all").json()["items"]
    assert demo.frost("tenant", "list", "--all", "-o", "table").out.split()[0].isupper()
    assert demo.frost("config", "set", "output_format", "table").code == 0
    result = demo.frost("login", "--context", "work", "--endpoint", f"unix:{demo.socket}", "--as", MEMBER)
    assert result.code == 0
    assert "(context work, now the current one)" in result.err + result.out
    again = demo.frost("login", "--context", "work", "--as", MEMBER)
    assert "(context work)" in again.err + again.out
    assert demo.json("whoami")["email"] == MEMBER
    assert [item["name"] for item in demo.json("config", "get-contexts")["items"]] == ["local", "work"]
    token = demo.token()
    assert demo.frost("logout").code == 0
    assert demo.request("GET", "/api/v1/me", token=token).status == 401
    refused = demo.frost("tenant", "list", "--all")
    assert (refused.code, "frost login" in refused.err) == (3, True)
    secret = demo.world_key("tenant-reader")
    assert demo.frost("config", "set", "api_key", "-", stdin=f"{secret}\n").code == 0
    assert demo.json("tenant", "current")["id"] == WEB_SHOP
    result = demo.frost("--tenant", NEWSROOM, "tenant", "current")
    assert (result.code, "key" in result.err) == (4, True)
    record = json.dumps(demo.json("whoami"))
    assert ("api_key" in record, secret in record) == (True, False)


DEPLOYERS = "142c8364-7806-4577-93e7-83e7eb04b39b"
CHECKOUT = "47eaa099-2cb6-416d-86dc-283cf0480ff9"
COMPUTE_ALL = "42a68fec-c75a-43c4-8d0d-866b16519537"


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
    program = on_terminal(shared, *words, "--no-color", columns=80, rows=60)
    assert program.wait_end() == 0
    shown, piped = program.raw().decode().replace("\r\n", "\n"), shared.frost(*words).out
    assert max(map(len, shown.splitlines())) <= 80
    assert f"  {identifier}  " in shown
    assert (long in shown, "…" in shown) == (False, True)
    assert (long in piped, "…" in piped) == (True, False)
