"""Access control of `frost web`: a one-time token in the address, then a cookie; no other origin or host.

Every user of the machine and every page in the browser can reach the loopback address. Cookies ignore ports, and
another program on 127.0.0.1 can receive requests of this browser. The cookie is therefore limited to a random path,
unknown to other programs. This also separates the cookies of two servers.
"""

import secrets
from hmac import compare_digest
from typing import Final

HOST: Final = "127.0.0.1"
COOKIE: Final = "frost"
_ENTRANCE: Final = "/enter/"


class Gate:
    """The secrets of a server process, in memory only."""

    def __init__(self, port: int) -> None:
        self.host = f"{HOST}:{port}"
        self.origin = f"http://{self.host}"
        self.folder = f"/{secrets.token_urlsafe(16)}/"
        """The path of all resources."""
        self._token = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)
        self.used = False
        """Whether the token was used."""

    @property
    def address(self) -> str:
        """The URL to open, once."""
        return f"{self.origin}{_ENTRANCE}{self._token}"

    @property
    def cookie(self) -> str:
        """The Set-Cookie header: a session cookie, hidden from scripts."""
        return f"{COOKIE}={self._cookie}; Path={self.folder}; HttpOnly; SameSite=Strict"

    def foreign(self, host: str | None, origin: str | None) -> str:
        """Return why a request is from another origin or host; empty if it is not. A missing Origin is accepted."""
        if host != self.host:
            return f"frost web responds only at {self.origin}"
        if origin is not None and origin != self.origin:
            return "frost web does not answer to pages of others"
        return ""

    def is_entrance(self, path: str) -> bool:
        """Return whether a path is for the sign-in by token."""
        return path.startswith(_ENTRANCE)

    def is_address(self, path: str) -> bool:
        """Return whether a path contains the token, used or not."""
        return _same(path.removeprefix(_ENTRANCE), self._token)

    def enter(self, path: str) -> bool:
        """Return whether a path contains the unused token, and mark it as used."""
        if self.used or not self.is_address(path):
            return False
        self.used = True
        return True

    def knows(self, cookie: str | None) -> bool:
        """Return whether a cookie is valid."""
        return self.used and cookie is not None and _same(cookie, self._cookie)


def _same(token: str, expected: str) -> bool:
    return compare_digest(token.encode("utf-8", "surrogateescape"), expected.encode())
