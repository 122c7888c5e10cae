"""Installs the identity providers once, into folders that git ignores."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

HERE = Path(__file__).parent
KEPT = HERE / ".parts"


def oidc_provider() -> Path | str:
    """Return the folder with `node_modules` and the server, or the reason why there is none."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            return f"{program} is missing: install nodejs and npm"
    files = [HERE / name for name in ("package.json", "package-lock.json")]

    def install(folder: Path) -> None:
        for file in files:
            shutil.copy(file, folder)
        _run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], folder)

    folder = _installed("oidc-provider", b"".join(file.read_bytes() for file in files), install)
    if isinstance(folder, Path):
        shutil.copy(HERE / "server.mjs", folder)
    return folder


def canaille() -> Path | str:
    """Return the Python of an environment with canaille, or the reason why there is none."""
    requirements = HERE / "canaille.txt"

    def install(folder: Path) -> None:
        _run([sys.executable, "-m", "venv", "made"], folder)
        pip = ["made/bin/python", "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
        _run([*pip, "--only-binary", ":all:", "--requirement", str(requirements)], folder)

    folder = _installed("canaille", requirements.read_bytes(), install)
    return folder / "made" / "bin" / "python" if isinstance(folder, Path) else folder


def _installed(name: str, contents: bytes, install: Callable[[Path], None]) -> Path | str:
    """Return the folder of a part, installed by the first process that needs it, or the reason why it is missing."""
    KEPT.mkdir(exist_ok=True)
    folder = KEPT / f"{name}-{sha256(contents).hexdigest()[:12]}"
    with (KEPT / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "installed"
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            try:
                install(folder)
            except (OSError, subprocess.SubprocessError) as error:
                return f"{name} could not be installed: {_last_line(error)}"
            done.touch()
    return folder


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300, env={**os.environ, "CI": "1"})


def _last_line(error: Exception) -> str:
    content = getattr(error, "stderr", None) or str(error).encode()
    lines = bytes(content).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else type(error).__name__
