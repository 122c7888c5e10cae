"""Accepts connections in batches. uvloop's own server accepts one for each turn of the event loop: during a flood a
health check would wait in the backlog behind all connections of the flood.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress

from service.http_server.admission import LOCAL, Admission, Source
from service.http_server.protocol import HEALTH, TOO_MANY_CONNECTIONS, HttpProtocol, refusal_bytes

logger = logging.getLogger(__name__)

MAX_AT_ONCE = 64
# Without free descriptors accepting fails again at once.
PAUSE_SECONDS = 0.1
# Connections beyond a limit that wait for their first bytes or for their refusal.
MAX_HELD = 512
SILENT_SECONDS = 2.0
REFUSAL_SECONDS = 1.0
HEALTH_LINES = tuple(f"{method} {path} ".encode() for method in ("GET", "HEAD") for path in HEALTH)
LONGEST_LINE = max(map(len, HEALTH_LINES))
# What a refused client has sent is read, as far as it has arrived: closing with unread data resets the connection.
DISCARDED_BYTES = 64 * 1024


class Listener:
    """Accepts the connections of one listening socket, with the interface of `asyncio.Server` that uvicorn uses."""

    def __init__(
        self, listening: socket.socket, create_protocol: Callable[[], HttpProtocol], admission: Admission
    ) -> None:
        self._socket = listening
        self._create_protocol = create_protocol
        self._admission = admission
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[object]] = set()
        self._held: dict[socket.socket, asyncio.TimerHandle] = {}
        self._silent: set[socket.socket] = set()
        self._local = listening.family == socket.AF_UNIX
        listening.setblocking(False)
        self._loop.add_reader(listening, self._accept)

    def close(self) -> None:
        self._loop.remove_reader(self._socket)
        for connection in list(self._held):
            self._refuse(connection)

    async def wait_closed(self) -> None:
        if self._connecting:
            await asyncio.wait(self._connecting)

    def _accept(self) -> None:
        for _ in range(MAX_AT_ONCE):
            try:
                connection, client = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                logger.error("no connection can be accepted: %s", error.strerror)
                self._loop.remove_reader(self._socket)
                self._loop.call_later(PAUSE_SECONDS, self._resume)
                return
            connection.setblocking(False)
            source = LOCAL if self._local else self._admission.source_of(client)
            if self._admission.connections.has_room_for(source):
                self._serve(connection, source)
            else:
                self._decide(connection, source)

    def _decide(self, connection: socket.socket, source: Source) -> None:
        """Serve a connection beyond a limit if it asks for health, else refuse it.

        Connections that have not sent anything are waited for. Refusals are held back a little, so that a flood that
        connects again at once costs less.
        """
        self._stop_waiting(connection)
        try:
            begin = connection.recv(LONGEST_LINE, socket.MSG_PEEK)
        except BlockingIOError:
            if len(self._held) < MAX_HELD:
                self._held[connection] = self._loop.call_later(SILENT_SECONDS, self._refuse, connection)
                self._loop.add_reader(connection, self._decide, connection, source)
                self._silent.add(connection)
                return
            begin = b""
        except OSError:
            begin = b""
        if begin.startswith(HEALTH_LINES) and self._admission.connections.has_room_for_health():
            self._serve(connection, source, only_health=True)
        elif begin and len(self._held) < MAX_HELD:
            self._held[connection] = self._loop.call_later(REFUSAL_SECONDS, self._refuse, connection)
        else:
            self._refuse(connection)

    def _stop_waiting(self, connection: socket.socket) -> None:
        if (timer := self._held.pop(connection, None)) is not None:
            timer.cancel()
        if connection in self._silent:
            self._silent.discard(connection)
            self._loop.remove_reader(connection)

    def _refuse(self, connection: socket.socket) -> None:
        self._stop_waiting(connection)
        self._admission.note_refusal("connections")
        refuse(connection)

    def _serve(self, connection: socket.socket, source: Source, *, only_health: bool = False) -> None:
        protocol = self._create_protocol()
        protocol.register(source, only_health=only_health)
        task = self._loop.create_task(self._connect(connection, protocol))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    def _resume(self) -> None:
        if self._socket.fileno() >= 0:
            self._loop.add_reader(self._socket, self._accept)

    async def _connect(self, connection: socket.socket, protocol: HttpProtocol) -> None:
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, connection)
        except BaseException as error:
            self._admission.connections.remove(protocol)
            connection.close()
            # An OSError: the connection was lost before it was used.
            if not isinstance(error, OSError):
                raise


def refuse(connection: socket.socket) -> None:
    """Answer 503 whatever is asked, and close."""
    with connection, suppress(OSError):
        with suppress(BlockingIOError):
            connection.recv(DISCARDED_BYTES)
        connection.send(refusal_bytes(*TOO_MANY_CONNECTIONS))
        connection.shutdown(socket.SHUT_WR)
