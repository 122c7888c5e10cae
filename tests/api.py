"""Requests to a platform over its unix socket, without the project's own client."""

import http.client
import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from service.seed.loader import KEY_FILE

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def world_key(folder: Path, name: str) -> str:
    """Return the secret of an API key of the demo world, whose data folder has it."""
    return str(json.loads((folder / KEY_FILE).read_text())[name]["secret"])


def device_sign_in(form: Callable[..., Any], email: str) -> Any:
    """Return the tokens of a new session, from the device flow; `form` posts a form and returns the JSON."""
    started = form("/issuer/device_authorization", client_id="frost-cli")
    form("/issuer/device/approve", user_code=started["user_code"], email=email)
    fields = {"grant_type": DEVICE_GRANT, "device_code": started["device_code"], "client_id": "frost-cli"}
    return form("/issuer/token", **fields)


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: Path, timeout: float = 60) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def exchange(
    connection: http.client.HTTPConnection, method: str, path: str, headers: Mapping[str, str], content: bytes | None
) -> Answer:
    try:
        connection.request(method, path, body=content, headers=dict(headers))
        answer = connection.getresponse()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


class Api:
    """A platform as its clients reach it; `socket` is the path of its socket."""

    @property
    def socket(self) -> Path:
        raise NotImplementedError

    def request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        *,
        token: str | None = None,
        key: str | None = None,
        body: Any = None,
    ) -> Answer:
        """Send a request on a connection of its own, with an access token or the secret of a key, and a JSON body."""
        sent = {"Accept": "application/json"}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        if key is not None:
            sent["X-API-Key"] = key
        if body is not None:
            sent["Content-Type"], content = "application/json", json.dumps(body).encode()
        return exchange(UnixConnection(self.socket), method, path, {**sent, **(headers or {})}, content)

    def post_form(self, path: str, **fields: str) -> Answer:
        return self.request("POST", path, FORM, urlencode(fields).encode())
