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
    """The folder with `node_modules` and the server in it, or why there is none."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            return f"{program} is missing: install nodejs and npm"
    files = [HERE / name for name in ("package.json", "package-lock.json")]
    server = HERE / "server.mjs"

    def install(folder: Path) -> None:
        for file in files:
            shutil.copy(file, folder)
        _run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], folder)

    found = _installed("oidc-provider", b"".join(file.read_bytes() for file in files), install)
    if isinstance(found, Path):
        shutil.copy(server, found)
    return found


def canaille() -> Path | str:
    """The Python of an environment that has canaille and nothing of ours, or why there is none."""
    wanted = HERE / "canaille.txt"

    def install(folder: Path) -> None:
        _run([sys.executable, "-m", "venv", "made"], folder)
        pip = ["made/bin/python", "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
        _run([*pip, "--only-binary", ":all:", "--requirement", str(wanted)], folder)

    found = _installed("canaille", wanted.read_bytes(), install)
    return found / "made" / "bin" / "python" if isinstance(found, Path) else found


def _installed(name: str, contents: bytes, install: Callable[[Path], None]) -> Path | str:
    """The folder of a part, made by the first of several processes that want it; a line of why when it cannot be."""
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
    told = getattr(error, "stderr", None) or str(error).encode()
    lines = bytes(told).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else type(error).__name__
