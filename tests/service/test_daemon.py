"""The platform as a process: its place on the machine, and how it ends."""

import http.client
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.homes import Answer, UnixConnection
from tests.service.running import OWNER, SANDBOX, Executed, Running, exchange, tcp_address

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def platform() -> Iterator[Running]:
    with Executed(None, "empty") as running:
        yield running


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_user_can_enter_the_folder_and_open_what_is_in_it(platform: Running) -> None:
    platform.get("/issuer/jwks")
    assert mode(platform.folder) == 0o700
    for path in platform.folder.iterdir():
        assert mode(path) == 0o600, path.name
    assert {"api.sock", "platform.db", "platform.lock", "secret.key", "issuer.jwk"} <= {
        path.name for path in platform.folder.iterdir()
    }


def test_a_folder_that_others_could_enter_is_closed(tmp_path: Path) -> None:
    with Executed(None, "empty") as running:
        running.stop()
        running.folder.chmod(0o755)
        running.start()
        assert mode(running.folder) == 0o700


def test_the_lock_file_holds_the_process_id(platform: Running) -> None:
    assert platform.process is not None
    assert int((platform.folder / "platform.lock").read_text()) == platform.process.pid
    assert platform.get("/api/v1/platform/status").json()["pid"] == platform.process.pid


def test_a_second_start_exits_75_and_disturbs_nothing(platform: Running) -> None:
    assert platform.launch().wait(60) == 75
    assert platform.get("/healthz").status == 200


def test_of_many_that_start_at_once_one_serves_and_the_others_exit_75() -> None:
    with Executed(None, "empty") as running:
        running.stop()
        many = [running.launch() for _ in range(5)]
        losers = 0
        end = time.monotonic() + 60
        while losers < 4 and time.monotonic() < end:
            losers = sum(process.poll() is not None for process in many)
            time.sleep(0.02)
        assert sorted(process.returncode or 0 for process in many) == [0, 75, 75, 75, 75]
        (winner,) = [process for process in many if process.poll() is None]
        assert running.get("/api/v1/platform/status").json()["pid"] == winner.pid
        winner.terminate()
        assert winner.wait(60) == 0


def test_early_clients_wait_in_the_backlog_instead_of_being_refused() -> None:
    with Executed(None, "empty") as running:
        running.stop()
        process = running.launch()
        while not running.socket.exists() or not connects(running.socket):
            time.sleep(0.002)
        # The framework is not loaded yet; the request is answered once it is.
        assert running.get("/healthz").status == 200
        process.terminate()
        process.wait(60)


def connects(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(str(path)) == 0


def test_sigterm_ends_it_with_status_0_and_takes_the_socket_along() -> None:
    with Executed(None, "empty") as running:
        assert running.stop() == 0
        assert not running.socket.exists()
        assert "Traceback" not in running.log


def test_a_request_under_way_is_answered_before_it_ends() -> None:
    with Executed(None, "empty") as running:
        assert running.process is not None
        connection = UnixConnection(running.socket)
        connection.request("POST", "/api/v1/platform/stop")
        answer = connection.getresponse()
        assert answer.status == 202
        assert json.loads(answer.read()) == {"status": "stopping"}
        assert running.process.wait(60) == 0


def test_after_kill_9_the_next_start_works_on_the_same_data() -> None:
    with Executed() as running:
        token = running.token(OWNER)
        secret, issuer = (running.folder / "secret.key").read_bytes(), (running.folder / "issuer.jwk").read_bytes()
        running.kill()
        assert running.socket.exists()
        running.start()
        assert (running.folder / "secret.key").read_bytes() == secret
        assert (running.folder / "issuer.jwk").read_bytes() == issuer
        answer = running.request("GET", f"/api/v1/tenants/{SANDBOX}", {"Authorization": f"Bearer {token}"})
        assert answer.json()["status"] == "provisioning"


def test_a_file_in_the_sockets_place_is_not_deleted(tmp_path: Path) -> None:
    precious = tmp_path / "notes"
    precious.write_text("keep me")
    tmp_path.chmod(0o700)
    done = start_in(tmp_path / "platform", "--socket", str(precious))
    assert done.returncode == 1
    assert "is not a socket" in done.stderr
    assert precious.read_text() == "keep me"


def test_a_socket_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    done = start_in(tmp_path / "platform", "--socket", str(shared / "api.sock"))
    assert done.returncode == 1
    assert "must not be writable by others" in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, 12345)
    done = start_in(tmp_path)
    assert done.returncode == 1
    assert "belongs to another user" in done.stderr


