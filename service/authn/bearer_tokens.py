"""Authenticates bearer tokens (JWT access tokens, RFC 9068).

Verified signatures are cached; the times and the session are checked on every request. Responses do not reveal why a
token is rejected.
"""

import logging
import threading
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard

from sqlalchemy import Connection

from service.authn import sessions
from service.authn.sessions import Session
from service.clock import Clock
from service.db.engine import Database
from service.errors import authentication_required
from service.lru_cache import LruCache
from service.principal import Principal

if TYPE_CHECKING:
    from joserfc.jwk import Key

logger = logging.getLogger(__name__)

MAX_TOKEN_LENGTH = 8 * 1024
MAX_VERIFIED_TOKENS = 2048
# For `nbf` and `iat`, if the issuer's clock is ahead; `exp` has no leeway.
LEEWAY_SECONDS = 30
SKEW_PERIOD_SECONDS = 3_600
MAX_TIME = 253_402_300_799
"""The end of the year 9999. RFC 7519 sets no limit, but a later time, such as 1e308, is an error of the issuer."""
ACCESS_TOKEN_TYPE = "at+jwt"  # noqa: S105 - RFC 9068
ID_TOKEN_CLAIMS = frozenset({"nonce", "at_hash", "c_hash", "s_hash"})


class TrustedIssuer(Protocol):
    @property
    def issuer(self) -> str: ...
    @property
    def client_id(self) -> str:
        """The public client of the command line."""

    @property
    def audience(self) -> str: ...
    @property
    def algorithms(self) -> Sequence[str]: ...
    @property
    def token_type(self) -> str | None:
        """The required `typ` of access tokens; None if unknown."""

    @property
    def starts_sessions(self) -> bool:
        """Whether tokens of a new sign-in start a session (external issuers)."""

    @property
    def assumed_claims(self) -> Set[str]:
        """Claims that are assumed without being asserted: `email_verified`, `auth_time`."""

    def key(self, kid: str) -> "Key | None": ...
    def cached_key(self, kid: str) -> "Key | None":
        """Return a key without fetching; None if keys should be fetched."""


