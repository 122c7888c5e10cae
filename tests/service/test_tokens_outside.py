"""Tokens of an outside issuer, served by a real HTTP server on the loopback. design: Identity; hostile H06, C13"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey
from sqlalchemy import select

from service.access import outside
from service.access.outside import OutsideIssuer
from service.access.sessions import end
from service.access.tokens import Tokens
from service.db.engine import Database
from service.db.tables import audit_log, sessions
from service.errors import Refusal
from tests.service.issuing import GONE, NOW, OWNER, HandClock, Issuing

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

    def token(self, key: Any = None, algorithm: str = "ES256", **changes: Any) -> str:
        key = key or self.key
        claims = {
            "iss": self.url,
            "sub": "ext-1",
            "aud": "frost",
            "exp": AT + 600,
            "iat": AT,
            "sid": "their-session",
            "email": OWNER,
            "email_verified": True,
            **changes,
        }
        return jwt.encode(
            {"alg": algorithm, "kid": key.kid},
            {name: value for name, value in claims.items() if value is not None},
            key,
            [algorithm],
        )


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()
    yield provider
    provider.server.shutdown()
    provider.server.server_close()


@pytest.fixture
def trusting(database: Database, tmp_path: Path, provider: Provider) -> Tokens:
    Issuing(database, tmp_path).populate()
    return Tokens(database, HandClock(), OutsideIssuer(provider.url))


def accepted(trusting: Tokens, token: str) -> bool:
    try:
        return trusting.bearer(token, request_id="request-3", peer_uid=None, place="192.0.2.7").email == OWNER
    except Refusal as refusal:
        if refusal.code != "AUTHENTICATION_REQUIRED":
            raise
        return False


def rows(database: Database) -> list[Any]:
    with database.read() as connection:
        return list(connection.execute(select(sessions)))


def test_a_session_starts_at_the_first_sight_of_a_valid_token_and_ends_here(
    trusting: Tokens, provider: Provider, database: Database
) -> None:
    token = provider.token()
    assert accepted(trusting, token)
    assert accepted(trusting, provider.token(iat=AT - 1))
    (row,) = rows(database)
    assert (row.issuer, row.subject, row.user_id, row.place) == (provider.url, "their-session", "u-owner", "192.0.2.7")
    with database.write() as connection:
        assert end(connection, row.id, reason="signed_out", at=NOW)
    assert not accepted(trusting, token)
    assert len(rows(database)) == 1


def test_without_a_sid_the_sign_in_time_tells_sessions_apart(
    trusting: Tokens, provider: Provider, database: Database
) -> None:
    for auth_time in (AT - 100, AT - 50, AT - 100):
        assert accepted(trusting, provider.token(sid=None, auth_time=auth_time))
    assert sorted(row.subject for row in rows(database)) == [f"sub ext-1 {AT - 100}", f"sub ext-1 {AT - 50}"]
    assert not accepted(trusting, provider.token(sid=None))


def test_many_first_sights_at_once_are_one_session(trusting: Tokens, provider: Provider, database: Database) -> None:
    token = provider.token()
    results: list[bool] = []
    threads = [threading.Thread(target=lambda: results.append(accepted(trusting, token))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 12
    assert len(rows(database)) == 1
    with database.read() as connection:
        (entry,) = connection.execute(select(audit_log))
    assert (entry.operation, entry.actor_id) == ("session.start", "u-owner")
    assert provider.asked == ["/realm/.well-known/openid-configuration", "/realm/keys"]


@pytest.mark.parametrize(
    "changes",
    [
        {"email": "nobody@aurora.example"},
        {"email": GONE},
        {"email": None},
        {"email_verified": False},
        {"email_verified": None},
        {"email_verified": "true"},
        {"aud": "other"},
        {"iss": "https://elsewhere.example"},
        {"exp": AT},
        {"nbf": AT + 60},
    ],
    ids=str,
)
def test_strangers_unverified_addresses_and_wrong_claims_start_nothing(
    trusting: Tokens, provider: Provider, database: Database, changes: dict[str, Any]
) -> None:
    assert not accepted(trusting, provider.token(**changes))
    assert rows(database) == []


def test_a_session_does_not_pass_to_another_person(trusting: Tokens, provider: Provider) -> None:
    assert accepted(trusting, provider.token())
    assert not accepted(trusting, provider.token(email="member@aurora.example"))


def test_shared_secrets_are_refused_even_when_published(trusting: Tokens, provider: Provider) -> None:
    secret = OctKey.generate_key(256)
    secret.ensure_kid()
    provider.say("/realm/keys", {"keys": [provider.key.as_dict(private=False), secret.as_dict(private=True)]})
    assert not accepted(trusting, provider.token(key=secret, algorithm="HS256"))
    assert accepted(trusting, provider.token())


def test_an_rsa_provider_is_understood(trusting: Tokens, provider: Provider) -> None:
    key = RSAKey.generate_key(2048)
    key.ensure_kid()
    provider.publish(key)
    assert accepted(trusting, provider.token(key=key, algorithm="RS256"))


def test_a_new_key_is_fetched_but_made_up_ones_do_not_make_us_hammer(
    trusting: Tokens, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert accepted(trusting, provider.token())
    newer = ECKey.generate_key("P-256")
    newer.ensure_kid()
    provider.publish(provider.key, newer)
    for _ in range(5):
        assert not accepted(trusting, provider.token(key=newer))
    assert len(provider.asked) == 2
    monkeypatch.setattr(outside, "PAUSE_SECONDS", 0)
    assert accepted(trusting, provider.token(key=newer))
    assert len(provider.asked) == 4


KEYS, DISCOVERY = "/realm/keys", "/realm/.well-known/openid-configuration"


@pytest.mark.parametrize(
    ("path", "status", "change", "headers"),
    [
        (KEYS, 500, {}, {}),
        (KEYS, 200, {"keys": "none"}, {}),
        (KEYS, 200, {"keys": []}, {}),
        (KEYS, 200, {"filler": "x" * 300_000}, {}),
        (KEYS, 302, {}, {"Location": "/realm/elsewhere"}),
        (DISCOVERY, 404, {}, {}),
        (DISCOVERY, 200, {"issuer": "https://elsewhere.example"}, {}),
        (DISCOVERY, 200, {"issuer": None}, {}),
        (DISCOVERY, 200, {"jwks_uri": None}, {}),
    ],
    ids=lambda value: str(value)[:40],
)
def test_keys_that_cannot_be_read_are_an_outage_not_a_sign_in(
    trusting: Tokens,
    provider: Provider,
    database: Database,
    path: str,
    status: int,
    change: dict[str, Any],
    headers: dict[str, str],
) -> None:
    good = provider.answers[path][2]
    provider.say("/realm/elsewhere", json.loads(good))
    provider.say(path, json.loads(good) | change, status, **headers)
    with pytest.raises(Refusal) as caught:
        accepted(trusting, provider.token())
    assert (caught.value.status_code, caught.value.code) == (503, "SERVICE_UNAVAILABLE")
    assert "/realm/elsewhere" not in provider.asked
    assert rows(database) == []


def test_a_list_where_an_object_belongs_is_an_outage_too(trusting: Tokens, provider: Provider) -> None:
    provider.say(KEYS, [])
    with pytest.raises(Refusal):
        accepted(trusting, provider.token())


def test_keys_over_plain_http_from_elsewhere_are_not_fetched(trusting: Tokens, provider: Provider) -> None:
    port = provider.server.server_address[1]
    provider.say(
        "/realm/.well-known/openid-configuration",
        {"issuer": provider.url, "jwks_uri": f"http://localhost:{port}/realm/keys"},
    )
    with pytest.raises(Refusal):
        accepted(trusting, provider.token())
    assert "/realm/keys" not in provider.asked


@pytest.mark.parametrize(
    "url",
    [
        "http://idp.example",
        "http://localhost:8080",
        "http://127.0.0.1.evil.example/",
        "http://127.0.0.1@evil.example/",
        "https://user:pw@idp.example",
        "https://idp.example/?x=1",
        "https://idp.example/#x",
        "ftp://idp.example",
        "idp.example",
        "",
    ],
)
def test_an_issuer_that_is_not_a_plain_https_url_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        OutsideIssuer(url)
