"""Bearer tokens: from the header's text to a Caller, or a refusal that does not say why. checklist C13 of the attacks

What a token says is believed only when the key its `kid` names signed it with an algorithm of its issuer, for our
audience, and now is between `nbf` and `exp`. Verified tokens are remembered for speed (bounded, by digest);
the times and the session's row are looked at on every request all the same.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

from service.access import sessions
from service.access.caller import Caller
from service.access.sessions import Session
from service.clock import Clock
from service.db.engine import Database
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
            session = self._first_sight(claims, subject, place, now)
        if session is None or not session.alive_at(now) or not self._owns(session, claims):
            raise authentication_required()
        if now - session.last_seen_at >= sessions.SEEN_STEP:
            with self._database.write() as connection:
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
