"""Somebody with an account, as the acceptance tests use it: the real commands, and keys in raw requests."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.acceptance.people import WEB_SHOP
from tests.conftest import opened
from tests.homes import Answer, Home, Result
from tests.terminal import Program

CREATE = ("api-key", "create", "--name", "test key", "--scopes")


class Account:
    """A person signed in, with Web Shop as the tenant in use."""

    def __init__(self, home: Home) -> None:
        self.home = home

    def run(self, *words: str, **env: str) -> Result:
        return self.home.frost("account", *words, env=env)

    def done(self, *words: str, **env: str) -> Any:
        """The JSON document of a command that must succeed."""
        return self.home.json("account", *words, env=env)

    def refused(self, code: int, *words: str, **env: str) -> str:
        """What a command says that must be refused in this way; on standard output it says nothing."""
        result = self.run(*words, **env)
        assert (result.code, result.out) == (code, ""), (words, result)
        return result.err

    def keys(self) -> dict[str, dict[str, Any]]:
        """The keys by id, as they are listed."""
        return {one["id"]: one for one in self.done("api-key", "list")["items"]}

    def context(self, *scopes: str) -> str:
        """A context of its own with a new key."""
        name = f"key-{len(self.home.config.read_text())}"
        self.done(*CREATE, ",".join(scopes), "--save-context", name)
        return name

    def raw(self, method: str, path: str, body: Any = None) -> Answer:
        """A request of the person signed in, without our client, below the tenant."""
        return self.home.request(method, f"{TENANT}{path}", body=body, token=self.home.token())

    def some(self, kind: str) -> str:
        """The id of a resource of Web Shop."""
        found = self.raw("GET", f"/resources/{kind}?limit=1").json()["resources"]
        return str(found[0]["id"])

    def on_terminal(self, *words: str) -> Program:
        argv = [sys.executable, "-m", "tui", "account", *words]
        return Program(argv, columns=110, rows=30, env=self.home.environment(), inherit=False)


@contextmanager
def signed_in(demo_platform: Path, email: str | None = None) -> Iterator[Account]:
    """Somebody, by default the owner, on a demo world of their own while the context is open."""
    home = opened(demo_platform)
    home.sign_in(email)
    yield Account(home)
    home.remove()


TENANT = f"/api/v1/tenants/{WEB_SHOP}"


class Key:
    """A key made with the command, and what it may do without our client."""

    def __init__(self, account: Account, *scopes: str, more: tuple[str, ...] = ()) -> None:
        document = account.done(*CREATE, ",".join(scopes), *more)
        self.account = account
        self.made: dict[str, Any] = document["apiKey"]
        self.id = str(self.made["id"])
        self.secret = str(document["key"])

    def use(self, method: str, path: str, body: Any = None) -> int:
        """The status of a request below the tenant."""
        return self.ask(method, f"{TENANT}{path}", body).status

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        return self.account.home.request(method, path, body=body, key=self.secret)


def days(number: float) -> datetime:
    """So many days from now."""
    return datetime.now(UTC) + timedelta(days=number)


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
