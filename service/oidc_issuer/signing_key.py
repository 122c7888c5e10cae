"""The local issuer's signing key.

It is loaded on first use, because importing cryptography takes about 40 ms.
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
    """The P-256 key in the file `path`, created on first use.

    Raises:
        RuntimeError: on first use, if the file is not a private P-256 key.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._create_lock = threading.Lock()

    @cached_property
    def private(self) -> "ECKey":
        from joserfc.errors import JoseError
        from joserfc.jwk import ECKey

        with self._create_lock:
            if not self._path.exists():
                _create(self._path)
        try:
            key = ECKey.import_key(json.loads(self._path.read_text("utf-8")))
        except (ValueError, TypeError, JoseError) as error:
            raise RuntimeError(f"{self._path} is not a signing key; remove it to create a new one") from error
        if not key.is_private or key.curve_name != "P-256":
            raise RuntimeError(f"{self._path} is not a private P-256 key")
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

    document = json.dumps(ECKey.generate_key("P-256", auto_kid=True).as_dict(private=True))
    with contextlib.suppress(FileExistsError):
        files.write_atomically(path, document.encode(), exclusive=True)
