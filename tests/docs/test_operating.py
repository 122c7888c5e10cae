"""The tables of docs/operating.md are those of the code."""

import re
from dataclasses import asdict
from pathlib import Path

from client.commands.platform.process import platform as commands
from client.errors import Exit
from service.http_server.sockets import EXIT_ALREADY_RUNNING
from service.http_server.work_queues import RUNNING, RUNNING_PER_CREDENTIAL, Work
from service.settings import OPTIONS, Option, Settings, from_arguments
from service.start_signals import STOP_SIGNALS
from tests.docs.pages import ROOT, Page
from tests.homes import Home

rows = Page(ROOT / "docs" / "operating.md").rows
DIRECTORY = Path("/DIR")
# Options whose field of the settings has another name.
FIELDS = {
    "DATABASE": "database_url",
    "ASSUME": "assumed",
    "OPERATION_RETENTION_DAYS": "operation_days",
    "SESSION_RETENTION_DAYS": "session_days",
    "QUOTA_REQUEST_RETENTION_DAYS": "quota_request_days",
    "RETAINED_VERSIONS": "versions",
}


SETTINGS = {row[0].strip("`"): row for row in rows("| variable | flag | default | unit | meaning |")}


def default_of(settings: Settings, option: Option) -> str:
    if option.name == "DATA_DIR":
        return "~/.cli/platform"
    values = {name: value for name, value in asdict(settings).items() if not isinstance(value, dict)}
    values |= asdict(settings.limits) | asdict(settings.retention)
    value = values[FIELDS.get(option.name, option.name.lower())]
    if value is None or value == frozenset():
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value).replace(str(DIRECTORY), "DIR")


def test_each_setting_has_a_row_with_its_default_flag_and_unit() -> None:
    settings = from_arguments(["--data-dir", str(DIRECTORY)], {})
    defaults = {variable: row[2].strip("`") for variable, row in SETTINGS.items()}
    assert defaults == {option.variable: default_of(settings, option) for option in OPTIONS}
    serve = commands.get_command(None, "serve")  # type: ignore[arg-type]
    flags = {flag for parameter in serve.params for flag in parameter.opts if flag.startswith("--")}
    documented = {row[1].strip("`") for row in SETTINGS.values() if row[1]}
    assert documented == {option.flag for option in OPTIONS} & flags
    assert [name for name, row in SETTINGS.items() if re.fullmatch(r"[0-9.]+", row[2]) and not row[3]] == []


def test_the_queues_run_as_many_requests_as_documented() -> None:
    words = [Work.READ, Work.WRITE, Work.CPU_INTENSIVE, Work.SIGN_IN]
    expected = [[str(RUNNING[work]), str(RUNNING_PER_CREDENTIAL[work])] for work in words]
    table = rows("| class of work | run at a time | of one credential |")
    assert [[row[1], row[2].split()[0]] for row in table] == expected


def test_each_exit_code_and_readiness_check_has_a_row() -> None:
    served = {int(row[0]) for row in rows("| code | meaning |")}
    stopped = {128 + number for number in STOP_SIGNALS}
    assert served == {Exit.DONE, Exit.REFUSED, Exit.USAGE, Exit.CONFLICT, EXIT_ALREADY_RUNNING} | stopped
    of_commands = Page(ROOT / "docs" / "commands.md").rows("| exit code | meaning | exit code | meaning |")
    assert {int(code) for row in of_commands for code in (row[0], row[2]) if code} == {*map(int, Exit)}
    checks = {row[0].strip("`") for row in rows("| check | values besides `ok` |")}
    assert checks == {"database", "migrations", "operations", "audit", "disk", "clock", "triggers"}


def test_metrics_are_those_of_the_platform(shared: Home) -> None:
    shared.start()
    exposed = re.findall(r"^# TYPE (frost_\w+)", shared.request("GET", "/metrics").body.decode(), re.MULTILINE)
    documented = re.findall(r"`(frost_\w+)", " ".join(row[0] for row in rows("| metric | meaning |")))
    assert set(exposed) - {"frost_info"} == set(documented)
