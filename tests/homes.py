"""A user's home in a temporary folder: the real commands, the real platform, nothing of the machine's own user."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.seed.loader import KEY_FILE
from tests import forking
from tests.leaks import leaks_of_files, secrets_in

# What is theirs alone to read: the demo world's keys, and the credentials where no keyring keeps them; `key.yaml` is
# what the tests name with --config.
SECRET_FILES = (KEY_FILE, "config.yaml", "key.yaml")
_REFRESH_TOKEN = re.compile(rb"""refresh_token: *["']?([\w-]{20,})""", re.ASCII)
KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "COVERAGE_PROCESS_START")


@dataclass(frozen=True)
class Result:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Standard output as one JSON document."""
        return json.loads(self.out)

    def error(self) -> dict[str, Any]:
        """The error object that `-o json` prints as the last line of standard error."""
        document: dict[str, Any] = json.loads(self.err.strip().splitlines()[-1])["error"]
        return document


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket, with nothing of the project's own client in between."""

    def __init__(self, path: Path, timeout: float = 60) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


@dataclass(frozen=True)
class Answer:
    """A raw answer of the platform."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Home:
    """HOME of one imaginary user. Secrets go to the file store, so that no keyring of the machine is touched."""

    def __init__(self, *, forked: bool = False, **variables: str) -> None:
        """`forked`: its commands and its platform begin with their modules loaded (tests/forking.py)."""
        self.forked = forked
        # Not pytest's folder: its long names would push the socket over the length a path may have.
        self.path = Path(tempfile.mkdtemp(prefix="frost-"))
        self.variables = {"FROST_CREDENTIAL_STORE": "file", "FROST_PLATFORM_PROVISIONING_PACE": "0.02", **variables}
        self.seen: set[str] = set()
        """Refresh tokens that were kept here."""

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
        """The environment of a command: this HOME and nothing personal."""
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        merged = {
            **kept,
            "HOME": str(self.path),
            "TERM": "xterm-256color",
            "TZ": "UTC",
            **self.variables,
            **(extra or {}),
        }
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
        """Run a command as a script would: nothing is a terminal."""
        environment = self.environment(env)
        given = stdin.encode() if isinstance(stdin, str) else stdin
        begin = forking.run if self.forked and forking.can_fork(environment) else _executed
        code, out, err = begin(
            "tui", words, stdin=given, environment=environment, folder=str(cwd or self.path), timeout=timeout
        )
        self.note_seen()
        # Talk, traces of requests and tracebacks: no secret may be in them.
        told = [*secrets_in(err), *(secret for secret in self.seen if secret.encode() in err)]
        assert not told, f"{words}: standard error tells {len(told)} secrets"
        return Result(code, out.decode("utf-8"), err.decode("utf-8", "backslashreplace"))

    def note_seen(self) -> None:
        """Remember the refresh tokens in the config file, to be searched for when the home is removed."""
        if self.config.is_file():
            self.seen |= {found.decode() for found in _REFRESH_TOKEN.findall(self.config.read_bytes())}

    def json(self, *words: str, env: Mapping[str, str] | None = None) -> Any:
        """Run a command that must succeed and read its JSON."""
        result = self.frost(*words, "-o", "json", env=env)
        assert result.code == 0, (words, result)
        return result.json()

    def request(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        key: str | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Ask the platform directly, without our client."""
        sent = {"Accept": "application/json", **(headers or {})}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        if key is not None:
            sent["X-API-Key"] = key
        content = body
        if body is not None and not isinstance(body, bytes):
            content = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        connection = UnixConnection(self.socket)
        try:
            connection.request(method, path, body=content, headers=sent)
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def sign_in(self, email: str | None = None) -> str:
        """Sign in with the command and give the access token it stored."""
        result = self.frost("login", *(["--as", email] if email else []))
        assert result.code == 0, result
        return self.token()

    def token(self) -> str:
        """The access token in the config file."""
        import yaml

        document = yaml.safe_load(self.config.read_text())
        token: str = document["contexts"][document["current_context"]]["credentials"]["access_token"]
        return token

    def world_key(self, name: str) -> str:
        """The secret of one of the world's API keys."""
        secret: str = json.loads((self.platform_dir / "world-keys.json").read_text())[name]["secret"]
        return secret

    def start(self, **variables: str) -> None:
        """Start the platform as the first command of a user does."""
        assert self.frost("platform", "status", env=variables).code == 0
        assert self.frost("whoami", env=variables).code == 0

    def platform_pid(self) -> int | None:
        """The process that holds the platform's lock; None when none does."""
        try:
            pid = int((self.platform_dir / "platform.lock").read_text())
            os.kill(pid, 0)
        except (OSError, ValueError):
            return None
        return pid if _state(pid) != "Z" else None

    def kill_platform(self) -> None:
        """kill -9, and wait until it is gone."""
        pid = self.platform_pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        _wait_gone(pid)

    def remove(self) -> None:
        """End what still runs, at once as nothing of it is kept, and remove the folder; no secret may have been left in
        it."""
        self.note_seen()
        leaks = leaks_of_files(self.path, SECRET_FILES, self.seen)
        pid = self.platform_pid()
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
            _wait_gone(pid, 5)
        shutil.rmtree(self.path, ignore_errors=True)
        assert not leaks, leaks


def _executed(
    program: str, arguments: Sequence[str], *, stdin: bytes, environment: Mapping[str, str], folder: str, timeout: float
) -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        [sys.executable, "-m", program, *arguments],
        input=stdin,
        capture_output=True,
        env=environment,
        timeout=timeout,
        check=False,
        cwd=folder,
    )
    return done.returncode, done.stdout, done.stderr


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "?"


def _wait_gone(pid: int, seconds: float = 60) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except OSError:
            return True
        if _state(pid) == "Z":
            return True
        time.sleep(0.02)
    return False
