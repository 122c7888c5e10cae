"""Bearer tokens: from the header's text to a Caller, or a refusal that does not say why. hostile C12, C13

What a token says is believed only when the key its `kid` names signed it with an algorithm of its issuer, for our
audience, and now is between `nbf` and `exp`. Verified tokens are remembered for speed (bounded, by digest);
the times and the session's row are looked at on every request all the same.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from service.access import sessions
from service.access.caller import Caller
from service.access.sessions import Session
from service.clock import Clock
from service.db.engine import Database, forgone
from service.errors import authentication_required

if TYPE_CHECKING:
    from joserfc.jwk import Key

LONGEST = 8 * 1024
REMEMBERED = 2048
# For the clock of an outside issuer being ahead. None for `exp`: a token is dead when it says so.
LEEWAY_SECONDS = 30


class TrustedIssuer(Protocol):
    """Whose tokens are believed, and how they are told from others."""

    @property
    def issuer(self) -> str: ...
    @property
    def client_id(self) -> str:
        """The public client the command line signs in as."""

    @property
    def audience(self) -> str: ...
    @property
    def algorithms(self) -> Sequence[str]: ...
    @property
    def token_type(self) -> str | None:
        """The `typ` its access tokens must have; None when it is not known for one."""

    @property
    def starts_sessions(self) -> bool:
        """True: a valid token of a session not seen before starts it here (outside issuers)."""

    def key(self, kid: str) -> "Key | None": ...


class Tokens:
    """Checks bearer tokens of the one issuer that is configured."""

    def __init__(self, database: Database, clock: Clock, issuer: TrustedIssuer) -> None:
        self._database = database
        self._clock = clock
        self._issuer = issuer
        self._verified: OrderedDict[bytes, Mapping[str, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def bearer(self, token: str, *, request_id: str, peer_uid: int | None, place: str = "") -> Caller:
        """The caller a bearer token stands for; `place` is where the request came from, kept with a new session.

        Raises:
            Refusal: 401 AUTHENTICATION_REQUIRED, in the same words whatever is wrong with the token.
        """
        now = self._clock.now()
        claims = self._claims(token, now)
        subject = claims and sessions.subject_of(claims)
        if not claims or not subject:
            raise authentication_required()
        with self._database.read() as connection:
            session = sessions.find(connection, issuer=self._issuer.issuer, subject=subject)
        if session is None and self._issuer.starts_sessions:
            session = self._first_sight(claims, subject, place, request_id, now)
        if session is None or not session.alive_at(now) or not self._owns(session, claims):
            raise authentication_required()
        if now - session.last_seen_at >= sessions.SEEN_STEP:
            with forgone("a session could not be marked as seen"), self._database.write() as connection:
                sessions.seen(connection, session, at=now)
        return Caller(
            kind="session",
            request_id=request_id,
            user_id=session.user_id,
            email=session.email,
            session_id=session.id,
            peer_uid=peer_uid,
            expires_at=session.expires_at,
        )

    def _claims(self, token: str, now: datetime) -> Mapping[str, Any] | None:
        """The claims of a token that is signed and in time; None for every other."""
        if not 0 < len(token) <= LONGEST or not token.isascii():
            return None
        name = sha256(token.encode("ascii")).digest()
        with self._lock:
            claims = self._verified.get(name)
            if claims is not None:
                self._verified.move_to_end(name)
        if claims is not None:
            return claims if in_time(claims, now) else None
        claims = verify(token, self._issuer)
        if claims is None or not in_time(claims, now):
            return None
        with self._lock:
            self._verified[name] = claims
            if len(self._verified) > REMEMBERED:
                self._verified.popitem(last=False)
        return claims

    def _owns(self, session: Session, claims: Mapping[str, Any]) -> bool:
        """Whether the token and the session it names speak of the same person."""
        if self._issuer.starts_sessions:
            return session.email == _verified_email(claims)
        return bool(session.user_id == claims["sub"])

    def _first_sight(
        self, claims: Mapping[str, Any], subject: str, place: str, request_id: str, now: datetime
    ) -> Session | None:
        """Start the session of an outside issuer's token, for a person we know by address; else None."""
        email = _verified_email(claims)
        if not email:
            return None
        with self._database.write() as connection:
            sessions.start_at_first_sight(
                connection,
                issuer=self._issuer.issuer,
                subject=subject,
                email=email,
                signed_in=_signed_in(claims),
                place=place,
                request_id=request_id,
                at=now,
            )
            return sessions.find(connection, issuer=self._issuer.issuer, subject=subject)


def verify(token: str, issuer: TrustedIssuer) -> Mapping[str, Any] | None:
    """The claims of a token this issuer signed for us; None for every other. Its times are not looked at."""
    from joserfc import jws, jwt
    from joserfc.errors import JoseError

    try:
        header = jws.extract_compact(token.encode("ascii")).headers()
        kid = header.get("kid") if isinstance(header, dict) else None
        key = issuer.key(kid) if isinstance(kid, str) else None
        if key is None or (issuer.token_type and header.get("typ") != issuer.token_type):
            return None
        claims = jwt.decode(token, key, issuer.algorithms).claims
    except (JoseError, ValueError, TypeError, KeyError):
        # joserfc's own refusals (a header is bounded to 512 bytes there), and what Python says to a wrong shape.
        return None
    # Compared here: joserfc's own check takes a list of issuers that has ours among them.
    audience = claims.get("aud")
    for_us = audience == issuer.audience or (isinstance(audience, list) and issuer.audience in audience)
    somebody = isinstance(claims.get("sub"), str) and claims["sub"]
    return claims if claims.get("iss") == issuer.issuer and for_us and somebody else None


def in_time(claims: Mapping[str, Any], now: datetime) -> bool:
    """Whether now is within what a token says of its time; one that does not say when it ends is never in time."""
    instant = now.timestamp()
    expiry, start = claims.get("exp"), claims.get("nbf", 0)
    if not _number(expiry) or not _number(start):
        return False
    return instant < expiry and start <= instant + LEEWAY_SECONDS


def _number(value: object) -> TypeGuard[float]:
    # A whole number is always finite, and too large a one cannot be asked.
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and isfinite(value))


def _signed_in(claims: Mapping[str, Any]) -> float:
    """When the sign-in behind a token was, as far as it says: at the latest when it was issued. Else long ago."""
    for name in ("auth_time", "iat"):
        if _number(instant := claims.get(name)):
            return instant
    return 0.0


def _verified_email(claims: Mapping[str, Any]) -> str | None:
    email = claims.get("email")
    if claims.get("email_verified") is not True or not isinstance(email, str):
        return None
    return email.strip().lower()
