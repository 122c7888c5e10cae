"""The client of the current request, for code that has no access to the request, and the content of its body."""

from collections.abc import Hashable, MutableMapping
from contextvars import ContextVar
from typing import Any, NamedTuple

CONTENT = "frost.content"
"""The key of a complete body in the scope, for functions that cannot wait for it."""


class Client(NamedTuple):
    key: Hashable = None
    """The address, or the peer process over the unix socket."""
    scope: MutableMapping[str, Any] | None = None
    """The scope of the request."""


CLIENT: ContextVar[Client] = ContextVar("frost_client", default=Client())  # noqa: B039


class client_of:
    """Set the client of the code in this context."""

    __slots__ = ("_client", "_token")

    def __init__(self, key: Hashable, scope: MutableMapping[str, Any] | None = None) -> None:
        self._client = Client(key, scope)

    def __enter__(self) -> None:
        self._token = CLIENT.set(self._client)

    def __exit__(self, *_: object) -> None:
        CLIENT.reset(self._token)
