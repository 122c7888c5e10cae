"""Waiting for an operation: it is read again at its tenant's signals and now and then, until it is over.

Source: facts 2.9, 2.10; design: Durable operations (the stream is only a signal, the operation is the record).
"""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from client.api import operations
from client.errors import Exit, FrostError

if TYPE_CHECKING:
    from client.core import Link, OnReply
    from client.events import Listening, Signal

REREAD_SECONDS = 30.0
"""Everything that is watched is read again at least this often."""
POLL_SECONDS = 2.0
"""How often while no stream of signals is open: a platform may have none to give (facts 2.9, 2.10)."""
COALESCE_SECONDS = 0.1
"""Signals that come closer together than this cause one reading (10 Hz)."""
LOST_SECONDS = 300.0
"""How long a command goes on waiting for a platform that is out of reach; what it waits for goes on anyway."""
FINAL = ("completed", "failed", "cancelled", "succeeded")
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Read = Callable[[], Awaitable[dict[str, Any]]]
Signals = Callable[["Listening"], AsyncIterator["Signal"]]
Told = Callable[[dict[str, Any]], None]
Lost = Callable[[FrostError], None]


def is_final(operation: dict[str, Any]) -> bool:
    """Whether an operation has ended."""
    return operation.get("status") in FINAL


async def readings(
    read: Read,
    signals: Signals,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    is_over: Callable[[dict[str, Any]], bool] = is_final,
) -> AsyncGenerator[dict[str, Any], None]:
    """Yield an operation each time it was read, as it travels, until it is over.

    Args:
        read: Reads the operation.
        signals: The signals of its tenant, given a function that is called when a stream opens or ends.
        pause: Waits so many seconds between a signal and the reading, so that signals close together cause only one.
        is_over: Whether a reading is the last one.

    Raises:
        FrostError: It could not be read.
    """
    came = asyncio.Event()
    open_stream = False

    def listening(now: bool) -> None:
        nonlocal open_stream
        open_stream = now

    async def listen() -> None:
        with suppress(FrostError):  # reading now and then goes on without signals
            async for _ in signals(listening):
                came.set()
        listening(False)

    listener = asyncio.create_task(listen())
    try:
        while True:
            operation = await read()
            yield operation
            if is_over(operation):
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(REREAD_SECONDS if open_stream else POLL_SECONDS):
                    await came.wait()
            await pause(COALESCE_SECONDS)
            came.clear()
    finally:
        listener.cancel()
        await asyncio.wait([listener])


def wait(
    link: Link,
    tenant_id: str,
    run_id: str,
    told: Told,
    *,
    lost: Lost = lambda _: None,
    on_reply: OnReply | None = None,
    is_over: Callable[[dict[str, Any]], bool] = is_final,
) -> dict[str, Any]:
    """Block until an operation is over; the operation as it travels.

    Args:
        link: The context to work for.
        tenant_id: The tenant of the operation.
        run_id: Its run, which stays itself when another one of the same operation id begins.
        told: Called with every reading.
        lost: Called when the platform is out of reach. Waiting goes on for five minutes: it may be starting again.
        on_reply: Called after every exchange (`-d`).
        is_over: Whether a reading ends the wait.

    Raises:
        FrostError: It cannot be read.
        KeyboardInterrupt: Somebody does not want to wait any longer; the operation goes on.
    """
    gc.enable()  # what lasts for hours must clean up after itself, where a command's entry point has switched it off
    return _until_interrupted(_waited(link, tenant_id, run_id, told, lost, on_reply, is_over))


def _until_interrupted(work: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    """Run to the end or to the first Ctrl-C, or what counts as it; those behind it change nothing. In the main thread.

    `asyncio.run` raises the second one wherever its loop stands, which may lose what was to be run next: then it waits
    without end for a task that nothing wakes. And it waits for a name that is still being looked up in a thread.
    """
    left = False
    task: asyncio.Task[dict[str, Any]] | None = None

    def leave(number: int, frame: FrameType | None) -> None:
        nonlocal left
        if not left and task is not None:
            task.cancel()
            loop.call_soon_threadsafe(lambda: None)  # it may stand still until something happens
        left = True

    former = {number: handler for number in _ENDINGS if callable(handler := signal.getsignal(number))}
    for number in former:  # the others are ignored (nohup), or end the program
        signal.signal(number, leave)
    loop = asyncio.new_event_loop()
    try:
        task = loop.create_task(work)
        if left:
            task.cancel()
        return loop.run_until_complete(task)
    except asyncio.CancelledError:
        if not left:
            raise
        raise KeyboardInterrupt from None
    finally:
        loop.close()
        for number, handler in former.items():
            signal.signal(number, handler)


def unless_cancelled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report what a callback failed with, except an answer to a question nobody waits for any more.

    anyio hands a socket's readiness to a bare future; when the request was cancelled in the same turn of the loop,
    setting it fails, and the traceback stood on the terminal after the end.
    """
    if not isinstance(context.get("exception"), asyncio.InvalidStateError):
        loop.default_exception_handler(context)


async def _waited(
    link: Link,
    tenant_id: str,
    run_id: str,
    told: Told,
    lost: Lost,
    on_reply: OnReply | None,
    is_over: Callable[[dict[str, Any]], bool],
) -> dict[str, Any]:
    from client.events import signals
    from client.http import Http

    asyncio.get_running_loop().set_exception_handler(unless_cancelled)
    http = Http(link, on_reply=on_reply)

    async def read() -> dict[str, Any]:
        found: dict[str, Any] = await http.call(operations.get(tenant_id, run_id))
        return found

    operation: dict[str, Any] = {}
    try:
        found = readings(patient(read, lost), lambda listening: signals(http, tenant_id, listening), is_over=is_over)
        async with aclosing(found):
            async for operation in found:
                told(operation)
    finally:
        await http.aclose()
    return operation


def patient(read: Read, lost: Lost) -> Read:
    """The same reading, tried again for a while when there is no answer."""

    async def reading() -> dict[str, Any]:
        begun = asyncio.get_running_loop().time()
        while True:
            try:
                return await read()
            except FrostError as error:
                late = asyncio.get_running_loop().time() - begun > LOST_SECONDS
                if late or error.exit_code is not Exit.UNREACHABLE:
                    raise
                lost(error)
            await asyncio.sleep(POLL_SECONDS)

    return reading
