"""Sign-in and the first routes, and the attacks on both that a user would meet."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import yaml

from tests.acceptance.people import AURORA, DATA_LAKE, MEMBER, NEWSROOM, OWNER, WEB_SHOP, listed
from tests.homes import Home


def credentials(home: Home) -> dict[str, object]:
    document = yaml.safe_load(home.config.read_text())
    found: dict[str, object] = document["contexts"][document["current_context"]]["credentials"]
    return found


def test_a_fresh_machine_signs_in_by_itself(demo: Home) -> None:
    assert demo.json("whoami")["email"] == OWNER


def test_login_by_device_by_browser_and_as_somebody_else(demo: Home) -> None:
    for words, email in (
        (["--device"], OWNER),
        (["--browser"], OWNER),
        (["--as", MEMBER], MEMBER),
        (["--browser", "--as", MEMBER], MEMBER),
    ):
        assert demo.frost("login", *words).code == 0
        assert demo.json("whoami")["email"] == email


def test_an_unknown_person_cannot_be_taken(demo: Home) -> None:
    demo.start()
    result = demo.frost("login", "--as", "nobody@nowhere.example")
    assert result.code != 0
    assert demo.json("whoami")["email"] == OWNER


def test_logout_ends_the_session_on_the_platform_and_is_final(demo: Home) -> None:
    token = demo.sign_in()
    assert demo.request("GET", "/api/v1/me", token=token).status == 200
    assert demo.frost("logout").code == 0
    assert demo.request("GET", "/api/v1/me", token=token).status == 401
    result = demo.frost("tenant", "list", "--all")
    assert result.code == 3
    assert "frost login" in result.err
    assert token not in demo.config.read_text()
    assert demo.frost("login").code == 0
    assert listed(demo, "--all")


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["--context", "local"]])
def test_logout_from_a_platform_that_is_away_says_that_the_session_goes_on_there(demo: Home, words: list[str]) -> None:
    demo.sign_in()
    # One that is not started on demand.
    text = demo.config.read_text()
    assert text.count("  local:\n") == 1
    demo.config.write_text(text.replace("  local:\n", "  local:\n    api_endpoint: http://127.0.0.1:9/api\n"))
    result = demo.frost("logout", *words)
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


def test_an_old_token_is_refreshed_once_and_silently(demo: Home) -> None:
    demo.sign_in()
    before = credentials(demo)
    text = demo.config.read_text().replace(str(before["expires_at"]), str(int(time.time()) + 30))
    demo.config.write_text(text)
    result = demo.frost("tenant", "list", "--all")
    assert result.code == 0
    after = credentials(demo)
    assert after["refresh_token"] != before["refresh_token"]
    assert after["access_token"] != before["access_token"]


def test_many_processes_refresh_once_and_all_go_on(demo: Home) -> None:
    demo.sign_in()
    before = credentials(demo)
    demo.config.write_text(demo.config.read_text().replace(str(before["expires_at"]), str(int(time.time()) + 5)))
    command = [sys.executable, "-m", "tui", "-d", "tenant", "list", "--all", "-o", "json"]
    running = [
        subprocess.Popen(command, env=demo.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(6)
    ]
    for process in running:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert json.loads(out)["items"]
    import sqlite3

    with sqlite3.connect(demo.platform_dir / "platform.db") as database:
        used = database.execute("SELECT count(*) FROM refresh_tokens WHERE used_at IS NOT NULL").fetchone()[0]
        ended = database.execute(
            "SELECT count(*) FROM sessions WHERE ended_at IS NOT NULL AND end_reason LIKE '%reuse%'"
        ).fetchone()[0]
    assert used == 1
    assert ended == 0


def test_a_stolen_refresh_token_ends_the_session_for_both(demo: Home) -> None:
    demo.sign_in()
    stolen = str(credentials(demo)["refresh_token"])

    def refresh(token: str) -> tuple[int, dict[str, object]]:
        answer = demo.request(
            "POST",
            "/issuer/token",
            body=f"grant_type=refresh_token&client_id=frost-cli&refresh_token={token}".encode(),
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )
        return answer.status, answer.json()

    status, pair = refresh(stolen)
    assert status == 200
    assert refresh(stolen)[0] == 400
    status, answer = refresh(str(pair["refresh_token"]))
    assert (status, answer["error"]) == (400, "invalid_grant")
    assert demo.request("GET", "/api/v1/me", token=str(pair["access_token"])).status == 401
    result = demo.frost("whoami")
    assert result.code == 3
    assert "frost login" in result.err


def test_a_key_is_limited_to_its_scopes_and_its_tenant(demo: Home) -> None:
    demo.start()
    keys = json.loads((demo.platform_dir / "world-keys.json").read_text())
    answers = {name: demo.request("GET", "/api/v1/tenants", key=entry["secret"]).status for name, entry in keys.items()}
    assert 200 in answers.values()
    assert 403 in answers.values()
    assert 401 in answers.values()
    reader = next(name for name, status in answers.items() if status == 200)
    own = demo.request("GET", "/api/v1/tenants", key=keys[reader]["secret"]).json()["tenants"]
    assert len(own) == 1
    other = NEWSROOM if own[0]["id"] != NEWSROOM else WEB_SHOP
    refused = demo.request("GET", f"/api/v1/tenants/{other}", key=keys[reader]["secret"])
    assert (refused.status, refused.json()["error"]["code"]) == (403, "TENANT_ACCESS_DENIED")


def test_a_key_in_the_config_is_bound_to_its_tenant(demo: Home) -> None:
    demo.start()
    keys = json.loads((demo.platform_dir / "world-keys.json").read_text())
    for entry in keys.values():
        answer = demo.request("GET", "/api/v1/tenants", key=entry["secret"])
        if answer.status == 200:
            own = answer.json()["tenants"][0]["id"]
            break
    assert demo.frost("config", "set", "api_key", "-", stdin=entry["secret"]).code == 0
    assert demo.json("tenant", "current")["id"] == own
    other = NEWSROOM if own != NEWSROOM else WEB_SHOP
    result = demo.frost("--tenant", other, "tenant", "current")
    assert result.code == 4
    assert "key" in result.err
    record = demo.json("whoami")
    assert "api_key" in json.dumps(record)
    assert entry["secret"] not in json.dumps(record)


def test_credentials_of_the_wrong_kind_or_shape_are_refused_alike(demo: Home) -> None:
    token = demo.sign_in()
    keys = json.loads((demo.platform_dir / "world-keys.json").read_text())
    secret = next(
        e["secret"] for e in keys.values() if demo.request("GET", "/api/v1/me", key=e["secret"]).status == 200
    )
    head, body, signature = token.split(".")
    attempts = [
        {},
        {"X-API-Key": token},
        {"Authorization": f"Bearer {secret}"},
        {"X-API-Key": secret[:-1]},
        {"X-API-Key": secret.swapcase()},
        {"X-API-Key": f"{secret}x"},
        {"X-API-Key": secret, "Authorization": f"Bearer {token}"},
        {"Authorization": f"Bearer {head}.{body}."},
        {"Authorization": f"Bearer {head}.{body}.{signature[:-4]}AAAA"},
        {"Authorization": f"Basic {token}"},
    ]
    answers = [demo.request("GET", "/api/v1/me", headers=headers) for headers in attempts]
    assert [answer.status for answer in answers] == [401] * len(attempts)
    bodies = {json.dumps(answer.json()["error"]["code"]) for answer in answers}
    assert bodies == {'"AUTHENTICATION_REQUIRED"'}


def test_a_dead_socket_and_a_killed_platform_are_started_again(demo: Home) -> None:
    demo.start()
    demo.kill_platform()
    assert demo.socket.exists()
    assert listed(demo, "--all")


@pytest.mark.slow
def test_kill_9_in_mid_provisioning_loses_nothing(demo: Home) -> None:
    demo.variables["FROST_PLATFORM_PROVISIONING_PACE"] = "0.2"
    made = demo.json("tenant", "create", "--name", "Survivor", "--organization", AURORA)
    for delay in (0.1, 0.3, 0.2):
        time.sleep(delay)
        demo.kill_platform()
        listed(demo, "--all")
    until = time.monotonic() + 60
    while time.monotonic() < until:
        record = next(item for item in listed(demo, "--all") if item["id"] == made["id"])
        if record["status"] == "active":
            break
        time.sleep(0.2)
    assert record["status"] == "active"
    operation = next(o for o in demo.json("platform", "operations")["items"] if o["tenantId"] == made["id"])
    assert operation["status"] == "completed"
    assert {step["status"] for step in operation["steps"]} == {"completed"}


@pytest.mark.slow
def test_two_first_commands_at_once_start_one_platform(demo: Home) -> None:
    command = [sys.executable, "-m", "tui", "platform", "status", "-o", "json"]
    running = [
        subprocess.Popen(
            [*command[:3], "tenant", "list", "--all", "-o", "json"],
            env=demo.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(4)
    ]
    for process in running:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert len(json.loads(out)["items"]) == 6


@pytest.mark.slow
def test_platform_status_stop_and_reset(demo: Home) -> None:
    demo.start()
    status = demo.json("platform", "status")
    assert status["world"] == "demo"
    assert status["pid"] == demo.platform_pid()
    assert demo.frost("platform", "stop").code == 0
    assert demo.platform_pid() is None
    demo.frost("tenant", "create", "--name", "Short Lived", "--organization", AURORA)
    assert demo.frost("platform", "reset").code == 2
    assert demo.frost("platform", "reset", "--yes").code == 0
    assert "Short Lived" not in [item["displayName"] for item in listed(demo, "--all")]
    assert demo.json("whoami")["email"] == OWNER


def test_sigterm_ends_the_platform_cleanly(demo: Home) -> None:
    demo.start()
    pid = demo.platform_pid()
    assert pid is not None
    os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + 60
    while demo.platform_pid() is not None and time.monotonic() < until:
        time.sleep(0.05)
    assert demo.platform_pid() is None
    assert not demo.socket.exists()


def test_ctrl_c_ends_a_command_with_130(demo: Home) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tui", "platform", "serve"],
        env=demo.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    until = time.monotonic() + 60
    while not demo.socket.exists() and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (0, 130)
    assert b"Traceback" not in err


@pytest.mark.parametrize(
    "path", ["/api/v1/tenants/..%2Fme", f"/api/v1/tenants/{DATA_LAKE}/../{WEB_SHOP}", "/api//v1/me"]
)
def test_unclean_paths_reach_no_route(demo: Home, path: str) -> None:
    token = demo.sign_in()
    answer = demo.request("GET", path, token=token)
    assert answer.status in (400, 404)
    assert set(answer.json()) == {"error"}
