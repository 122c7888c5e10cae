"""Bearer tokens: from the header's text to a Caller, or a refusal that does not say why. hostile C12, C13

What a token says is believed only when the key its `kid` names signed it with an algorithm of its issuer, for our
audience, and now is between `nbf` and `exp`. Verified tokens are remembered for speed (bounded, by digest);
the times and the session's row are looked at on every request all the same.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from functools import partial
from hashlib import sha256
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard

from sqlalchemy import Connection

from service.authn import account_linking, sessions
from service.authn.request_limit import RequestLimit
from service.authn.sessions import Session
from service.clock import Clock
from service.db.engine import Database
from service.errors import authentication_required
from service.principal import Principal

if TYPE_CHECKING:
    from joserfc.jwk import Key

logger = logging.getLogger(__name__)

LONGEST = 8 * 1024
REMEMBERED = 2048
# For the clock of an outside issuer being ahead. None for `exp`: a token is dead when it says so.
LEEWAY_SECONDS = 30
# The period over which the lead of an issuer's clock is remembered.
LEAD_SECONDS = 3_600
STANDARD = "at+jwt"
ID_TOKEN_CLAIMS = frozenset({"nonce", "at_hash", "c_hash", "s_hash"})


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

    @property
    def assumed(self) -> Set[str]:
        """What holds of its tokens though they do not say it: `email_verified`, `auth_time` (outside issuers)."""

    def key(self, kid: str) -> "Key | None": ...


class BearerTokens:
    """Checks bearer tokens of the one issuer that is configured."""

    def __init__(
        self, database: Database, clock: Clock, issuer: TrustedIssuer, limit: RequestLimit | None = None
    ) -> None:
        self._limit = limit or RequestLimit(database)
        self._database = database
        self._clock = clock
        self._issuer = issuer
        self._verified: OrderedDict[bytes, Verified] = OrderedDict()
        self._lock = threading.Lock()
        self._lead = ClockLead()

    def bearer(self, token: str, *, request_id: str, peer_uid: int | None, place: str = "") -> Principal:
        """The caller a bearer token stands for; `place` is where the request came from, kept with a new session.

        Raises:
            Refusal: 401 AUTHENTICATION_REQUIRED, in the same words whatever is wrong with the token; or
                REAUTHENTICATION_REQUIRED, which only a good one of a known person gets. 429 for a session with too
                many requests.
        """
        now = self._clock.now()
        verified = self._good(token, now)
        name = verified and self._sign_in_of(verified, now)
        if verified is None or name is None:
            raise authentication_required()
        with self._database.read_committed() as connection:
            session, is_new = self._find(connection, verified.claims, name)
            if session is not None and session.alive_at(now):
                is_due = now - session.last_seen_at >= sessions.SEEN_STEP
                self._limit.require(
                    connection, session.id, partial(sessions.seen, session=session, at=now) if is_due else None
                )
        if is_new:
            nobody = Principal(kind="anonymous", request_id=request_id, peer_uid=peer_uid)
            session = self._start(verified.claims, name, nobody, place, now)
        if session is None or not session.alive_at(now):
            raise authentication_required()
        return Principal(
            kind="session",
            request_id=request_id,
            user_id=session.user_id,
            email=session.email,
            session_id=session.id,
            peer_uid=peer_uid,
            expires_at=session.expires_at,
            token_ends_at=verified.claims["exp"],
        )

    def _good(self, token: str, now: datetime) -> "Verified | None":
        """What a token says that is signed and in time; None for every other."""
        if not 0 < len(token) <= LONGEST or not token.isascii():
            return None
        name = sha256(token.encode("ascii")).digest()
        with self._lock:
            kept = self._verified.get(name)
            if kept is not None:
                self._verified.move_to_end(name)
        if kept is not None and self._issuer.key(kept.kid) is kept.key:
            return kept if in_time(kept.claims, now) else None
        kept = verify(token, self._issuer)
        if kept is None:
            return None
        if not in_time(kept.claims, now):
            logger.info("a token of %s is refused: it has expired, or is not good yet", self._issuer.issuer)
            return None
        with self._lock:
            self._verified[name] = kept
            if len(self._verified) > REMEMBERED:
                self._verified.popitem(last=False)
        return kept

    def _sign_in_of(self, verified: "Verified", now: datetime) -> str | None:
        """The issuer's name for the session of a token; None when the token names none that counts here."""
        if not self._issuer.starts_sessions:
            sid = verified.claims.get("sid")
            return sid if isinstance(sid, str) and sid.isprintable() else None
        if not (verified.standard or "auth_time" in self._issuer.assumed):
            logger.info("a token is refused: it is no at+jwt, so its auth_time may be its own; see --assume auth_time")
            return None
        name = account_linking.sign_in_key(verified.claims)
        return name if name is not None and self._issued_by(verified.claims, now) else None

    def _find(self, connection: Connection, claims: Mapping[str, Any], name: str) -> tuple[Session | None, bool]:
        """The session of a sign-in if it belongs to the token's subject, and whether it can start here now."""
        issuer, subject = self._issuer.issuer, claims["sub"]
        session = sessions.find(connection, issuer=issuer, subject=name)
        account = subject
        if self._issuer.starts_sessions:
            account = account_linking.account_of(connection, issuer=issuer, subject=subject)
            if session is None or account is None:
                return None, True
        return (session if session and session.user_id == account else None), False

    def _start(
        self, claims: Mapping[str, Any], name: str, nobody: Principal, place: str, now: datetime
    ) -> Session | None:
        """Start the session of an outside issuer's sign-in that was not seen before."""
        if "email_verified" in self._issuer.assumed:
            claims = {"email_verified": True, **claims}
        with self._database.write() as connection:
            return account_linking.start_session_for_new_sign_in(
                connection,
                issuer=self._issuer.issuer,
                name=name,
                claims=claims,
                signed_in=claims["auth_time"] - self._lead.seconds(now),
                caller=nobody,
                place=place,
                at=now,
            )

    def _issued_by(self, claims: Mapping[str, Any], now: datetime) -> bool:
        """Return whether a token was not issued in the future; note how far the issuer's clock is ahead.

        A sign-in counts as that much earlier: a clock ahead of ours must not carry one over a `revoke-all`.
        """
        issued = claims.get("iat", 0)
        if not _number(issued) or issued > now.timestamp() + LEEWAY_SECONDS:
            logger.warning("a token is refused: it was issued in the future; compare the issuer's clock with this one")
            return False
        self._lead.note(issued - now.timestamp(), now)
        return True


