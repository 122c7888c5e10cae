"""The local issuer's signing key: one P-256 key in `issuer.jwk`, made at the first start.

Loading it costs the import of cryptography (about 40 ms), so nobody does before the first token is signed or read.
"""

import contextlib
import json
import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service import files

if TYPE_CHECKING:
    from joserfc.jwk import ECKey

ALGORITHM = "ES256"


class SigningKey:
    """The key in the file `path`.

    Raises:
        RuntimeError: on first use, when the file is there but is no private P-256 key.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._making = threading.Lock()

    @cached_property
    def private(self) -> "ECKey":
        from joserfc.errors import JoseError
        from joserfc.jwk import ECKey

        with self._making:
            if not self._path.exists():
                _create(self._path)
        try:
            key = ECKey.import_key(json.loads(self._path.read_text("utf-8")))
        except (ValueError, TypeError, JoseError) as error:
            raise RuntimeError(f"{self._path} is not a signing key; remove it and everybody signs in again") from error
        if not key.is_private or key.curve_name != "P-256":
            raise RuntimeError(f"{self._path} is not a private P-256 key")
        key.ensure_kid()
        return key

    @cached_property
    def public(self) -> "ECKey":
        from joserfc.jwk import ECKey

        return ECKey.import_key(self.private.as_dict(private=False))

    def public_jwks(self) -> dict[str, Any]:
        """The key set anybody may see: `{"keys": [{kty, crv, x, y, kid, use, alg}]}`."""
        return {"keys": [dict(self.private.as_dict(private=False, use="sig", alg=ALGORITHM))]}

    def sign(self, claims: dict[str, Any], token_type: str) -> str:
        from joserfc import jwt

        header = {"alg": ALGORITHM, "kid": self.private.kid, "typ": token_type}
        return jwt.encode(header, claims, self.private, [ALGORITHM])


def _create(path: Path) -> None:
    """Write a new key, unless another process is first."""
    from joserfc.jwk import ECKey

    document = json.dumps(ECKey.generate_key("P-256", auto_kid=True).as_dict(private=True))
    with contextlib.suppress(FileExistsError):
        files.write_atomically(path, document.encode(), exclusive=True)
