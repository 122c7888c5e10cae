"""An identity provider on a real HTTP server of the loopback."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from tests.service.issuing import NOW, OWNER

AT = int(NOW.timestamp())


class Provider:
    """An identity provider: documents that can be changed, and how often each was asked for."""

    def __init__(self) -> None:
        self.key = ECKey.generate_key("P-256")
        self.key.ensure_kid()
        self.asked: list[str] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                status, headers, body = provider.answers.get(self.path, (404, {}, b""))
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/realm"
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.say("/realm/.well-known/openid-configuration", {"issuer": self.url, "jwks_uri": f"{self.url}/keys"})
        self.publish(self.key)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def say(self, path: str, document: Any, status: int = 200, **headers: str) -> None:
        self.answers[path] = (status, headers, json.dumps(document).encode())

    def publish(self, *keys: ECKey | RSAKey | OctKey) -> None:
        self.say("/realm/keys", {"keys": [key.as_dict(private=False) for key in keys]})

    def token(self, key: Any = None, algorithm: str = "ES256", kind: str = "at+jwt", **changes: Any) -> str:
        key = key or self.key
        claims = {
            "iss": self.url,
            "sub": "ext-1",
            "aud": "frost",
            "exp": AT + 600,
            "iat": AT,
            "auth_time": AT - 5,
            "sid": "their-session",
            "email": OWNER,
            "email_verified": True,
            **changes,
        }
        return jwt.encode(
            {"alg": algorithm, "kid": key.kid, "typ": kind},
            {name: value for name, value in claims.items() if value is not None},
            key,
            [algorithm],
        )