class BearerTokens:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        issuer: TrustedIssuer,
        *,
        max_verified: int = MAX_VERIFIED_TOKENS,
    ) -> None:
        self._database = database
        self._clock = clock
        self._issuer = issuer
        self._verified: LruCache[bytes, VerifiedToken] = LruCache(max_verified)
        self._skew = ClockSkew()

    def authenticate(self, token: str, *, request_id: str, peer_uid: int | None, location: str = "") -> Principal:
        """Return the principal of a token.

        Args:
            location: the request's origin, stored with a new session.

        Raises:
            ApiError: 401 AUTHENTICATION_REQUIRED, identical for every invalid token; 401 REAUTHENTICATION_REQUIRED for
                a sign-in before the user ended all sessions.
        """
        now = self._clock.now()
        verified, subject = self._verified_subject(token, now)
        if verified is None or subject is None:
            raise authentication_required()
        with self._database.read_committed() as connection:
            session, is_new = self._find_session(connection, verified.claims, subject)
        if is_new:
            anonymous = Principal(kind="anonymous", request_id=request_id, peer_uid=peer_uid)
            session = self._start_session(verified.claims, subject, anonymous, location, now)
        if session is None or not session.is_active_at(now):
            raise authentication_required()
        return replace(_principal_of(session, verified), request_id=request_id, peer_uid=peer_uid)

    def find(self, connection: Connection, token: str) -> Principal | None:
        """Return the principal of a valid token with an active session, without a request. Starts no session."""
        now = self._clock.now()
        verified, subject = self._verified_subject(token, now)
        if verified is None or subject is None:
            return None
        session, _ = self._find_session(connection, verified.claims, subject)
        return _principal_of(session, verified) if session is not None and session.is_active_at(now) else None

    def is_known(self, token: str) -> bool:
        """Return whether a token that was verified before is still valid, without its session. Fetches no keys."""
        now = self._clock.now()
        verified = self._verified.get(_digest(token))
        return (
            verified is not None
            and self._issuer.cached_key(verified.kid) is verified.key
            and is_within_lifetime(verified.claims, now)
            and self._session_subject(verified, now) is not None
        )

    def _verified_subject(self, token: str, now: datetime) -> "tuple[VerifiedToken | None, str | None]":
        verified = self._verify(token, now)
        return verified, None if verified is None else self._session_subject(verified, now)

    def _verify(self, token: str, now: datetime) -> "VerifiedToken | None":
        if not 0 < len(token) <= MAX_TOKEN_LENGTH or not token.isascii():
            return None
        digest = _digest(token)
        verified = self._verified.get(digest)
        if verified is not None and self._issuer.key(verified.kid) is verified.key:
            return verified if is_within_lifetime(verified.claims, now) else None
        verified = verify(token, self._issuer)
        if verified is None:
            return None
        if not is_within_lifetime(verified.claims, now):
            logger.info("a token of %s is refused: it has expired or is not valid yet", self._issuer.issuer)
            return None
        self._verified[digest] = verified
        return verified

    def _session_subject(self, verified: "VerifiedToken", now: datetime) -> str | None:
        """Return the session's id at the issuer; None if invalid."""
        if not self._issuer.starts_sessions:
            sid = verified.claims.get("sid")
            return sid if isinstance(sid, str) and sid.isprintable() else None
        if not (verified.is_rfc9068 or "auth_time" in self._issuer.assumed_claims):
            logger.info(
                "a token is refused: it is not an at+jwt, so its auth_time may be its own; see --assume auth_time"
            )
            return None
        key = sessions.sign_in_key(verified.claims)
        return key if key is not None and self._was_issued(verified.claims, now) else None

    def _find_session(
        self, connection: Connection, claims: Mapping[str, Any], session_subject: str
    ) -> tuple[Session | None, bool]:
        """Return the session if it belongs to the subject, and whether a session may be started."""
        issuer, subject = self._issuer.issuer, claims["sub"]
        session = sessions.find(connection, issuer=issuer, subject=session_subject)
        account = subject
        if self._issuer.starts_sessions:
            account = sessions.get_linked_account(connection, issuer=issuer, subject=subject)
            if session is None or account is None:
                return None, True
        return (session if session and session.user_id == account else None), False

    def _start_session(
        self, claims: Mapping[str, Any], sign_in_key: str, anonymous: Principal, location: str, now: datetime
    ) -> Session | None:
        if "email_verified" in self._issuer.assumed_claims:
            claims = {"email_verified": True, **claims}
        with self._database.write() as connection:
            return sessions.start_session_for_new_sign_in(
                connection,
                issuer=self._issuer.issuer,
                sign_in_key=sign_in_key,
                claims=claims,
                signed_in_at=claims["auth_time"] - self._skew.seconds(now),
                principal=anonymous,
                location=location,
                at=now,
            )

    def _was_issued(self, claims: Mapping[str, Any], now: datetime) -> bool:
        """Refuse a future `iat`, and record the skew of the issuer's clock.

        The skew is subtracted from `auth_time`: a clock that is ahead must not move a sign-in past a `revoke-all`.
        """
        issued_at = claims.get("iat", 0)
        if not _is_time(issued_at) or issued_at > now.timestamp() + LEEWAY_SECONDS:
            logger.warning("a token is refused: it was issued in the future; compare the issuer's clock with this one")
            return False
        self._skew.record(issued_at - now.timestamp(), now)
        return True


def _digest(token: str) -> bytes:
    return sha256(token.encode()).digest()


def _principal_of(session: Session, verified: "VerifiedToken") -> Principal:
    return Principal(
        kind="session",
        request_id="",
        user_id=session.user_id,
        email=session.email,
        session_id=session.id,
        expires_at=session.expires_at,
        token_ends_at=verified.claims["exp"],
        last_used_at=session.last_seen_at,
    )


