"""Accepts connections in batches.

uvloop accepts a single connection per iteration of the event loop, which delays health checks during a flood.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress

from service.http_server.admission import RESERVED_METHODS, RESERVED_PATHS, Admission
from service.http_server.connections import LOCAL, Source
from service.http_server.protocol import TOO_MANY_CONNECTIONS, HttpProtocol, error_response_bytes

logger = logging.getLogger(__name__)

MAX_ACCEPTS = 16
"""In an iteration of the event loop, in which other requests wait."""
# Before accepting again after an error, such as too many open files.
PAUSE_SECONDS = 0.1
# Connections beyond the limits that wait for data or for their rejection.
MAX_DELAYED = 512
MAX_SILENT_SECONDS = 2.0
REJECTION_DELAY_SECONDS = 1.0
RESERVED_LINES = tuple(f"{method} {path} ".encode() for method in RESERVED_METHODS for path in RESERVED_PATHS)
MAX_LINE_BYTES = max(map(len, RESERVED_LINES))
# Closing with unread data would reset the connection.
MAX_DISCARDED_BYTES = 64 * 1024


class Listener:
    """Implements the part of `asyncio.Server` that uvicorn uses."""

    def __init__(
        self, listening: socket.socket, create_protocol: Callable[[], HttpProtocol], admission: Admission
    ) -> None:
        self._socket = listening
        self._create_protocol = create_protocol
        self._admission = admission
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[object]] = set()
        self._delayed: dict[socket.socket, asyncio.TimerHandle] = {}
        self._silent: set[socket.socket] = set()
        self._local = listening.family == socket.AF_UNIX
        listening.setblocking(False)
        self._loop.add_reader(listening, self._accept)

    def close(self) -> None:
        self._loop.remove_reader(self._socket)
        for connection in list(self._delayed):
            self._reject(connection)

    async def wait_closed(self) -> None:
        if self._connecting:
            await asyncio.wait(self._connecting)

    def _accept(self) -> None:
        for _ in range(MAX_ACCEPTS):
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
                self._serve_reserved_or_reject(connection, source)

    def _serve_reserved_or_reject(self, connection: socket.socket, source: Source) -> None:
        """Serve health, discovery and sign-in beyond the connection limits; reject other requests.

        The delay of rejections slows clients that reconnect immediately.
        """
        self._stop_waiting(connection)
        try:
            start = connection.recv(MAX_LINE_BYTES, socket.MSG_PEEK)
        except BlockingIOError:
            if len(self._delayed) < MAX_DELAYED:
                self._delayed[connection] = self._loop.call_later(MAX_SILENT_SECONDS, self._reject, connection)
                self._loop.add_reader(connection, self._serve_reserved_or_reject, connection, source)
                self._silent.add(connection)
                return
            start = b""
        except OSError:
            start = b""
        if start.startswith(RESERVED_LINES) and self._admission.connections.has_reserved_room_for(source):
            self._serve(connection, source, only_reserved=True)
        elif start and len(self._delayed) < MAX_DELAYED:
            self._delayed[connection] = self._loop.call_later(REJECTION_DELAY_SECONDS, self._reject, connection)
        else:
            self._reject(connection)

    def _stop_waiting(self, connection: socket.socket) -> None:
        if (timer := self._delayed.pop(connection, None)) is not None:
            timer.cancel()
        if connection in self._silent:
            self._silent.discard(connection)
            self._loop.remove_reader(connection)

    def _reject(self, connection: socket.socket) -> None:
        self._stop_waiting(connection)
        self._admission.rejections.record("connections")
        reject(connection)

    def _serve(self, connection: socket.socket, source: Source, *, only_reserved: bool = False) -> None:
        protocol = self._create_protocol()
        protocol.register(source, only_reserved=only_reserved)
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
            # OSError: the client has disconnected.
            if not isinstance(error, OSError):
                raise


def reject(connection: socket.socket) -> None:
    with connection, suppress(OSError):
        with suppress(BlockingIOError):
            connection.recv(MAX_DISCARDED_BYTES)
        connection.send(error_response_bytes(*TOO_MANY_CONNECTIONS))
        connection.shutdown(socket.SHUT_WR)
