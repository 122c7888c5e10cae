"""A fake identity provider that misbehaves on request, and the platform's `cli-config`."""

import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.client.wire import Heard, Service, answer

Answer = tuple[int, Any]


class Provider(Service):
    """Listens on loopback. `token_answers` are given one after the other, the last one again and again."""

    def __init__(self) -> None:
        super().__init__(self._respond, kind="tcp")
        self.url = f"http://127.0.0.1:{self.port}"
        self.cli_config: Any = {"issuer": self.url, "clientId": "frost-cli"}
        self.discovery: dict[str, Any] = {
            "issuer": self.url,
            "token_endpoint": f"{self.url}/token",
            "authorization_endpoint": f"{self.url}/authorize",
            "device_authorization_endpoint": f"{self.url}/device",
            "revocation_endpoint": f"{self.url}/revoke",
        }
        self.device: dict[str, Any] = {
            "device_code": "DEVICE",
            "user_code": "ABCD-EFGH",
            "verification_uri": f"{self.url}/page",
            "expires_in": 60,
            "interval": 0.01,
        }
        self.token_answers: list[Answer] = [(200, tokens())]
        self.revocation: Answer = (200, {})
        self.api: Callable[[str, str], Answer] = lambda path, authorization: (200, {"id": "me"})
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.slow = 0.0

    def forms(self, path: str) -> list[dict[str, str]]:
        """The bodies posted to a path, in order."""
        return [form for requests, form in self.requests if requests == path]

    def _respond(self, heard: Heard) -> Iterator[bytes]:
        form, authorization = dict(parse_qsl(heard.body.decode())), heard.headers.get("authorization", "")
        status, document = self._answer(urlsplit(heard.target).path, form, authorization)
        if status:
            yield answer(status, document)

    def _answer(self, path: str, form: dict[str, str], authorization: str) -> Answer:
        self.requests.append((path, form))
        if path == "/token":
            time.sleep(self.slow)
            return self.token_answers.pop(0) if len(self.token_answers) > 1 else self.token_answers[0]
        documents = {"/api/v1/auth/cli-config": self.cli_config, "/.well-known/openid-configuration": self.discovery}
        documents |= {"/device": self.device}
        if path == "/revoke":
            return self.revocation
        if path in documents:
            return 200, documents[path]
        return self.api(path, authorization) if path.startswith("/api/") else (404, {})


def tokens(access: str = "ACCESS-2", **more: Any) -> dict[str, Any]:
    """A successful token answer."""
    return {"access_token": access, "refresh_token": "REFRESH-2", "expires_in": 1800, "token_type": "Bearer", **more}