class ClockSkew:
    """The largest lead of the issuer's clock in the current and the previous period.

    A period exceeds the lifetime of access tokens, so the skew outlasts the tokens that revealed it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._period = 0
        self._previous = self._current = 0.0

    def record(self, lead: float, now: datetime) -> None:
        with self._lock:
            self._advance(now)
            self._current = max(self._current, lead)

    def seconds(self, now: datetime) -> float:
        with self._lock:
            self._advance(now)
            return max(self._previous, self._current)

    def _advance(self, now: datetime) -> None:
        period = int(now.timestamp() // SKEW_PERIOD_SECONDS)
        if period > self._period:
            self._previous = self._current if period == self._period + 1 else 0.0
            self._period, self._current = period, 0.0


class VerifiedToken(NamedTuple):
    """The claims of a token and the key that signed it; valid while the issuer has this key.

    `is_rfc9068`: `typ` is `at+jwt`, so the claims have the meaning of RFC 9068.
    """

    kid: str
    key: "Key"
    claims: Mapping[str, Any]
    is_rfc9068: bool


def verify(token: str, issuer: TrustedIssuer) -> VerifiedToken | None:
    """Verify signature, issuer, audience and type, but not the times; return None if invalid.

    For correctly signed tokens, the reason is logged.
    """
    from joserfc import jws, jwt
    from joserfc.errors import JoseError

    try:
        header = jws.extract_compact(token.encode("ascii")).headers()
        kid = header.get("kid") if isinstance(header, dict) else None
        key = issuer.key(kid) if isinstance(kid, str) else None
        if not isinstance(kid, str) or key is None:
            return None
        claims = jwt.decode(token, key, issuer.algorithms).claims
    except (JoseError, ValueError, TypeError, KeyError):
        # joserfc rejects headers over 512 bytes; malformed parts raise Python errors.
        return None
    # joserfc would also accept a list of issuers.
    audience = claims.get("aud")
    is_for_us = audience == issuer.audience or (isinstance(audience, list) and issuer.audience in audience)
    if claims.get("iss") != issuer.issuer:
        reason = f"it names another issuer, {claims.get('iss')!r}"
    elif not is_for_us:
        reason = f"the setting --audience is {issuer.audience!r}, but its audience is {audience!r}"
    elif not isinstance(claims.get("sub"), str) or not claims["sub"]:
        reason = "it has no subject"
    elif not is_access_token(header, claims, issuer.token_type):
        reason = "it is not an access token"
    else:
        return VerifiedToken(kid, key, claims, is_rfc9068=_media_type(header) == ACCESS_TOKEN_TYPE)
    logger.info("a token of %s is refused: %s", issuer.issuer, reason[:300])
    return None


def is_access_token(header: Mapping[str, Any], claims: Mapping[str, Any], required: str | None) -> bool:
    """Return whether a token is an access token, not an ID token signed with the same key (RFC 9068, RFC 8725 3.12).

    Without a required `typ`, `at+jwt` is sufficient; a token with an unspecific `typ` must not have ID-token claims.
    """
    media_type = _media_type(header)
    if required is not None or media_type == ACCESS_TOKEN_TYPE:
        return required is None or media_type == required
    return media_type in ("", "jwt") and claims.get("typ") != "ID" and not ID_TOKEN_CLAIMS & claims.keys()


def _media_type(header: Mapping[str, Any]) -> str:
    return str(header.get("typ", "")).lower().removeprefix("application/")


def is_within_lifetime(claims: Mapping[str, Any], now: datetime) -> bool:
    """Check `nbf` and `exp`; `exp` is required."""
    instant = now.timestamp()
    expiry, start = claims.get("exp"), claims.get("nbf", 0)
    if not _is_time(expiry) or not _is_time(start):
        return False
    return instant < expiry and start <= instant + LEEWAY_SECONDS


def _is_time(value: object) -> TypeGuard[float]:
    """Return whether a claim is a time (NumericDate of RFC 7519) up to `MAX_TIME`."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MAX_TIME
