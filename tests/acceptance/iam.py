"""Access policies as the acceptance tests use them: the real commands, and raw requests where those are the point."""

import json
import sqlite3
import sys
from itertools import count
from typing import Any

from tests.acceptance.people import WEB_SHOP
from tests.homes import Answer, Home, Result
from tests.service.access import IDENTITIES, KEYS, allow, deny, document
from tests.terminal import Program

__all__ = [
    "ANYTHING",
    "IDENTITIES",
    "KEYS",
    "NO_ID",
    "READ_TENANTS",
    "Desk",
    "allow",
    "deny",
    "document",
    "requests",
    "text",
]

NO_ID = "0192f7c1-5a3e-7b60-9d2f-3c5a8e7b1d04"
ANYTHING = allow("*")
READ_TENANTS = allow("organizations:tenants:read", "organizations:tenants:list")
_NUMBERS = count(1)


def text(*rules: dict[str, Any]) -> str:
    """A document of these rules, as somebody would type it."""
    return json.dumps(document(*rules))


def requests(log: str) -> list[tuple[str, str]]:
    """Return method and path of each request in the log of `-d`, without the query."""
    lines = [line.split() for line in log.splitlines() if " /api/" in line]
    return [(line[0], line[1].partition("?")[0]) for line in lines]


class Desk:
    """Somebody with a shell in the tenant Web Shop."""

    def __init__(self, home: Home) -> None:
        self.home = home

    def iam(self, *words: str, stdin: str | bytes = b"", **env: str) -> Result:
        return self.home.frost("iam", *words, stdin=stdin, env=env)

    def done(self, *words: str, **env: str) -> Any:
        """The JSON document of a command that must succeed."""
        return self.home.json("iam", *words, env=env)

    def items(self, *words: str, **env: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.done(*words, **env)["items"]
        return found

    def refused(self, code: int, *words: str, stdin: str | bytes = b"", **env: str) -> str:
        """What a command says that must be refused in this way; on standard output it says nothing."""
        result = self.iam(*words, stdin=stdin, **env)
        assert (result.code, result.out) == (code, ""), (words, result)
        return result.err

    def group(self, name: str = "", description: str = "") -> str:
        name = name or f"group {next(_NUMBERS)}"
        return str(self.done("group", "create", "--name", name, "--description", description)["id"])

    def policy(self, *rules: dict[str, Any], name: str = "") -> str:
        name = name or f"policy {next(_NUMBERS)}"
        return str(self.done("policy", "create", "--name", name, "--document", text(*rules))["id"])

    def add(self, group: str, kind: str, identifier: str) -> None:
        self.done("group", "member", "add", group, "--type", kind, "--id", identifier)

    def attach(self, policy: str, kind: str, identifier: str) -> None:
        self.done("policy", "attach", policy, "--type", kind, "--id", identifier)

    def members(self, group: str) -> set[tuple[str, str]]:
        return {(one["memberType"], one["memberId"]) for one in self.items("group", "member", "list", group)}

    def attached(self, policy: str) -> set[tuple[str, str]]:
        return {(one["attacheeType"], one["attacheeId"]) for one in self.items("policy", "attachments", policy)}

    def raw(self, method: str, path: str, body: Any = None, *, key: str = "") -> Answer:
        """A request without our client, below the tenant; with a key of the world or as the person signed in."""
        path = f"/api/v1/tenants/{WEB_SHOP}{path}"
        if key:
            return self.home.request(method, path, body=body, key=self.home.world_key(key))
        return self.home.request(method, path, body=body, token=self.home.token())

    def reads(self, key: str) -> int:
        """The status that a key gets when it reads its tenant."""
        return self.raw("GET", "", key=key).status

    def renames(self, key: str) -> int:
        """The status that a key gets when it renames its tenant to what it is called."""
        return self.raw("PATCH", "", {"displayName": "Web Shop"}, key=key).status

    def access(self, kind: str, identifier: str) -> dict[str, str]:
        """By operation, whether a principal may do it: allowed, conditional or denied."""
        return {one["operation"]: one["access"] for one in self.done("access", kind, identifier)["operations"]}

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.home.platform_dir / "platform.db", timeout=20) as database:
            return database.execute(statement, values).fetchall()

    def on_terminal(self, *words: str, columns: int = 80) -> Program:
        """A command on a terminal of its own."""
        return Program(
            [sys.executable, "-m", "tui", "iam", *words],
            columns=columns,
            rows=40,
            env=self.home.environment(),
            inherit=False,
        )

    def answering(self, answer: str, *words: str) -> tuple[int, str]:
        """A command that asks, with what is typed then; how it ended, and all that was shown."""
        program = self.on_terminal(*words)
        program.wait_for("cannot be undone")
        program.until_quiet(0.2, 5)
        program.write(answer.encode() + b"\r")
        ended = program.wait_end()
        return ended, program.text
