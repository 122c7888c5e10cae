"""A fake identity provider that misbehaves on request, and the platform's `cli-config`."""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Answer = tuple[int, Any]


class Provider:
    """Listens on loopback. `token_answers` are given one after the other, the last one again and again."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
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
        self.api: Callable[[str, str], Answer] = lambda path, authorization: (200, {"id": "me"})
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.slow = 0.0
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def forms(self, path: str) -> list[dict[str, str]]:
        """What was posted to a path, in order."""
        return [form for requests, form in self.requests if requests == path]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, form: dict[str, str], authorization: str) -> Answer | None:
        self.requests.append((path, form))
        match path:
            case "/api/v1/auth/cli-config":
                return 200, self.cli_config
            case "/.well-known/openid-configuration":
                return 200, self.discovery
            case "/device":
                return 200, self.device
            case "/revoke":
                return 200, {}
            case "/token":
                time.sleep(self.slow)
                answer = self.token_answers[0]
                if len(self.token_answers) > 1:
                    self.token_answers.pop(0)
                return answer
            case _ if path.startswith("/api/"):
                return self.api(path, authorization)
        return 404, {}


def tokens(access: str = "ACCESS-2", **more: Any) -> dict[str, Any]:
    """A successful token answer."""
    return {"access_token": access, "refresh_token": "REFRESH-2", "expires_in": 1800, "token_type": "Bearer", **more}


def _handler(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
            self._answer(dict(parse_qsl(content)))

        def _answer(self, form: dict[str, str]) -> None:
            answer = provider.answer(urlsplit(self.path).path, form, self.headers.get("Authorization", ""))
            if answer is None or answer[0] == 0:
                self.close_connection = True
                return
            status, document = answer
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    return Handler
