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
from hashlib import sha256
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard

from service.access import newcomers, sessions
from service.access.caller import Caller
from service.access.sessions import Session
from service.clock import Clock
from service.db.engine import Database, forgone
from service.errors import authentication_required

if TYPE_CHECKING:
    from joserfc.jwk import Key

logger = logging.getLogger(__name__)

LONGEST = 8 * 1024
REMEMBERED = 2048
# For the clock of an outside issuer being ahead. None for `exp`: a token is dead when it says so.
LEEWAY_SECONDS = 30
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


class Tokens:
    """Checks bearer tokens of the one issuer that is configured."""

    def __init__(self, database: Database, clock: Clock, issuer: TrustedIssuer) -> None:
        self._database = database
        self._clock = clock
        self._issuer = issuer
        self._verified: OrderedDict[bytes, Verified] = OrderedDict()
        self._lock = threading.Lock()
        self._ahead = 0.0

    def bearer(self, token: str, *, request_id: str, peer_uid: int | None, place: str = "") -> Caller:
        """The caller a bearer token stands for; `place` is where the request came from, kept with a new session.

        Raises:
            Refusal: 401 AUTHENTICATION_REQUIRED, in the same words whatever is wrong with the token; or
                REAUTHENTICATION_REQUIRED, which only a good one of a known person gets.
        """
        now = self._clock.now()
        verified = self._good(token, now)
        if verified is None:
            raise authentication_required()
        if self._issuer.starts_sessions:
            nobody = Caller(kind="anonymous", request_id=request_id, peer_uid=peer_uid)
            session = self._outside(verified, nobody, place, now)
        else:
            session = self._own(verified.claims)
        if session is None or not session.alive_at(now):
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

    def _own(self, claims: Mapping[str, Any]) -> Session | None:
        """The session that the local issuer wrote when it made the token."""
        sid = claims.get("sid")
        if not isinstance(sid, str) or not sid.isprintable():
            return None
        with self._database.read() as connection:
            session = sessions.find(connection, issuer=self._issuer.issuer, subject=sid)
        return session if session and session.user_id == claims["sub"] else None

    def _outside(self, verified: "Verified", nobody: Caller, place: str, now: datetime) -> Session | None:
        """The session of an outside issuer's token, started here when its sign-in is new."""
        claims, assumed = verified.claims, self._issuer.assumed
        if not (verified.standard or "auth_time" in assumed):
            logger.info("a token is refused: it is no at+jwt, so its auth_time may be its own; see --assume auth_time")
            return None
        if "email_verified" in assumed:
            claims = {"email_verified": True, **claims}
        issuer, name = self._issuer.issuer, newcomers.name_of(claims)
        if name is None or not self._issued_by(claims, now):
            return None
        with self._database.read() as connection:
            account = newcomers.account_of(connection, issuer=issuer, subject=claims["sub"])
            session = sessions.find(connection, issuer=issuer, subject=name)
        if session is not None and account is not None:
            return session if session.user_id == account else None
        with self._database.write() as connection:
            return newcomers.first_sight(
                connection,
                issuer=issuer,
                name=name,
                claims=claims,
                signed_in=claims["auth_time"] - self._ahead,
                caller=nobody,
                place=place,
                at=now,
            )

    def _issued_by(self, claims: Mapping[str, Any], now: datetime) -> bool:
        """Whether a token was not issued in the future; within the leeway, how far the issuer's clock is seen ahead.

        A sign-in counts as that much earlier: a clock ahead of ours must not carry one over a `revoke-all`.
        """
        issued = claims.get("iat", 0)
        if not _number(issued) or issued > now.timestamp() + LEEWAY_SECONDS:
            logger.warning("a token is refused: it was issued in the future; compare the issuer's clock with this one")
            return False
        self._ahead = max(self._ahead, issued - now.timestamp())
        return True


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
