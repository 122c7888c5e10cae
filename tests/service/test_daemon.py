"""The platform as a process: its place on the machine, and how it ends."""

import http.client
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from service.settings import from_arguments
from tests.service.access import code
from tests.service.running import Executed, Running, ask_on, tcp_address
from tests.waiting import until

pytestmark = pytest.mark.slow


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_second_start_exits_75_and_a_damaged_secret_is_never_replaced() -> None:
    with Executed(None, "empty") as running:
        assert running.process is not None
        assert int((running.folder / "platform.lock").read_text()) == running.process.pid
        assert running.launch().wait(60) == 75
        assert running.get("/api/v1/platform/status").json()["pid"] == running.process.pid
        running.stop()
        (running.folder / "secret.key").write_bytes(b"short")
        assert running.launch().wait(60) == 1
        assert "is damaged" in running.log
        assert (running.folder / "secret.key").read_bytes() == b"short"


def test_starts_at_the_same_time_serve_once_and_early_clients_wait_in_the_backlog() -> None:
    with Executed(None, "empty") as running:
        running.stop()
        many = [running.launch() for _ in range(5)]
        until(lambda: running.socket.exists() and connects(running.socket))
        # The framework is not loaded yet; the request is answered when it is.
        assert running.get("/healthz").status == 200
        until(lambda: sum(process.poll() is not None for process in many) == 4)
        assert sorted(process.returncode or 0 for process in many) == [0, 75, 75, 75, 75]
        (winner,) = [process for process in many if process.poll() is None]
        assert running.get("/api/v1/platform/status").json()["pid"] == winner.pid
        winner.terminate()
        assert winner.wait(60) == 0


def connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(str(path)) == 0


def test_the_platform_ends_with_status_0_and_removes_the_socket() -> None:
    with Executed(None, "empty") as running:
        running.get("/issuer/jwks")
        modes = {path.name: mode(path) for path in running.folder.iterdir()}
        assert set(modes.values()) == {0o600}, modes
        assert {"api.sock", "platform.db", "platform.lock", "secret.key", "issuer.jwk"} <= modes.keys()
        running.folder.chmod(0o755)
        for number in (signal.SIGTERM, signal.SIGINT, None):
            process = running.process
            assert process is not None
            if number:
                process.send_signal(number)
            else:
                # A request under way is answered before the end.
                answer = running.ask("POST", "/api/v1/platform/stop")
                assert (answer.status, answer.json()) == (202, {"status": "stopping"})
            assert process.wait(60) == 0
            assert not running.socket.exists()
            running.start()
            # A start closes a folder that others could enter.
            assert mode(running.folder) == 0o700
        assert "Traceback" not in running.log


def test_a_start_needs_its_own_folder_and_a_free_socket_that_others_cannot_write(tmp_path: Path) -> None:
    precious, shared, platform = tmp_path / "notes", tmp_path / "shared", tmp_path / "platform"
    precious.write_text("keep me")
    tmp_path.chmod(0o700)
    assert "is not a socket" in failed_start(platform, "--socket", str(precious))
    assert precious.read_text() == "keep me"
    shared.mkdir()
    shared.chmod(0o777)
    assert "must not be writable by others" in failed_start(platform, "--socket", str(shared / "api.sock"))
    if os.getuid() == 0:  # Only root can give a folder away.
        os.chown(shared, 12345, 12345)
        assert "belongs to another user" in failed_start(shared)


def test_a_failed_start_is_reported_in_one_line(tmp_path: Path) -> None:
    folder, postgresql = tmp_path / "platform", "postgresql://nobody:SECRET@127.0.0.1:1/none"
    folder.mkdir(mode=0o700)
    (folder / "platform.db").write_bytes(b"no database at all\n" * 200)
    unusable = "the database cannot be used"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        for flags, start, reason in (
            (["--database", "nonsense"], unusable, "Could not parse SQLAlchemy URL"),
            (["--database", postgresql], unusable, "Connection refused"),
            ([], unusable, "file is not a database"),
            (["--listen", f"127.0.0.1:{taken.getsockname()[1]}"], "cannot listen on 127.0.0.1", "in use"),
        ):
            stderr = failed_start(folder, *flags)
            line = stderr.splitlines()[-1]
            assert line.startswith(f"frost platform: {start}"), line
            assert reason in line
            assert "Traceback" not in stderr
            assert "SECRET" not in stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "--data-dir is required"),
        (["--data-dir", "x", "--world", "moon"], "--world must be one of"),
        (["--data-dir", "x", "--nonsense"], "unrecognized arguments"),
    ],
)
def test_a_wrong_flag_is_reported(capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str) -> None:
    with pytest.raises(SystemExit) as end:
        from_arguments(arguments, {})
    assert end.value.code == 2
    assert reason in capsys.readouterr().err.splitlines()[-1]


def failed_start(folder: Path, *flags: str) -> str:
    """Return the standard error of a platform that fails to start."""
    command = [sys.executable, "-m", "service", "--data-dir", str(folder), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    return done.stderr


def test_an_idle_platform_stops_unless_an_operation_is_open() -> None:
    with Executed(None, "empty", "--idle-minutes", "0.01") as running:
        assert running.process is not None
        assert running.process.wait(60) == 0
    with Executed(None, "demo", "--idle-minutes", "0.01") as running:
        assert running.process is not None
        with pytest.raises(subprocess.TimeoutExpired):
            running.process.wait(8)


def test_over_tcp_no_header_makes_an_operator(network: Running) -> None:
    """`test_matrix.py` has every route over TCP."""
    connection = http.client.HTTPConnection(*tcp_address(network), timeout=60)
    forged = (("X-Forwarded-For", "uid:0"), ("Forwarded", "for=unix:"))
    assert code(ask_on(connection, "GET", "/api/v1/platform/status", forged)) == (404, "PATH_NOT_ROUTED")
    assert ask_on(connection, "GET", "/api/v1/auth/cli-config", ()).status == 503
