"""Default tags, applies and quotas as the acceptance tests use them: the real commands, raw requests, the database."""

import json
import signal
import sqlite3
import sys
import time
from typing import Any

from tests.acceptance.people import WEB_SHOP
from tests.homes import Answer, Home, Result
from tests.terminal import Program

SLOW = {"FROST_PLATFORM_APPLY_PACE": "0.1"}
"""An apply of Web Shop then takes about five seconds: 44 batches."""


class Tags:
    """A person signed in with a shell in one tenant."""

    def __init__(self, home: Home, tenant: str = WEB_SHOP) -> None:
        self.home, self.tenant = home, tenant

    def run(self, *words: str, **env: str) -> Result:
        return self.home.frost("tenant", *words, env={"FROST_TENANT": self.tenant, **env})

    def done(self, *words: str, **env: str) -> Any:
        """The JSON document of a command that must succeed."""
        return self.home.json("tenant", *words, env={"FROST_TENANT": self.tenant, **env})

    def refused(self, code: int, *words: str, **env: str) -> str:
        """What a command says that must be refused in this way; on standard output it says nothing."""
        result = self.run(*words, **env)
        assert (result.code, result.out) == (code, ""), (words, result)
        return result.err

    def stored(self) -> dict[str, str]:
        found: dict[str, str] = self.done("default-tags", "get")
        return found

    def set(self, *tags: str) -> None:
        words = [word for tag in tags for word in ("--tag", tag)]
        self.done("default-tags", "set", *words) if tags else self.done("default-tags", "clear", "--yes")

    def apply(self, **env: str) -> dict[str, Any]:
        """A completed apply."""
        found: dict[str, Any] = self.done("default-tags", "apply", "--yes", **env)
        return found

    def runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.done("default-tags", "history")["runs"]
        return found

    def wait_for_runs(self, count: int, seconds: float = 60) -> list[dict[str, Any]]:
        """The runs once there are so many and all are over."""
        until = time.monotonic() + seconds
        while True:
            found = self.runs()
            over = len(found) >= count and all(one["status"] in ("completed", "failed") for one in found)
            if over or time.monotonic() > until:
                assert over, found
                return found
            time.sleep(0.2)

    def raw(self, method: str, path: str, body: Any = None, *, key: str = "") -> Answer:
        """A request below the tenant without our client; with a key of the world, else as the person signed in."""
        path = f"/api/v1/tenants/{self.tenant}{path}"
        if key:
            return self.home.request(method, path, body=body, key=self.home.world_key(key))
        return self.home.request(method, path, body=body, token=self.home.token())

    def resources(self, kind: str | None = None) -> dict[str, dict[str, Any]]:
        """The rows of the tenant's inventory by id, straight from the database."""
        with sqlite3.connect(self.home.platform_dir / "platform.db", timeout=20) as database:
            database.row_factory = sqlite3.Row
            rows = database.execute("SELECT * FROM resources WHERE tenant_id = ?", [self.tenant]).fetchall()
        found = [{**dict(row), "tags": json.loads(row["tags"])} for row in rows]
        return {one["id"]: one for one in found if kind is None or one["kind"] == kind}

    def key_file(self, name: str) -> str:
        """A config file whose credential is one of the world's keys."""
        path = self.home.path / name / "key.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"api_endpoint: unix:{self.home.socket}\napi_key: {self.home.world_key(name)}\n")
        path.chmod(0o600)
        return str(path)

    def on_terminal(self, *words: str, columns: int = 100, rows: int = 60, **env: str) -> Program:
        """A command on a terminal of its own."""
        argv = [sys.executable, "-m", "tui", "tenant", *words]
        environment = self.home.environment({"FROST_TENANT": self.tenant, **env})
        return Program(argv, columns=columns, rows=rows, env=environment, inherit=False)

    def answering(self, answer: str, asked: str, *words: str) -> tuple[int, str]:
        """A command that asks, with what is typed then; how it ended, and all that was shown."""
        program = self.on_terminal(*words)
        program.wait_for(asked)
        program.until_quiet(0.2, 5)
        program.write(answer.encode() + b"\r")
        ended = program.wait_end(60)
        return ended, program.text


def interrupt(program: Program, number: int = signal.SIGINT) -> None:
    """Ctrl-C as the terminal sends it; another signal as another program does."""
    import os

    if number == signal.SIGINT:
        program.write(b"\x03")
    else:
        os.kill(program.pid, number)


def flat(text: str) -> str:
    """A screen's text without its line ends: a long line runs on."""
    return "".join(line.rstrip("\n") for line in text.split("\n"))
