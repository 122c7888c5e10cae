"""Wait for an operation: read it at the signals of its tenant and at intervals, until it ends."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from client.errors import Exit, FrostError

if TYPE_CHECKING:
    from client.models.tenants import Operation
    from client.transport.async_client import AsyncClient
    from client.transport.call import ConnectionProtocol
    from client.transport.events import Listening, Signal
    from client.transport.exchange import OnReply, Timing


REREAD_SECONDS = 30.0
"""Longest interval between reads while an event stream is open."""
POLL_SECONDS = 2.0
"""Interval between reads while no event stream is open. A platform may not offer event streams."""
COALESCE_SECONDS = 0.1
"""Signals within this time cause one read."""
LOST_SECONDS = 300.0
"""How long a command retries while the platform is unreachable. The operation itself continues."""
UNCHANGED_SECONDS = 30.0
"""How long a command waits for a run that blocks a start but does not appear in the operation."""


class Intervals(NamedTuple):
    """Seconds between the reads of an operation, and until a wait ends without its result."""

    reread: float = REREAD_SECONDS
    poll: float = POLL_SECONDS
    coalesce: float = COALESCE_SECONDS
    lost: float = LOST_SECONDS
    unchanged: float = UNCHANGED_SECONDS


FINAL = ("completed", "failed", "cancelled", "succeeded")
"""Status of an operation that does not change any more. Others, also unknown ones, are open."""
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

T = TypeVar("T")

Read = Callable[[], Awaitable[T]]
"""Reads an operation."""
Signals = Callable[["Listening"], AsyncIterator["Signal"]]
OnRead = Callable[[dict[str, Any]], None]
OnLost = Callable[[FrostError], None]


def is_final(operation: Mapping[str, Any]) -> bool:
    return operation.get("status") in FINAL


def is_undo(operation: Mapping[str, Any]) -> bool:
    """Return whether an apply removes tags that another one added. Its operation id also begins with `undo-`."""
    return operation.get("kind") == "undo" or str(operation.get("operationId", "")).startswith("undo-")


async def watch(client: AsyncClient, tenant_id: str, run_id: str) -> AsyncGenerator[Operation, None]:
    """Yield an operation after each read until it ends.

    Args:
        client: The client, which reads the operation at the signals of the tenant and at intervals.
        tenant_id: The tenant of the operation.
        run_id: The run. A later run with the same operation id has another run id.

    Raises:
        FrostError: The operation cannot be read.
    """
    from client.api import tenants
    from client.transport.events import signals

    async def read() -> Operation:
        return await client.ask(tenants.operation(tenant_id, run_id))

    stream = readings(read, partial(signals, client, tenant_id), lambda operation: operation.status in FINAL)
    async with aclosing(stream):
        async for operation in stream:
            yield operation


async def readings(
    read: Read[T],
    signals: Signals,
    is_over: Callable[[T], bool],
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    *,
    intervals: Intervals = Intervals(),
) -> AsyncGenerator[T, None]:
    """Yield an operation after each read until it ends.

    Args:
        read: Reads the operation.
        signals: Returns the signals of the tenant. Calls its argument when a stream opens or ends.
        is_over: Returns whether to stop after this state of the operation.
        pause: Sleeps for a number of seconds before a read, so that signals close together cause only one.
        intervals: Intervals between reads.

    Raises:
        FrostError: The operation cannot be read.
    """
    signalled = asyncio.Event()
    open_stream = False

    def listening(now: bool) -> None:
        nonlocal open_stream
        open_stream = now

    async def listen() -> None:
        with suppress(FrostError):  # without signals, polling continues
            async for _ in signals(listening):
                signalled.set()
        listening(False)

    listener = asyncio.create_task(listen())
    try:
        while True:
            operation = await read()
            yield operation
            if is_over(operation):
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(intervals.reread if open_stream else intervals.poll):
                    await signalled.wait()
            await pause(intervals.coalesce)
            signalled.clear()
    finally:
        listener.cancel()
        await asyncio.wait([listener])


def wait(
    link: ConnectionProtocol,
    tenant_id: str,
    run_id: str,
    on_read: OnRead,
    *,
    lost: OnLost = lambda _: None,
    on_reply: OnReply | None = None,
    is_over: Callable[[dict[str, Any]], bool] = is_final,
    intervals: Intervals = Intervals(),
    timing: Timing | None = None,
) -> dict[str, Any]:
    """Block until an operation ends, and return its JSON object.

    Args:
        link: The connection.
        tenant_id: The tenant of the operation.
        run_id: The run to wait for. A later run with the same operation id has another run id.
        on_read: Called after each read.
        lost: Called while the platform is unreachable. Retries continue for `intervals.lost`, as it may be restarting.
        on_reply: Called after each exchange (`-d`).
        is_over: Returns whether to stop after this operation state.
        intervals: Intervals between reads.
        timing: Times of requests and retries; None for the defaults.

    Raises:
        FrostError: The operation cannot be read.
        KeyboardInterrupt: The user stopped the wait; the operation continues. Further signals have no effect.
    """
    gc.enable()  # the entry point of commands disables it, but a wait can last for hours
    return _until_interrupted(_wait(link, tenant_id, run_id, on_read, lost, on_reply, is_over, intervals, timing))


def _until_interrupted(work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """Run a coroutine to its end or to the first termination signal. Main thread only.

    Later signals have no effect, also after the return: one of them would interrupt the report of the first.

    `asyncio.run` raises KeyboardInterrupt at the second signal, wherever the loop is. That can lose a scheduled
    callback and block forever. It also waits for name lookups in threads.
    """
    left = False
    task: asyncio.Task[dict[str, Any]] | None = None

    def leave(number: int, frame: FrameType | None) -> None:
        nonlocal left
        if not left and task is not None and not task.done():  # afterwards the loop may be closed
            task.cancel()
            loop.call_soon_threadsafe(lambda: None)  # wake the loop
        left = True

    former = {number: handler for number in _ENDINGS if callable(handler := signal.getsignal(number))}
    for number in former:  # the others are ignored (nohup) or end the process
        signal.signal(number, leave)
    loop = asyncio.new_event_loop()
    try:
        task = loop.create_task(work)
        if left:
            task.cancel()
        result = loop.run_until_complete(task)
    except asyncio.CancelledError:
        if not left:
            raise
    finally:
        loop.close()
        if not left:
            for number, handler in former.items():
                signal.signal(number, handler)
    if left:
        raise KeyboardInterrupt
    return result


def unless_cancelled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report errors of callbacks, except those of cancelled requests.

    anyio sets a future when a socket is ready. If the request is cancelled in the same iteration of the loop, this
    fails, and the default handler prints a traceback.
    """
    if not isinstance(context.get("exception"), asyncio.InvalidStateError):
        loop.default_exception_handler(context)


