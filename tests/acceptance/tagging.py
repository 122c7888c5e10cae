"""Default tags, applies and quotas, with the real commands, raw requests and the database."""

import json
import re
import sqlite3
from typing import Any

from tests.acceptance.shell import Shell
from tests.homes import Home
from tests.people import WEB_SHOP
from tests.terminal import Program
from tests.waiting import until

SLOW = {"FROST_PLATFORM_APPLY_PACE": "0.1"}
"""An apply of Web Shop then takes about five seconds: 44 batches."""


class Tags(Shell):
    GROUP = "tenant"
    COLUMNS, ROWS = 100, 60

    def __init__(self, home: Home, tenant: str = WEB_SHOP) -> None:
        super().__init__(home, tenant)
        self.environment = {"FROST_TENANT": tenant}

    def stored(self) -> dict[str, str]:
        return dict(self.done("default-tags", "get"))

    def set(self, *tags: str) -> None:
        words = [word for tag in tags for word in ("--tag", tag)]
        self.done("default-tags", "set", *words) if tags else self.done("default-tags", "clear", "--yes")

    def runs(self) -> list[dict[str, Any]]:
        return list(self.done("default-tags", "history")["runs"])

    def ended_runs(self) -> list[dict[str, Any]]:
        """The runs, newest first, once all are over."""
        until(lambda: {one["status"] for one in self.runs()} <= {"completed", "failed"})
        return self.runs()

    def resources(self) -> dict[str, dict[str, Any]]:
        with sqlite3.connect(self.home.platform_dir / "platform.db", timeout=20) as database:
            database.row_factory = sqlite3.Row
            rows = database.execute("SELECT * FROM resources WHERE tenant_id = ?", [self.tenant]).fetchall()
        return {row["id"]: {**dict(row), "tags": json.loads(row["tags"])} for row in rows}

    def key_file(self, name: str) -> str:
        path = self.home.path / name / "key.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"api_endpoint: unix:{self.home.socket}\napi_key: {self.home.world_key(name)}\n")
        path.chmod(0o600)
        return str(path)


def flat(text: str) -> str:
    """A screen's text without line ends, because long lines are wrapped."""
    return "".join(line.rstrip("\n") for line in text.split("\n"))


def whole(program: Program, ended: int) -> bool:
    """Whether the terminal is restored: no mode enabled, the cursor at the beginning of a line."""
    raw = program.raw()
    if b"\x1b" in raw.replace(b"\x1b[36m", b"").replace(b"\x1b[39m", b""):
        return False
    # The terminal itself shows each Ctrl-C after the last output, and drops output that it has not shown.
    written = re.sub(rb"(\^C)+\Z", b"", raw)
    return written.endswith(b"\n") or (ended == 0 and written != raw)
