"""The platform of this machine is started, stopped, replaced and reset, with real processes."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from client import __version__, paths
from client.api import account, platform
from client.auth import credential_store, sign_in
from client.config.reader import Config
from client.connection import resolve
from client.errors import Exit, FrostError
from client.paths import socket_path, socket_path_in
from client.platform import control, process
from client.transport.blocking_client import BlockingClient
from client.transport.endpoint import Endpoint
from tests.conftest import home_of
from tests.homes import Home
from tests.waiting import at_once

pytestmark = pytest.mark.process


@pytest.fixture
def demo(demo_platform: Path) -> Iterator[Home]:
    """A machine with the demo world on which platforms are started as processes."""
    with home_of(demo_platform, forked=False) as home:
        yield home


def who(home: Home) -> str:
    return str(BlockingClient(resolve(home.environment())).ask_json(account.me())["email"])


def pids(home: Home) -> set[int]:
    """Every process that runs the platform of this home."""
    running = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(home.platform_dir).encode() in words and b"service" in words:
            running.add(int(folder.name))
    return running


def test_the_socket_is_below_home_unless_the_path_is_too_long() -> None:
    assert socket_path("/home/ada") == "/home/ada/.cli/platform/api.sock"
    long = "/" + "x" * 90
    short = socket_path(long, {"XDG_RUNTIME_DIR": "/run/user/7"})
    assert short.startswith(f"/run/user/7/frost-{os.getuid()}/")
    assert short == socket_path_in(f"{long}/.cli/platform", {"XDG_RUNTIME_DIR": "/run/user/7"})
    assert socket_path(long + "y", {}).startswith(f"/tmp/frost-{os.getuid()}/")
    assert socket_path(long, {}) != socket_path(long + "y", {})
    # "é" is two bytes: 100 bytes are the limit, not 100 characters
    assert socket_path("/" + "é" * 38, {}).startswith("/é")
    assert socket_path("/" + "é" * 39, {}).startswith("/tmp/")


@pytest.mark.slow
def test_a_home_with_a_very_long_path_works(demo: Home) -> None:
    deep = demo.path / ("long-" * 18)
    deep.mkdir()
    environ = {**demo.environment(), "HOME": str(deep), "XDG_RUNTIME_DIR": str(demo.path)}
    try:
        assert BlockingClient(resolve(environ)).ask_json(account.me())["email"]
        assert not (deep / ".cli" / "platform" / "api.sock").exists()
    finally:
        control.stop(environ)


def test_it_outlives_its_starter_and_has_a_session_of_its_own(
    demo: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A dead socket is replaced, and a folder called service in the current one is not what starts.
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(demo.socket))
    (tmp_path / "service").mkdir()
    (tmp_path / "service" / "__init__.py").touch()
    (tmp_path / "service" / "__main__.py").write_text(f"open({str(tmp_path / 'PWNED')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    at_once([lambda: demo.frost("whoami", cwd=tmp_path).code] * 3)
    assert not (tmp_path / "PWNED").exists()
    pid = demo.platform_pid()
    assert pid is not None
    assert pids(demo) == {pid}
    assert os.getsid(pid) == pid
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    # The same version costs no request.
    assert (demo.platform_dir / "platform.version").read_text() == f"{__version__}\n"

    def request_version(environ: object) -> str:
        raise AssertionError("the client requested the version of the platform")

    monkeypatch.setattr(process, "_running_version", request_version)
    assert who(demo) == "owner@aurora.example"


@pytest.mark.slow
def test_another_unix_socket_is_never_started_for(demo: Home, tmp_path: Path) -> None:
    demo.write_config(f"contexts: {{a: {{api_endpoint: 'unix:{demo.path}/else.sock', api_key: K}}}}\n")
    with pytest.raises(FrostError) as caught:
        who(demo)
    assert caught.value.exit_code == Exit.UNREACHABLE
    assert pids(demo) == set()


def test_a_platform_that_fails_to_start_is_reported_with_its_error(home: Home) -> None:
    home.variables["FROST_PLATFORM_DATABASE"] = "nonsense"
    with pytest.raises(FrostError) as caught:
        who(home)
    assert caught.value.exit_code == Exit.UNREACHABLE
    assert str(home.platform_dir / "platform.log") in caught.value.hint
    assert "Could not parse SQLAlchemy URL" in caught.value.message


def test_a_silent_lock_holder_is_waited_for_and_reported(demo: Home) -> None:
    code = (
        "import fcntl, os, sys, time\n"
        "lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
        "fcntl.flock(lock, fcntl.LOCK_EX); os.write(lock, b'%d' % os.getpid()); print(1, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(demo.platform_dir / "platform.lock")], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(FrostError, match="did not respond within") as caught:
            process.ensure_running(demo.environment(), seconds=1.5)
        assert caught.value.exit_code == Exit.UNREACHABLE
        assert control.stop(demo.environment())  # what holds the lock and does not answer gets SIGTERM
        assert holder.wait(60) == -signal.SIGTERM
    for late in pids(demo):  # one that was being started for the last try may find the lock free now
        with suppress(ProcessLookupError):
            os.kill(late, signal.SIGKILL)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_a_platform_folder_of_another_user_is_refused(home: Home) -> None:
    home.platform_dir.mkdir(parents=True, mode=0o700)
    os.chown(home.platform_dir, 65534, 65534)
    with pytest.raises(FrostError, match="not a folder of this user"):
        process.ensure_running(home.environment())


@pytest.fixture
def older(demo: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A running platform of this version, and a client that is one version further."""
    assert process.ensure_running(demo.environment())
    assert who(demo)
    monkeypatch.setattr(process, "__version__", "999.0.0")
    return demo


