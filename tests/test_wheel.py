"""The built wheel: its name, its files, and the types that a checker sees in it."""

import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.process]

ROOT = Path(__file__).parents[1]

PROGRAM = """
import asyncio
from client.api import account
from client.connection import open_client

async def main() -> None:
    async with open_client() as client:
        me = await client.ask(account.me())
        reveal_type(me)
        me.no_such_member

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)]
    subprocess.run(build, check=True, timeout=300)
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_has_the_types_and_the_notices(wheel: Path) -> None:
    assert wheel.name.startswith("frost_iam-")
    names = ZipFile(wheel).namelist()
    assert {f"{package}/py.typed" for package in ("client", "tui", "service")} <= set(names)
    assert {Path(name).name for name in names if "/licenses/" in name} == {"LICENSE", "NOTICE"}


def test_a_type_checker_knows_the_models_of_an_installed_wheel(wheel: Path, tmp_path: Path) -> None:
    environment, program = tmp_path / "venv", tmp_path / "program.py"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=300)
    site = environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    ZipFile(wheel).extractall(site)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    program.write_text(PROGRAM)
    check = [sys.executable, "-m", "mypy", "--strict", f"--python-executable={environment}/bin/python", str(program)]
    result = subprocess.run(check, capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert 'Revealed type is "client.models.account.Me"' in result.stdout, result.stdout + result.stderr
    assert '"Me" has no attribute "no_such_member"' in result.stdout
    assert "import-untyped" not in result.stdout
