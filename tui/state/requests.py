"""The requests that the state sends to the platform."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from client.transport.call import Call, Versioned
    from client.transport.events import Listening, Signal

T = TypeVar("T")


class Requests(Protocol):
    """Sends calls in the context in use (`Workspace`). Errors are raised, and update the state of the connection."""

    async def ask(self, call: "Call[T]") -> T:
        """Send a call and return its result."""

    async def versioned(self, call: "Call[T]") -> "Versioned[T]":
        """Return a record, with the version for a later write."""

    def pages(self, call: "Call[list[T]]") -> AsyncIterator[list[T]]:
        """Yield the pages of a list."""

    def events(self, tenant_id: str, listening: "Listening") -> "AsyncIterator[Signal]":
        """Yield the signals of a tenant. Call `listening` when the stream opens or ends."""