class ClockLead:
    """The largest lead of an issuer's clock over ours that its tokens showed, over the last one to two periods.

    A period is longer than access tokens live, so that the lead outlasts every token that was issued with it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._period = 0
        self._before = self._current = 0.0

    def note(self, lead: float, now: datetime) -> None:
        """Note the seconds by which a token was issued after now."""
        with self._lock:
            self._advance(now)
            self._current = max(self._current, lead)

    def seconds(self, now: datetime) -> float:
        """Return the lead, 0 if the clock was not seen ahead."""
        with self._lock:
            self._advance(now)
            return max(self._before, self._current)

    def _advance(self, now: datetime) -> None:
        period = int(now.timestamp() // LEAD_SECONDS)
        if period > self._period:
            self._before = self._current if period == self._period + 1 else 0.0
            self._period, self._current = period, 0.0


class Verified(NamedTuple):
    """What a good token says, and the key that signed it: it is good for as long as the issuer has that key.

    `standard` is whether it says that it is an access token of RFC 9068, and so means by its claims what they do there.
    """

    kid: str
    key: "Key"
    claims: Mapping[str, Any]
    standard: bool


def verify(token: str, issuer: TrustedIssuer) -> Verified | None:
    """What a token says that this issuer signed for us; None for every other. Its times are not looked at.

    Why a token is refused that the issuer did sign stands in the log alone: whoever sets the issuer up has to know.
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
        # joserfc's own refusals (a header is bounded to 512 bytes there), and what Python says to a wrong shape.
        return None
    # Compared here: joserfc's own check takes a list of issuers that has ours among them.
    audience = claims.get("aud")
    for_us = audience == issuer.audience or (isinstance(audience, list) and issuer.audience in audience)
    if claims.get("iss") != issuer.issuer:
        reason = f"it names another issuer, {claims.get('iss')!r}"
    elif not for_us:
        reason = f"its audience is {audience!r}, not {issuer.audience!r}"
    elif not isinstance(claims.get("sub"), str) or not claims["sub"]:
        reason = "it has no subject"
    elif not is_access_token(header, claims, issuer.token_type):
        reason = "it is no access token"
    else:
        return Verified(kid, key, claims, standard=_kind(header) == STANDARD)
    logger.info("a token of %s is refused: %s", issuer.issuer, reason[:300])
    return None


def is_access_token(header: Mapping[str, Any], claims: Mapping[str, Any], required: str | None) -> bool:
    """Whether a token is not of another sort that the same key signs, an ID token above all. RFC 9068, RFC 8725 3.12

    Where no `typ` is required, `at+jwt` settles it; of those that say nothing, what an ID token has and no access token
    does (`nonce`, the hashes, and what some providers call it) tells them apart.
    """
    kind = _kind(header)
    if required is not None or kind == STANDARD:
        return required is None or kind == required
    return kind in ("", "jwt") and claims.get("typ") != "ID" and not ID_TOKEN_CLAIMS & claims.keys()


def _kind(header: Mapping[str, Any]) -> str:
    return str(header.get("typ", "")).lower().removeprefix("application/")


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
