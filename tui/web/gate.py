"""Who may come in: one address with a token that works once, then a cookie, and nobody from another page or host.

Loopback is open to every user of the machine and to every page of the browser, so being on it says nothing. Cookies
do not know ports, and another program on 127.0.0.1 can have this browser sent to it; so the cookie goes with a folder
of random name only, which another one does not know, and two of these servers do not overwrite each other's.
"""

import secrets
from hmac import compare_digest
from typing import Final

HOST: Final = "127.0.0.1"
COOKIE: Final = "frost"
_ENTRANCE: Final = "/enter/"


class Gate:
    """The secrets of one run of `frost web` at one port. Nothing of it is kept anywhere."""

    def __init__(self, port: int) -> None:
        self.host = f"{HOST}:{port}"
        self.origin = f"http://{self.host}"
        self.folder = f"/{secrets.token_urlsafe(16)}/"
        """Below it lies all that is served."""
        self._token = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)
        self.used = False
        """Whether somebody has come in."""

    @property
    def address(self) -> str:
        """What a person opens, once."""
        return f"{self.origin}{_ENTRANCE}{self._token}"

    @property
    def cookie(self) -> str:
        """The header that lets a browser in, for as long as it runs; no script can read it."""
        return f"{COOKIE}={self._cookie}; Path={self.folder}; HttpOnly; SameSite=Strict"

    def foreign(self, host: str | None, origin: str | None) -> str:
        """Why a request does not come from a page of ours, in one line; empty when it may. No Origin is none."""
        if host != self.host:
            return f"frost web answers at {self.origin} only"
        if origin is not None and origin != self.origin:
            return "frost web does not answer to pages of others"
        return ""

    def is_entrance(self, path: str) -> bool:
        """Whether a path asks to be let in by token."""
        return path.startswith(_ENTRANCE)

    def is_address(self, path: str) -> bool:
        """Whether the token in this path is the one of the address, used or not."""
        return _same(path.removeprefix(_ENTRANCE), self._token)

    def enter(self, path: str) -> bool:
        """Whether the token in this path lets in. It does so once."""
        if self.used or not self.is_address(path):
            return False
        self.used = True
        return True

    def knows(self, cookie: str | None) -> bool:
        """Whether this is the cookie of somebody who has come in."""
        return self.used and cookie is not None and _same(cookie, self._cookie)


def _same(given: str, wanted: str) -> bool:
    return compare_digest(given.encode("utf-8", "surrogateescape"), wanted.encode())
