"""A local issuer on a test's database, with two people and a clock that is moved by hand."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc import jws
from sqlalchemy import insert, select, update

from service.authn.bearer_tokens import BearerTokens
from service.db.engine import Database
from service.db.tables import audit_log, platform_state, sessions, users
from service.errors import ApiError
from service.oidc_issuer import endpoints
from service.oidc_issuer.issuer import LocalIssuer
from service.principal import Principal
from tests.api import DEVICE_GRANT
from tests.people import MEMBER, OWNER
from tests.service.queries import execute, fetch

NOW = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
SECRET = sha256(b"the platform's secret").digest()
GONE = "gone@aurora.example"
REDIRECT = "http://127.0.0.1:41999/callback"
SCOPE = "openid profile email offline_access"


class HandClock:
    """A fake clock: it moves when the test says so."""

    def __init__(self) -> None:
        self.instant = NOW

    def now(self) -> datetime:
        return self.instant

    def forward(self, **by: float) -> None:
        self.instant += timedelta(**by)


@dataclass(frozen=True)
class Reply:
    status: int
    body: dict[str, Any]
    location: str
    cache: str

    @property
    def error(self) -> str:
        return str(self.body.get("error", "")) or self.query().get("error", "")

    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.location).query).items()}


class Issuing:
    """The issuer, and what its client does with it."""

    def __init__(self, database: Database, folder: Path, clock: HandClock | None = None) -> None:
        self.database = database
        self.folder = folder
        self.clock = clock or HandClock()
        self.issuer = LocalIssuer(database, self.clock, folder, SECRET)
        self.tokens = BearerTokens(database, self.clock, self.issuer)

    def populate(self) -> "Issuing":
        people = {"u-owner": OWNER, "u-member": MEMBER, "u-gone": GONE}
        rows = [{"id": id, "email": email, "name": email, "created_at": NOW} for id, email in people.items()]
        first = insert(platform_state).values(name="first_person", value=OWNER)
        execute(self.database, insert(users).values(rows), first)
        self.delete(GONE)
        return self

    def delete(self, email: str) -> None:
        execute(self.database, update(users).where(users.c.email == email).values(deleted_at=self.clock.now()))

    def ask(self, endpoint: endpoints.Endpoint, fields: dict[str, str] | str, method: str = "POST") -> Reply:
        encoded = fields if isinstance(fields, str) else urlencode(fields)
        caller = Principal(kind="anonymous", request_id="request-1", peer_uid=1000)
        response = endpoints.handle(self.issuer, caller, endpoint, method, encoded.encode())
        body = json.loads(response.body) if response.body else {}
        headers = response.headers
        return Reply(response.status_code, body, headers.get("location", ""), headers.get("cache-control", ""))

    # Device flow

    def start_device(self, **fields: str) -> dict[str, Any]:
        reply = self.ask("device_authorization", {"client_id": "frost-cli", **fields})
        assert reply.status == 200, reply
        return reply.body

    def poll(self, device_code: str) -> Reply:
        return self.ask("token", {"grant_type": DEVICE_GRANT, "device_code": device_code, "client_id": "frost-cli"})

    def approve(self, user_code: str, **fields: str) -> Reply:
        return self.ask("approve", {"user_code": user_code, **fields})

    def sign_in(self, email: str = OWNER, **fields: str) -> dict[str, Any]:
        started = self.start_device(**fields)
        assert self.approve(started["user_code"], email=email).status == 200
        reply = self.poll(started["device_code"])
        assert reply.status == 200, reply
        return reply.body

    # Code flow

    def authorize(self, verifier: str, /, **fields: str) -> Reply:
        """The authorization endpoint; a field given as "" is left out."""
        parameters = {
            "response_type": "code",
            "client_id": "frost-cli",
            "redirect_uri": REDIRECT,
            "scope": SCOPE,
            "state": "st-1",
            "code_challenge": create_s256_code_challenge(verifier),
            "code_challenge_method": "S256",
            **fields,
        }
        return self.ask("authorize", {name: value for name, value in parameters.items() if value}, "GET")

    def code(self, **fields: str) -> tuple[str, str]:
        verifier = token_urlsafe(32)
        return self.authorize(verifier, **fields).query()["code"], verifier

    def exchange(self, code: str, verifier: str, /, **fields: str) -> Reply:
        form = {"grant_type": "authorization_code", "code": code, "code_verifier": verifier, "client_id": "frost-cli"}
        form |= {"redirect_uri": REDIRECT} | fields
        return self.ask("token", {name: value for name, value in form.items() if value})

    # Sessions

    def refresh(self, refresh_token: str, **fields: str) -> Reply:
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": "frost-cli"}
        return self.ask("token", form | fields)

    def bearer(self, access_token: str) -> Principal:
        return self.tokens.authenticate(access_token, request_id="request-2", peer_uid=1000)

    def accepted(self, access_token: str) -> bool:
        try:
            return self.bearer(access_token).kind == "session"
        except ApiError as refusal:
            if refusal.code != "AUTHENTICATION_REQUIRED":
                raise
            return False

    def session(self, session_id: str) -> Any:
        [session] = fetch(self.database, select(sessions).where(sessions.c.id == session_id))
        return session

    def audited(self, operation: str) -> list[Any]:
        entries = select(audit_log).where(audit_log.c.operation == operation).order_by(audit_log.c.id)
        return fetch(self.database, entries)


def claims_of(token: str) -> dict[str, Any]:
    """Return the claims of a token, without verification."""
    claims: dict[str, Any] = json.loads(jws.extract_compact(token.encode()).payload)
    return claims
