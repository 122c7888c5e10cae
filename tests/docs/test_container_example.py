"""examples/container: what can be proved without a container runtime."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.settings import OPTIONS
from tests.docs.pages import ROOT
from tests.homes import Home
from tests.service.postgres import Cluster
from tests.waiting import until

EXAMPLE = ROOT / "examples" / "container"
COMPOSE: dict[str, Any] = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())
PLATFORMS = [COMPOSE["services"][name] for name in ("platform-1", "platform-2")]


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    folder = tmp_path / "container"
    shutil.copytree(EXAMPLE, folder)
    subprocess.run([folder / "prepare.sh"], check=True, capture_output=True)
    return folder


def test_replicas_have_an_init_and_neither_root_nor_a_writable_system() -> None:
    for platform in PLATFORMS:
        assert platform["init"] is True
        assert platform["user"].startswith("10001:")
        assert platform["read_only"] is True
        assert platform["cap_drop"] == ["ALL"]
    dockerfile = (EXAMPLE / "Dockerfile").read_text()
    assert re.findall(r"^USER (.+)$", dockerfile, re.MULTILINE) == ["frost"]
    assert "--uid 10001" in dockerfile
    assert "uv sync --locked" in dockerfile


def test_no_password_has_a_default_and_secrets_are_files() -> None:
    settings = [value for service in COMPOSE["services"].values() for value in service.get("environment", {}).items()]
    assert [name for name, _ in settings if "PASSWORD" in name] == ["POSTGRES_PASSWORD_FILE"]
    assert not re.search(r"://[^/\s]*:[^/\s]*@", (EXAMPLE / "compose.yaml").read_text())
    assert {one["file"] for one in COMPOSE["secrets"].values()} == {"secrets/database-password", "secrets/platform.key"}
    known = {option.variable for option in OPTIONS}
    assert {name for name, _ in settings if name.startswith("FROST_")} <= known


def test_published_ports_are_of_this_machine_and_the_proxy_is_the_balancer() -> None:
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    address = COMPOSE["services"]["balancer"]["networks"]["inside"]["ipv4_address"]
    assert {platform["environment"]["FROST_PLATFORM_PROXIES"] for platform in PLATFORMS} == {address}


def test_secrets_are_created_once_and_closed_to_others(prepared: Path) -> None:
    secrets = sorted((prepared / "secrets").iterdir())
    assert [path.name for path in secrets] == ["database-password", "platform.key"]
    assert [stat.S_IMODE(path.stat().st_mode) for path in secrets] == [0o640, 0o640]
    assert stat.S_IMODE((prepared / "secrets").stat().st_mode) == 0o700
    assert re.fullmatch(r"[0-9a-f]{64}", secrets[0].read_text())
    assert len(secrets[1].read_bytes()) == 32
    settings = prepared / ".env"
    settings.write_text(settings.read_text().replace("FROST_ISSUER=", "FROST_ISSUER=https://id.example.com"))
    paths = [*secrets, settings]
    before = [path.read_bytes() for path in paths]
    subprocess.run([prepared / "prepare.sh"], check=True, capture_output=True)
    assert [path.read_bytes() for path in paths] == before


@pytest.mark.slow
@pytest.mark.process
def test_the_entry_point_serves_with_the_secrets_of_the_files(prepared: Path, home: Home) -> None:
    password = (prepared / "secrets" / "database-password").read_text()
    with Cluster() as cluster:
        cluster.execute(f"CREATE ROLE replica LOGIN SUPERUSER PASSWORD '{password}'")
        (cluster.folder / "data" / "pg_hba.conf").write_text("local all frost trust\nlocal all all scram-sha-256\n")
        cluster.execute("SELECT pg_reload_conf()")
        cluster.create("platform")
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = home.environment({"PATH": path, "FROST_SECRETS": str(prepared / "secrets")})
        database = f"postgresql://replica@/platform?host={cluster.folder}"
        words = ["--data-dir", str(home.platform_dir), "--database", database, "--world", "empty"]
        with subprocess.Popen([prepared / "serve.sh", *words], env=environment) as platform:
            try:
                until(lambda: home.socket.exists() and home.request("GET", "/readyz").status == 200)
                command = Path(f"/proc/{platform.pid}/cmdline").read_text()
                assert "platform.key" in command
                assert password not in command
            finally:
                platform.terminate()
        assert platform.returncode == 0
