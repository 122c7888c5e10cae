"""Accounts and keys, with the real commands."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.acceptance.shell import Shell

CREATE = ("api-key", "create", "--name", "test key", "--scopes")


class Account(Shell):
    GROUP = "account"

    def keys(self) -> dict[str, dict[str, Any]]:
        return {one["id"]: one for one in self.done("api-key", "list")["items"]}

    def context(self, *scopes: str) -> str:
        name = f"key-{len(self.home.config.read_text())}"
        self.done(*CREATE, ",".join(scopes), "--save-context", name)
        return name


class Key:
    """A key made with the command."""

    def __init__(self, account: Account, *scopes: str, more: tuple[str, ...] = ()) -> None:
        document = account.done(*CREATE, ",".join(scopes), *more)
        self.made: dict[str, Any] = document["apiKey"]
        self.id = str(self.made["id"])
        self.secret = str(document["key"])


def days(number: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=number)