@pytest.mark.parametrize(
    ("database", "said"),
    [
        ("nonsense", "Could not parse SQLAlchemy URL"),
        ("postgresql://nobody:SECRET@127.0.0.1:1/none", "Connection refused"),
        ("", "file is not a database"),
    ],
)
def test_a_database_that_cannot_be_used_is_told_in_one_line(database: str, said: str, tmp_path: Path) -> None:
    folder = tmp_path / "platform"
    folder.mkdir(mode=0o700)
    (folder / "platform.db").write_bytes(b"no database at all\n" * 200)
    done = start_in(folder, *(["--database", database] if database else []))
    assert done.returncode == 1
    told = done.stderr.splitlines()[-1]
    assert told.startswith("frost platform: the database cannot be used: ")
    assert said in told
    assert "Traceback" not in done.stderr
    assert "SECRET" not in done.stderr


def test_a_damaged_secret_is_never_replaced() -> None:
    with Executed(None, "empty") as running:
        running.stop()
        (running.folder / "secret.key").write_bytes(b"short")
        process = running.launch()
        assert process.wait(60) == 1
        assert "is damaged" in running.log
        assert (running.folder / "secret.key").read_bytes() == b"short"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--data-dir is required"),
        (["--data-dir", "x", "--world", "moon"], "--world must be one of"),
        (["--data-dir", "x", "--listen", "8080"], "--listen must be HOST:PORT"),
        (["--data-dir", "x", "--idle-minutes", "-1"], "--idle-minutes must be a number"),
        (["--data-dir", "x", "--issuer", "http://idp.example"], "--issuer must be `local` or an https URL"),
        (["--data-dir", "x", "--nonsense"], "unrecognized arguments"),
    ],
)
def test_a_wrong_flag_is_told_in_one_line(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "service", *arguments], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]


ROOT = Path(__file__).parent.parent.parent


def start_in(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "service", "--data-dir", str(folder), *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_it_stops_when_nobody_needs_it() -> None:
    with Executed(None, "empty", "--idle-minutes", "0.01") as running:
        assert running.process is not None
        assert running.process.wait(60) == 0


def test_an_open_operation_keeps_it_from_stopping() -> None:
    with Executed(None, "demo", "--idle-minutes", "0.01") as running:
        assert running.process is not None
        with pytest.raises(subprocess.TimeoutExpired):
            running.process.wait(8)


def test_over_tcp_there_are_no_staff_routes_and_no_local_issuer() -> None:
    with Executed(None, "demo", "--listen", "127.0.0.1:0") as running:
        host, port = tcp_address(running)

        def tcp(path: str, **headers: str) -> Answer:
            return exchange(http.client.HTTPConnection(host, port, timeout=60), "GET", path, headers, None)

        assert tcp("/healthz").status == 200
        for path in (
            "/api/v1/platform/status",
            "/api/v1/platform/stop",
            "/api/v1/platform/operations",
            "/api/v1/platform/operations/x/cancel",
        ):
            answer = tcp(path)
            assert (answer.status, answer.json()["error"]["code"]) == (404, "PATH_NOT_ROUTED")
        for path in ("/issuer/.well-known/openid-configuration", "/issuer/jwks", "/issuer/token"):
            answer = tcp(path)
            assert (answer.status, answer.json()["error"]["code"]) == (404, "NOT_FOUND")
        assert tcp("/api/v1/auth/cli-config").status == 503
        assert tcp("/api/v1/me").status == 401
        assert tcp("/api/v1/me", Authorization=f"Bearer {running.token(OWNER)}").status == 200
        # Nobody becomes the socket's peer by saying so.
        assert tcp("/api/v1/platform/status", **{"X-Forwarded-For": "uid:0", "Forwarded": "for=unix:"}).status == 404


def test_a_taken_address_is_told_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = start_in(tmp_path / "platform", "--listen", f"127.0.0.1:{taken.getsockname()[1]}")
    assert done.returncode == 1
    assert "cannot listen on 127.0.0.1" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_sigint_ends_it_like_sigterm() -> None:
    with Executed(None, "empty") as running:
        assert running.process is not None
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(60) == 0
