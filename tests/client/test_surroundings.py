"""A client without HOME, without a working directory, and with variables of other programs."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from client.auth import keyring_store
from client.errors import Exit, FrostError
from client.time_zone import unknown_zone_notice
from tests.client.scripted import Run, Scripted
from tests.client.wire import KEY
from tests.homes import write_config


@pytest.fixture
def homeless(platform: Scripted, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """Commands with `--config`, in an environment without HOME."""
    monkeypatch.delenv("HOME")
    return platform


def test_a_named_config_file_needs_no_home(homeless: Scripted) -> None:
    homeless.on("GET /iam/groups", {"groups": [], "nextCursor": ""})
    assert homeless.document("iam", "group", "list")["items"] == []
    assert "default" in homeless.run("config", "get-contexts").out
    assert "api_key" in homeless.run("config", "show").out
    assert homeless.run("config", "set", "region", "se-sto-1").code == 0
    assert homeless.run("logout").code == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("status",), Exit.DONE),
        (("audit", "verify"), Exit.UNREACHABLE),
        (("backup", "/nowhere/backup.tar"), Exit.REFUSED),
        (("restore", "/nowhere/backup.tar", "--trust", "--yes"), Exit.REFUSED),
    ],
)
def test_a_named_data_directory_needs_no_home(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: Exit
) -> None:
    monkeypatch.delenv("HOME")
    ended = run("platform", *words, "--data-dir", str(tmp_path))
    assert ended.code == code, ended
    assert "HOME" not in ended.err


@pytest.mark.parametrize("words", [("tenant", "list"), ("platform", "status"), ("whoami",)])
def test_what_needs_a_home_names_it(run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    for value in ("", "relative", None):
        monkeypatch.delenv("HOME") if value is None else monkeypatch.setenv("HOME", value)
        ended = run(*words)
        assert (ended.code, ended.err) == (2, "frost: HOME is not set to an absolute path. Set HOME\n")


def test_a_context_without_an_endpoint_needs_a_home(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    write_config(tmp_path / "c.yaml", f"region: x\napi_key: {KEY.secret}\n")
    ended = run("--config", str(tmp_path / "c.yaml"), "tenant", "list")
    assert (ended.code, "HOME is not set" in ended.err) == (2, True)
    assert run("--config", str(tmp_path / "c.yaml"), "config", "show").code == 0


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The working directory of this test is deleted."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize(
    "line",
    [
        "--config REL tenant list",
        "config init --config REL",
        "platform status --data-dir REL",
        "platform serve --data-dir REL",
        "platform backup REL",
        "platform backup /x --data-dir REL",
        "platform backup /x --secret-file REL",
        "platform restore REL --trust",
        "platform audit verify --data-dir REL",
        "platform audit export REL --before 3d",
    ],
)
def test_a_relative_path_in_a_deleted_folder_is_named(run: Run, line: str) -> None:
    ended = run(*line.replace("REL", "some/file").split())
    assert ended.code == Exit.USAGE
    assert ended.err.startswith("frost: some/file is a relative path, but the working directory cannot be used: ")
    assert len(ended.err.splitlines()) == 1


@pytest.mark.usefixtures("nowhere")
def test_absolute_paths_work_in_a_deleted_folder(platform: Scripted, tmp_path: Path) -> None:
    platform.on("GET /iam/groups", {"groups": [], "nextCursor": ""})
    assert platform.run("iam", "group", "list").code == 0
    assert platform.run("platform", "status", "--data-dir", f"{tmp_path}/x/..").code == 0


@pytest.mark.parametrize("backend", ["keyrings.alt.file.PlaintextKeyring", "no.such.Backend", "null", ""])
@pytest.mark.parametrize("bus", ["", "unix:path=/nowhere"])
def test_a_backend_that_is_not_used_is_named(monkeypatch: pytest.MonkeyPatch, backend: str, bus: str) -> None:
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", bus)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", backend)
    with pytest.raises(FrostError, match="PYTHON_KEYRING_BACKEND") as caught:
        keyring_store.read("file/context")
    assert caught.value.exit_code == Exit.NOT_SIGNED_IN
    assert backend in caught.value.message


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the time zone of this process."""

    def set_zone(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


def test_an_unknown_time_zone_is_noticed(zone: Callable[[str], None]) -> None:
    for name in ("Europe/Nowhere", "Narnia", ":Europe/Nowhere", "/no/such/file", "CES"):
        zone(name)
        assert unknown_zone_notice() == f"TZ {name.removeprefix(':')!r} is not a known time zone: local time is UTC"
    for name in ("", "UTC", "UTC0", "GMT", "CET-1CEST", "CET-1CEST,M3.5.0,M10.5.0/3", "<+03>-3", "EST5EDT"):
        zone(name)
        assert unknown_zone_notice() == ""
    if os.path.exists("/usr/share/zoneinfo/Europe/Berlin"):  # noqa: PTH110  (a container may have no time zones)
        for name in ("Europe/Berlin", ":Europe/Berlin", "/usr/share/zoneinfo/Europe/Berlin", "Europe/London"):
            zone(name)
            assert unknown_zone_notice() == ""


def test_a_local_date_warns_of_an_unknown_time_zone(platform: Scripted, zone: Callable[[str], None]) -> None:
    zone("Europe/Nowhere")
    platform.on("GET /activity", {"entries": [], "nextCursor": ""})
    warning = "warning: TZ 'Europe/Nowhere' is not a known time zone: local time is UTC"
    assert warning in platform.run("tenant", "activity", "--since", "2026-01-01", "-q").err
    assert "TZ" not in platform.run("tenant", "activity", "--since", "2d").err
    assert "TZ" not in platform.run("tenant", "activity").err
    for words in (("create", "--name", "x", "--scopes", "compute:read"), ("rotate", "x")):
        assert warning in platform.run("account", "api-key", *words, "--expires", "2027-01-01").err
    assert "TZ" not in platform.run("account", "api-key", "rotate", "x", "--expires", "2027-01-01T00:00:00Z").err


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("file://policy.json", "--document @policy.json"),
        ("file:policy.json", "--document @policy.json"),
        ("FILE:///srv/my%20policy.json", "--document '@/srv/my policy.json'"),
        ("file://localhost/srv/policy.json", "--document @/srv/policy.json"),
        ("./policy.json", "--document @./policy.json"),
        ("../policy", "--document @../policy"),
        ("/srv/policy", "--document @/srv/policy"),
        ("~/policy", "--document '@~/policy'"),
        ("policy.json", "--document @policy.json"),
        ("@file://policy.json", "--document @policy.json"),
        ("https://example.com/policy.json", "save the document to a file, then: --document @FILE"),
    ],
)
@pytest.mark.parametrize(
    "words",
    [
        ("policy", "check"),
        ("policy", "create", "--name", "x"),
        ("policy", "update", "4793d4e5-9e63-4ff7-8783-9bb3aca1f5d5"),
        ("simulate", "--operation", "compute:instances:list", "--target", "*"),
    ],
)
def test_a_path_or_url_in_place_of_a_document_gets_the_form_that_reads_it(
    platform: Scripted, words: tuple[str, ...], value: str, hint: str
) -> None:
    error = platform.run("iam", *words, "--document", value, "-o", "json").error()
    assert error["hint"].endswith(hint)
    assert platform.sent() == []


@pytest.mark.parametrize("value", ['{"rules": [', "rules", '{"name": "./x.json"', "[./x.json", "a\n./x.json"])
def test_other_text_gets_no_hint_at_a_file(platform: Scripted, value: str) -> None:
    error = platform.run("iam", "policy", "check", "--document", value, "-o", "json").error()
    assert "@" not in error["hint"]
