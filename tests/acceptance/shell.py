"""A person signed in with a shell in one tenant: commands, raw requests and terminals."""

from typing import Any

from tests.api import Answer
from tests.homes import Home, Result
from tests.people import WEB_SHOP
from tests.terminal import Program, on_terminal


def listed(home: Home, *words: str) -> list[dict[str, Any]]:
    """The tenants that `tenant list` prints."""
    items: list[dict[str, Any]] = home.json("tenant", "list", *words)["items"]
    return items


class Shell:
    """Commands of one group. `environment` is added to that of every command."""

    GROUP = ""
    COLUMNS, ROWS = 110, 40

    def __init__(self, home: Home, tenant: str = WEB_SHOP) -> None:
        self.home, self.tenant = home, tenant
        self.environment: dict[str, str] = {}

    def run(self, *words: str, stdin: str | bytes = b"", **env: str) -> Result:
        return self.home.frost(self.GROUP, *words, stdin=stdin, env={**self.environment, **env})

    def done(self, *words: str, **env: str) -> Any:
        return self.home.json(self.GROUP, *words, env={**self.environment, **env})

    def items(self, *words: str, **env: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.done(*words, **env)["items"]
        return items

    def refused(self, code: int, *words: str, stdin: str | bytes = b"", **env: str) -> str:
        """Standard error of a command that must end with this code and without output."""
        result = self.run(*words, stdin=stdin, **env)
        assert (result.code, result.out) == (code, ""), (words, result)
        return result.err

    def raw(self, method: str, path: str, body: Any = None, *, key: str = "") -> Answer:
        """A request below the tenant without our client; with a key of the world, else as the person signed in."""
        path = f"/api/v1/tenants/{self.tenant}{path}"
        if key:
            return self.home.request(method, path, body=body, key=self.home.world_key(key))
        return self.home.request(method, path, body=body, token=self.home.token())

    def on_terminal(self, *words: str, columns: int = 0, **env: str) -> Program:
        size = {"columns": columns or self.COLUMNS, "rows": self.ROWS}
        return on_terminal(self.home, self.GROUP, *words, **size, **{**self.environment, **env})

    def answered(self, answer: str, question: str, *words: str) -> tuple[int, str]:
        program = self.on_terminal(*words)
        program.wait_for(question)
        program.until_quiet(0.2, 5)
        program.write(answer.encode() + b"\r")
        return program.wait_end(), program.text
