"""Programs of others to compare with: each in an environment of its own, made once and kept for the next run."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

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
