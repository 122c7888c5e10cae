"""A user's home in a temporary folder: the real commands and the real platform, without the machine's own user."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client.config.reader import Config, load
from service.seed.loader import KEY_FILE
from tests import forking
from tests.api import Api, world_key
from tests.leaks import leaks_of_files, secrets_in
from tests.waiting import until

# Readable to their owner only: the demo world's keys, and credentials without a keyring; tests use `key.yaml` with
# --config.
SECRET_FILES = (KEY_FILE, "config.yaml", "key.yaml")
_REFRESH_TOKEN = re.compile(rb"""refresh_token: *["']?([\w-]{20,})""", re.ASCII)
KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "COVERAGE_PROCESS_START")


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    def error(self) -> dict[str, Any]:
        """The error object that `-o json` prints as the last line of standard error."""
        return dict(json.loads(self.err.strip().splitlines()[-1])["error"])


def write_config(config: Path, text: str) -> Path:
    """Write a configuration file that is private to this user."""
    config.parent.mkdir(mode=0o700, exist_ok=True)
    config.write_text(text)
    config.chmod(0o600)
    return config


class Home(Api):
    """HOME of one user. Secrets are in the file store, so that no keyring of the machine changes."""

    def __init__(self, *, forked: bool = False, **variables: str) -> None:
        """`forked`: its commands and its platform start with their modules loaded (tests/forking.py)."""
        self.forked = forked
        # The names of pytest's folders are too long for a socket.
        self.path = Path(tempfile.mkdtemp(prefix="frost-"))
        self.variables = {"FROST_CREDENTIAL_STORE": "file", "FROST_PLATFORM_PROVISIONING_PACE": "0.02", **variables}
        self.seen: set[str] = set()
        """Refresh tokens that were stored here."""

    @property
    def config(self) -> Path:
        return self.path / ".cli" / "config.yaml"

    @property
    def platform_dir(self) -> Path:
        return self.path / ".cli" / "platform"

    @property
    def socket(self) -> Path:
        return self.platform_dir / "api.sock"

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a command: this HOME and no variable of the machine's user."""
        merged = {name: os.environ[name] for name in KEPT if name in os.environ}
        merged |= {"HOME": str(self.path), "TERM": "xterm-256color", "TZ": "UTC", **self.variables, **(extra or {})}
        if self.forked:
            merged[forking.NURSERY] = str(forking.nursery())
        return {name: value for name, value in merged.items() if value != "<unset>"}

    def frost(
        self,
        *words: str,
        stdin: str | bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = 120,
        cwd: Path | None = None,
    ) -> Result:
        """Run a command as a script does, without a terminal."""
        environment = self.environment(env)
        content = stdin.encode() if isinstance(stdin, str) else stdin
        run = forking.run if self.forked and forking.can_fork(environment) else _executed
        folder = str(cwd or self.path)
        code, out, err = run("tui", words, stdin=content, environment=environment, folder=folder, timeout=timeout)
        self.note_seen()
        # Messages, traces of requests and tracebacks have no secret.
        secrets = [*secrets_in(err), *(secret for secret in self.seen if secret.encode() in err)]
        assert not secrets, f"{words}: standard error has {len(secrets)} secrets"
        return Result(code, out.decode("utf-8"), err.decode("utf-8", "backslashreplace"))

    def note_seen(self) -> None:
        """Collect the refresh tokens of the config file, which are searched for when the home is removed."""
        if self.config.is_file():
            self.seen |= {found.decode() for found in _REFRESH_TOKEN.findall(self.config.read_bytes())}

    def write_config(self, text: str) -> None:
        write_config(self.config, text)

    def read_config(self) -> Config:
        """Return the stored configuration, as commands read it."""
        return load(str(self.config), environ=self.environment())

    def json(self, *words: str, env: Mapping[str, str] | None = None) -> Any:
        result = self.frost(*words, "-o", "json", env=env)
        assert result.code == 0, (words, result)
        return result.json()

    def sign_in(self, email: str | None = None) -> str:
        """Sign in with the command and return the stored access token."""
        result = self.frost("login", *(["--as", email] if email else []))
        assert result.code == 0, result
        return self.token()

    def token(self) -> str:
        import yaml

        document = yaml.safe_load(self.config.read_text())
        return str(document["contexts"][document["current_context"]]["credentials"]["access_token"])

    def world_key(self, name: str) -> str:
        """The secret of one of the world's API keys."""
        return world_key(self.platform_dir, name)

    def start(self, **variables: str) -> None:
        """Start the platform as the first command of a user does."""
        assert self.frost("platform", "status", env=variables).code == 0
        assert self.frost("whoami", env=variables).code == 0

    def platform_pid(self) -> int | None:
        """Return the process that has the platform's lock, if there is one."""
        try:
            pid = int((self.platform_dir / "platform.lock").read_text())
        except (OSError, ValueError):
            return None
        return pid if _is_alive(pid) else None

    def kill_platform(self) -> None:
        """kill -9, and wait until it is gone."""
        pid = self.platform_pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        until(lambda: not _is_alive(pid))

    def remove(self) -> None:
        """Kill the platform and remove the folder, which must have no secrets."""
        self.note_seen()
        leaks = leaks_of_files(self.path, SECRET_FILES, self.seen)
        pid = self.platform_pid()
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            until(lambda: not _is_alive(pid))
        shutil.rmtree(self.path, ignore_errors=True)
        assert not leaks, leaks


def _executed(
    program: str, arguments: Sequence[str], *, stdin: bytes, environment: Mapping[str, str], folder: str, timeout: float
) -> tuple[int, bytes, bytes]:
    words = [sys.executable, "-m", program, *arguments]
    done = subprocess.run(words, input=stdin, capture_output=True, env=environment, timeout=timeout, cwd=folder)
    return done.returncode, done.stdout, done.stderr


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "?"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return _state(pid) != "Z"
