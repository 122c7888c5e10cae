"""The client of the current request, for code that has no access to the request."""

from collections.abc import Hashable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple


class Client(NamedTuple):
    key: Hashable = None
    """The address, or the peer process over the unix socket."""
    scope: MutableMapping[str, Any] | None = None
    """The scope of the request."""


CLIENT: ContextVar[Client] = ContextVar("frost_client", default=Client())  # noqa: B039


@contextmanager
def client_of(key: Hashable, scope: MutableMapping[str, Any] | None = None) -> Iterator[None]:
    """Set the client of the code in this context."""
    token = CLIENT.set(Client(key, scope))
    try:
        yield
    finally:
        CLIENT.reset(token)
