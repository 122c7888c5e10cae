"""Other programs for comparison, each in its own environment, which is kept for the next run."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.processors import CORES
from tests.benchmarks.servers import free_port, running

ENVIRONMENTS = Path(tempfile.gettempdir()) / f"frost-benchmark-peers-{os.getuid()}"


def commands_of(*packages: str) -> Path | None:
    """The folder of the commands of these packages; None, with a line that says so, when pip cannot get them."""
    folder = ENVIRONMENTS / "+".join(packages).replace("[", "-").replace("]", "")
    complete = folder / "complete"
    if not complete.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]
        if subprocess.run(pip, check=False).returncode:
            print(f"skipped: pip cannot install {' '.join(packages)} here, so nothing to compare with")
            return None
        complete.touch()
    return folder / "bin"


@contextmanager
def moto(commands: Path) -> Iterator[int]:
    """Run the server of moto, whose IAM people run beside their tests; return its port."""
    port = free_port()
    with running([str(commands / "moto_server"), "-H", "127.0.0.1", "-p", str(port)], port, CORES):
        yield port


def file_of_npm(package: str, name: str) -> Path | None:
    """A file of an npm package; None, with a line that says so, when npm cannot get it."""
    folder = ENVIRONMENTS / package.replace("/", "-").removeprefix("@")
    path = folder / "node_modules" / package / name
    if not path.exists():
        npm = shutil.which("npm")
        if npm is None:
            print(f"skipped: npm is not installed, so there is no {package}")
            return None
        folder.mkdir(parents=True, exist_ok=True)
        install = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), package]
        if subprocess.run(install, check=False).returncode or not path.exists():
            print(f"skipped: npm cannot install {package} here")
            return None
        path.chmod(0o755)
    return path
