"""Access policies, with the real commands and raw requests."""

import json
import sqlite3
from itertools import count
from typing import Any

from tests.acceptance.shell import Shell
from tests.service.access import IDENTITIES, KEYS, allow, deny, document

__all__ = ["IDENTITIES", "KEYS", "NO_ID", "READ_TENANTS", "Desk", "allow", "deny", "document", "requests", "text"]

NO_ID = "0192f7c1-5a3e-7b60-9d2f-3c5a8e7b1d04"
READ_TENANTS = allow("organizations:tenants:read", "organizations:tenants:list")
_NUMBERS = count(1)


def text(*rules: dict[str, Any]) -> str:
    return json.dumps(document(*rules))


def requests(log: str) -> list[tuple[str, str]]:
    """Return method and path of each request in the log of `-d`, without the query."""
    lines = [line.split() for line in log.splitlines() if " /api/" in line]
    return [(line[0], line[1].partition("?")[0]) for line in lines]


class Desk(Shell):
    GROUP = "iam"
    COLUMNS = 80

    iam = Shell.run

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

    def renames(self, key: str) -> int:
        """The status that a key gets when it renames its tenant to its current name."""
        return self.raw("PATCH", "", {"displayName": "Web Shop"}, key=key).status

    def access(self, kind: str, identifier: str) -> dict[str, str]:
        """By operation, whether a principal may do it: allowed, conditional or denied."""
        return {one["operation"]: one["access"] for one in self.done("access", kind, identifier)["operations"]}

    def sql(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        with sqlite3.connect(self.home.platform_dir / "platform.db", timeout=20) as database:
            return database.execute(statement, values).fetchall()

    def answering(self, answer: str, *words: str) -> tuple[int, str]:
        return self.answered(answer, "cannot be undone", *words)