@pytest.mark.slow
def test_an_older_platform_is_replaced_and_the_session_lives(older: Home) -> None:
    before = older.platform_pid()
    assert who(older) == "owner@aurora.example"
    assert older.platform_pid() != before
    assert pids(older) == {older.platform_pid()}


def test_a_newer_platform_is_reported_and_left_alone(older: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    before = older.platform_pid()
    monkeypatch.setattr(process, "__version__", "0.0.1")
    with pytest.raises(FrostError, match="newer than this frost") as caught:
        who(older)
    assert "upgrade" in caught.value.hint
    assert older.platform_pid() == before


def test_versions_are_compared_as_numbers() -> None:
    assert process._numbers("0.10.0") > process._numbers("0.9.9")
    assert process._numbers("1.2.3rc1") == (1, 2)


def test_stopping_stops_and_the_next_request_starts(demo: Home) -> None:
    environ = demo.environment()
    endpoint = Endpoint.parse(paths.default_endpoint(environ))
    assert not control.stop(environ)
    assert who(demo)
    assert control.is_running(endpoint)
    assert control.stop(environ)
    assert pids(demo) == set()
    assert not control.is_running(endpoint)
    assert who(demo)
    demo.socket.unlink()  # it gets no request any more, but a signal
    assert control.stop(environ)
    assert pids(demo) == set()


@pytest.mark.slow
def test_resetting_loads_another_world_and_clients_sign_in_again(demo: Home) -> None:
    environ = demo.environment()
    running = BlockingClient(resolve(environ))
    running.ask_json(account.me())
    connection = resolve(environ)
    keys = (demo.platform_dir / "world-keys.json").read_bytes()
    process.reset(demo.read_config(), "demo", environ)
    assert running.ask_json(account.me())["email"] == "owner@aurora.example"
    assert not demo.read_config().contexts["local"].session_ended
    assert (demo.platform_dir / "world-keys.json").read_bytes() != keys
    sign_in.sign_in_device(connection, email="admin@aurora.example")
    sign_in.sign_out(connection)
    process.reset(demo.read_config(), "empty", environ)
    assert BlockingClient(control.OperatorConnection(environ)).ask_json(platform.status())["world"] == "empty"
    assert who(demo)  # it signs in by itself again


@pytest.mark.slow
def test_resetting_is_the_way_back_from_lost_and_damaged_files(demo: Home) -> None:
    environ = demo.environment()
    assert who(demo)
    control.stop(environ)
    secret = (demo.platform_dir / "secret.key").read_bytes()
    for name in ("platform.db", "issuer.jwk", "workflows.db", "secret.key"):
        (demo.platform_dir / name).write_bytes(b"damaged")
        refused = demo.frost("tenant", "list")
        assert (refused.code, name in refused.err) == (Exit.UNREACHABLE, True), refused.err
        assert "frost platform restore" in refused.err or "frost platform reset" in refused.err
        process.reset(demo.read_config(), "empty", environ)
        assert who(demo)
        control.stop(environ)
        assert ((demo.platform_dir / "secret.key").read_bytes() == secret) == (name != "secret.key")
    (demo.platform_dir / "platform.db").unlink()
    (demo.platform_dir / "platform.db").mkdir()
    with pytest.raises(FrostError, match=r"platform\.db is a folder"):
        process.reset(demo.read_config(), "empty", environ)


def test_resetting_keeps_sessions_and_keys_of_other_places(demo_slow: Home) -> None:
    environ = demo_slow.environment()
    demo_slow.write_config(
        "current_context: local\ncontexts:\n  local: {credentials: {api_key: K, access_token: A, refresh_token: R}}\n"
        "  away: {api_endpoint: 'https://h.example/api', credentials: {access_token: A, refresh_token: R}}\n"
    )
    process.reset(demo_slow.read_config(), "empty", environ)
    config = demo_slow.read_config()
    assert config.contexts["local"].credentials.kinds == ("api_key",)
    assert config.contexts["away"].credentials.kinds == ("session",)
    assert credential_store.load(config, config.contexts["away"]).secret == "A"


@pytest.mark.slow
def test_a_start_during_a_reset_is_refused(demo: Home) -> None:
    environ = demo.environment()
    who(demo)
    config = demo.read_config()
    stop = threading.Event()
    failures: list[FrostError] = []

    def hammer() -> None:
        while not stop.is_set():
            try:
                process.ensure_running(environ)
            except FrostError as error:
                failures.append(error)
            time.sleep(0.01)

    thread = threading.Thread(target=hammer)
    thread.start()
    try:
        outcomes = [_reset(config, environ) for _ in range(3)]
    finally:
        stop.set()
        thread.join()
    assert set(outcomes) <= {None, Exit.CONFLICT}  # done, or refused with the data as it was
    assert failures == []
    assert who(demo)


def test_a_reset_overtaken_by_another_start_is_a_conflict(demo_slow: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = demo_slow.environment()
    forget = process._forget_sessions

    def quicker(config: Config, environ: dict[str, str]) -> None:
        forget(config, environ)
        process.ensure_running(environ)  # as an open screen does after it lost its connection

    monkeypatch.setattr(process, "_forget_sessions", quicker)
    assert _reset(demo_slow.read_config(), environ) == Exit.CONFLICT


def _reset(config: Config, environ: dict[str, str]) -> Exit | None:
    try:
        process.reset(config, "empty", environ)
    except FrostError as error:
        return error.exit_code
    return None
