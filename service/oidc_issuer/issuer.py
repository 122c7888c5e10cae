"""The local OpenID Connect issuer, its signing key and its discovery metadata (OpenID Connect Discovery 1.0, RFC 8414).

It is served only over the unix socket, which only the user of the platform process can open. The key is loaded on first
use, because importing cryptography takes about 40 ms.
"""

import contextlib
import json
import logging
import threading
import time
from collections.abc import Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service import files
from service.authn.bearer_tokens import ACCESS_TOKEN_TYPE
from service.authn.unknown_keys import UnknownKeyLog
from service.clock import Clock
from service.db.engine import Database
from service.files import DamagedFile
from service.oidc_issuer.key_file import ALGORITHM, CURVE, read_key
from service.settings import AUDIENCE, CLIENT_ID

if TYPE_CHECKING:
    from joserfc.jwk import ECKey, Key

ISSUER = "http://localhost/issuer"
KEY_FILE = "issuer.jwk"
logger = logging.getLogger(__name__)


class SigningKey:
    """The P-256 key in the file `path`, created on first use.

    Raises:
        DamagedFile: on first use, if the file has no usable key or cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._create_lock = threading.Lock()
        self._content: dict[str, Any] | None = None

    def read(self) -> dict[str, Any] | None:
        """Return the content of the file, read once; None without a file.

        Raises:
            DamagedFile: the file cannot be read, or has no usable key.
        """
        if self._content is None:
            self._content = read_key(self._path)
        return self._content

    @cached_property
    def private(self) -> "ECKey":
        from joserfc.errors import JoseError
        from joserfc.jwk import ECKey

        with self._create_lock:
            content = self.read()
            if content is None:
                _create(self._path)
                content = self.read()
        try:
            key = ECKey.import_key(content or {})
        except (ValueError, TypeError, JoseError) as error:
            raise DamagedFile(f"{self._path} is not a signing key; remove it to create a new one") from error
        key.ensure_kid()
        return key

    @cached_property
    def public(self) -> "ECKey":
        from joserfc.jwk import ECKey

        return ECKey.import_key(self.private.as_dict(private=False))

    def public_jwks(self) -> dict[str, Any]:
        return {"keys": [dict(self.private.as_dict(private=False, use="sig", alg=ALGORITHM))]}

    def sign(self, claims: dict[str, Any], token_type: str) -> str:
        from joserfc import jwt

        header = {"alg": ALGORITHM, "kid": self.private.kid, "typ": token_type}
        return jwt.encode(header, claims, self.private, [ALGORITHM])


def _create(path: Path) -> None:
    """Create a key file with mode 0600, unless another process has created it."""
    from joserfc.jwk import ECKey

    document = json.dumps(ECKey.generate_key(CURVE, auto_kid=True).as_dict(private=True))
    try:
        with contextlib.suppress(FileExistsError):
            files.write_atomically(path, document.encode(), exclusive=True)
    except OSError as error:
        raise DamagedFile(f"{path} is missing and cannot be created: {error.strerror or error}") from error


class LocalIssuer:
    """Issues tokens to people of this platform.

    Args:
        data_dir: the folder of `issuer.jwk`.
        secret: the platform's secret, for the digests of codes and refresh tokens.
    """

    issuer = ISSUER
    client_id = CLIENT_ID
    audience = AUDIENCE
    algorithms: Sequence[str] = (ALGORITHM,)
    token_type: str | None = ACCESS_TOKEN_TYPE
    # The sign-in starts the session, before its first token.
    starts_sessions = False
    assumed_claims: Set[str] = frozenset()

    def __init__(self, database: Database, clock: Clock, data_dir: Path, secret: bytes) -> None:
        self.database = database
        self.clock = clock
        self.secret = secret
        self._key = SigningKey(data_dir / KEY_FILE)
        self._unknown_keys = UnknownKeyLog(ISSUER, time.monotonic)

    def check_key(self) -> None:
        """Read the key file, if there is one; without it, the first use creates a key.

        Raises:
            DamagedFile: the file cannot be read, or has no usable key.
        """
        self._key.read()

    def check(self) -> str:
        """Return `ok`, or `damaged` if people cannot sign in with the key."""
        try:
            self.check_key()
        except DamagedFile as error:
            logger.error("%s", error)
            return "damaged"
        return "ok"

    def load_key(self) -> None:
        """Load or create the signing key."""
        _ = self._key.public

    def public_jwks(self) -> dict[str, Any]:
        return self._key.public_jwks()

    def sign(self, claims: dict[str, Any], token_type: str = ACCESS_TOKEN_TYPE) -> str:
        return self._key.sign(claims, token_type)

    def key(self, kid: str) -> "Key | None":
        if kid == self._key.public.kid:
            return self._key.public
        self._unknown_keys.record(kid)
        return None

    cached_key = key


DEVICE_CODE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
GRANT_TYPES = ("authorization_code", "refresh_token", DEVICE_CODE_GRANT)
SCOPES = ("openid", "profile", "email", "offline_access")


def discovery_metadata(issuer: str) -> dict[str, Any]:
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "device_authorization_endpoint": f"{issuer}/device_authorization",
        "revocation_endpoint": f"{issuer}/revoke",
        "jwks_uri": f"{issuer}/jwks",
        "scopes_supported": list(SCOPES),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": list(GRANT_TYPES),
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [ALGORITHM],
        "claims_supported": [
            "iss", "sub", "aud", "exp", "nbf", "iat", "jti", "sid", "auth_time", "nonce", "email", "name",
        ],
    }  # fmt: skip
