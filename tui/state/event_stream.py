"""The event streams of the program, one for each tenant with subscribers, and operations read at their signals."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from client.errors import FrostError
from client.operations import is_final, readings

if TYPE_CHECKING:
    from client.transport.events import Listening, Signal
    from tui.state.context_state import Requests

Work = Callable[[], Coroutine[Any, Any, None]]
"""Creates a coroutine when the task starts. A coroutine of a cancelled task would never be awaited."""


class Spawn(Protocol):
    """Runs work in the background in place of the task of the same name. None only cancels that task."""

    def __call__(self, name: str, work: Work | None) -> None: ...


OpenStream = Callable[[str, "Listening"], AsyncIterator["Signal"]]
"""Yields the signals of a tenant without end. Calls its second argument when a stream opens or ends."""
Watch = Callable[[str, str], AsyncIterator[Mapping[str, Any]]]
"""Yields the operation with this tenant and id after each read, until its end."""


class Subscription:
    """A reader of the signals of a tenant."""

    def __init__(self, tenant_id: str, on_signal: Callable[["Signal"], None], on_listening: "Listening") -> None:
        self.tenant_id, self.on_signal, self.on_listening = tenant_id, on_signal, on_listening


class _Stream:
    """The stream of a tenant."""

    def __init__(self, tenant_id: str) -> None:
        self.task = f"events {tenant_id}"
        self.subscriptions: list[Subscription] = []
        self.is_running = False
        self.is_open = False


class EventStreams:
    """Opens a stream with the first subscription to a tenant, and closes it with the last.

    Args:
        open_stream: Opens the stream of a tenant.
        spawn: Runs background tasks.
        failed: Called with the error that ends a stream permanently. Its subscriptions stay until `resume` reopens it.
    """

    def __init__(self, open_stream: OpenStream, spawn: Spawn, failed: Callable[[FrostError], None]) -> None:
        self._open_stream, self._spawn, self._failed = open_stream, spawn, failed
        self._streams: dict[str, _Stream] = {}

    def subscribe(
        self, tenant_id: str, on_signal: Callable[["Signal"], None], on_listening: "Listening" = lambda _: None
    ) -> Subscription:
        """Call `on_signal` with each signal of a tenant, and `on_listening` when its stream opens or ends."""
        subscription = Subscription(tenant_id, on_signal, on_listening)
        stream = self._streams.setdefault(tenant_id, _Stream(tenant_id))
        stream.subscriptions.append(subscription)
        if stream.is_open:
            on_listening(True)
        self._start(tenant_id, stream)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription. A subscription that `stop` has ended is ignored."""
        stream = self._streams.get(subscription.tenant_id)
        if stream is None or subscription not in stream.subscriptions:
            return
        stream.subscriptions.remove(subscription)
        if not stream.subscriptions:
            del self._streams[subscription.tenant_id]
            self._spawn(stream.task, None)

    def resume(self) -> None:
        """Open the streams again that an error has ended."""
        for tenant_id, stream in self._streams.items():
            self._start(tenant_id, stream)

    def stop(self) -> None:
        """Close all streams and end all subscriptions."""
        streams = list(self._streams.values())
        self._streams.clear()
        for stream in streams:
            self._spawn(stream.task, None)

    async def signals(
        self, tenant_id: str, resource_types: Collection[str], listening: "Listening"
    ) -> AsyncIterator["Signal"]:
        """Yield the signals of a tenant for these resource types, and signals without a type."""
        queue: asyncio.Queue[Signal] = asyncio.Queue()
        subscription = self.subscribe(tenant_id, queue.put_nowait, listening)
        try:
            while True:
                signal = await queue.get()
                if not signal.resource_type or signal.resource_type in resource_types:
                    yield signal
        finally:
            self.unsubscribe(subscription)

    def _start(self, tenant_id: str, stream: _Stream) -> None:
        if not stream.is_running:
            stream.is_running = True
            self._spawn(stream.task, partial(self._run, tenant_id, stream))

    async def _run(self, tenant_id: str, stream: _Stream) -> None:
        try:
            async for signal in self._open_stream(tenant_id, partial(self._set_open, stream)):
                for subscription in tuple(stream.subscriptions):
                    subscription.on_signal(signal)
        except FrostError as error:
            self._failed(error)
        finally:
            stream.is_running = False
            self._set_open(stream, False)

    @staticmethod
    def _set_open(stream: _Stream, is_open: bool) -> None:
        if stream.is_open != is_open:
            stream.is_open = is_open
            for subscription in tuple(stream.subscriptions):
                subscription.on_listening(is_open)


def watch_operation(
    requests: "Requests", streams: EventStreams, resource_types: Collection[str], tenant_id: str, operation_id: str
) -> AsyncIterator[Mapping[str, Any]]:
    """Yield an operation after each read, until its end. It is read at the signals about `resource_types`.

    Raises:
        FrostError: The operation cannot be read.
    """

    from client.api import tenants

    async def read() -> Mapping[str, Any]:
        return (await requests.ask(tenants.operation(tenant_id, operation_id))).wire()

    return readings(read, partial(streams.signals, tenant_id, resource_types), is_final)
