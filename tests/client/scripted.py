"""A command run in this process against a platform with scripted responses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from client.operations import Intervals
from client.transport.pages import PageLimits
from tests.client.wire import KEY, Heard, Service, answer
from tests.homes import write_config

TENANT = "4793d4e5-9e63-4ff7-8783-9bb3aca1f5d5"
BASE = f"/api/v1/tenants/{TENANT}"


class Ended(NamedTuple):
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    def error(self) -> dict[str, Any]:
        """The error object of `-o json`, the only output."""
        assert self.out == ""
        error: dict[str, Any] = json.loads(self.err)["error"]
        return error


Run = Callable[..., Ended]


class Scripted:
    """Answers by method and path; a list is given one after the other, its last one for ever.

    What is not written down is answered with 404, as by a platform that does not have it.
    """

    def __init__(self, config: Path, run: Run) -> None:
        self.answers: dict[str, list[bytes]] = {}
        self.intervals = Intervals()
        self.page_limits = PageLimits()
        self._config, self._run = config, run
        self.heard: list[Heard] = []

    def on(self, request: str, *answers: bytes | Mapping[str, Any]) -> None:
        """What `GET /default-tags`, below the tenant, is answered with; a mapping is the document of a 200."""
        self.answers[request] = [one if isinstance(one, bytes) else answer(200, one) for one in answers]

    def run(self, *words: str) -> Ended:
        with Service(self._answer) as service:
            write_config(self._config, f"api_endpoint: {service.endpoint}\napi_key: {KEY.secret}\n")
            ended = self._run(
                "--config", str(self._config), *words, intervals=self.intervals, page_limits=self.page_limits
            )
            self.heard = service.heard
            if len(self.heard) > 1 and (self.heard[-1].method, self.heard[-1].target) == ("GET", BASE):
                self.heard.pop()  # asks for the name of the tenant that was changed
        return ended

    def document(self, *words: str) -> Any:
        """The JSON of a command that must succeed."""
        ended = self.run(*words, "-o", "json")
        assert ended.code == 0, ended
        return json.loads(ended.out)

    def sent(self) -> list[str]:
        """`GET /default-tags` for each request the last command made."""
        return [f"{heard.method} {heard.target.removeprefix(BASE).partition('?')[0]}" for heard in self.heard]

    def _answer(self, heard: Heard) -> Iterable[bytes]:
        left = self.answers.get(f"{heard.method} {heard.target.removeprefix(BASE).partition('?')[0]}")
        if not left:
            yield answer(404, {"error": {"code": "PATH_NOT_ROUTED", "message": "no route"}})
        else:
            yield left.pop(0) if len(left) > 1 else left[0]


def refused(status: int, code: str, message: str = "no", **more: Any) -> bytes:
    """The nested envelope."""
    return answer(status, {"error": {"code": code, "message": message, **more}})