async def _wait(
    link: ConnectionProtocol,
    tenant_id: str,
    run_id: str,
    on_read: OnRead,
    lost: OnLost,
    on_reply: OnReply | None,
    is_over: Callable[[dict[str, Any]], bool],
    intervals: Intervals,
    timing: Timing | None,
) -> dict[str, Any]:
    from client.api import tenants
    from client.transport.async_client import AsyncClient
    from client.transport.events import signals
    from client.transport.exchange import Timing

    asyncio.get_running_loop().set_exception_handler(unless_cancelled)
    client = AsyncClient(link, on_reply=on_reply, timing=timing or Timing())

    async def read() -> dict[str, Any]:
        document: dict[str, Any] = await client.ask_json(tenants.operation(tenant_id, run_id))
        return document

    operation: dict[str, Any] = {}
    try:
        states = readings(
            patient(read, lost, intervals),
            lambda listening: signals(client, tenant_id, listening),
            is_over,
            intervals=intervals,
        )
        async with aclosing(states):
            async for operation in states:
                on_read(operation)
    finally:
        await client.aclose()
    return operation


def patient(read: Read[T], lost: OnLost, intervals: Intervals) -> Read[T]:
    """Return `read` with retries for `intervals.lost` while the platform is unreachable."""

    async def reading() -> T:
        start = asyncio.get_running_loop().time()
        while True:
            try:
                return await read()
            except FrostError as error:
                late = asyncio.get_running_loop().time() - start > intervals.lost
                if late or error.exit_code is not Exit.UNREACHABLE:
                    raise
                lost(error)
            await asyncio.sleep(intervals.poll)

    return reading
