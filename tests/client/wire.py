"""A service on a real socket with scripted responses, byte for byte, and a record of its requests."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from client.auth.credential_store import Credential as Stored
from client.errors import SESSION_ENDED, Exit, FrostError
from client.transport.async_client import AsyncClient
from client.transport.blocking_client import BlockingClient
from client.transport.call import Call, Credential
from client.transport.endpoint import Endpoint
from client.transport.exchange import RequestLogEntry, Timing

Answer = bytes | Callable[["Heard"], Iterable[bytes]] | None
"""Bytes to send; or what yields them; None hangs up without a word."""

DRIVERS = ("blocking", "async")


KEY = Stored("api_key", "fmk_" + "a" * 36)


class Heard(NamedTuple):
    """A request as it came over the wire."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    raw: bytes


def answer(status: int, document: Any = None, **headers: str) -> bytes:
    """An HTTP answer; a dict is sent as JSON, bytes as they are."""
    body = document if isinstance(document, bytes) else b"" if document is None else json.dumps(document).encode()
    lines = {"Content-Type": "application/json", "Content-Length": str(len(body)), "X-Request-Id": "req-12345678"}
    lines.update({name.replace("_", "-"): value for name, value in headers.items()})
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} Text\r\n{head}Connection: close\r\n\r\n".encode("latin-1") + body


class Service:
    """Answers connection after connection with the next answer; the last one goes on for ever."""

    def __init__(self, *answers: Answer, tls: ssl.SSLContext | None = None, kind: str = "unix") -> None:
        self.answers = list(answers)
        self.heard: list[Heard] = []
        self.connections = 0
        self._tls = tls
        self._folder = tempfile.mkdtemp(prefix="wire") if kind == "unix" else ""
        family = socket.AF_UNIX if kind == "unix" else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        self._listener.bind(f"{self._folder}/api.sock" if kind == "unix" else ("127.0.0.1", 0))
        self._listener.listen(16)
        self._stopped = False
        if kind == "unix":
            self.endpoint = Endpoint.parse(f"unix:{self._listener.getsockname()}")
            self.port = 0
        else:
            self.port = self._listener.getsockname()[1]
            self.endpoint = Endpoint.parse(f"{'https' if tls else 'http'}://127.0.0.1:{self.port}")
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        self._listener.close()
        if self._folder:
            shutil.rmtree(self._folder)

    def _accept(self) -> None:
        while not self._stopped:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        try:
            with self._tls.wrap_socket(peer, server_side=True) if self._tls else peer as stream:
                heard = read_request(stream)
                if heard is None:
                    return
                self.heard.append(heard)
                given = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                pieces = given(heard) if callable(given) else [given or b""]
                for piece in pieces:
                    stream.sendall(piece)
        except OSError:
            return  # the client closed the connection first, as many of these tests intend


def read_request(stream: socket.socket) -> Heard | None:
    """One request from a stream; None when the peer hung up."""
    raw = b""
    while b"\r\n\r\n" not in raw:
        piece = stream.recv(65536)
        if not piece:
            return None
        raw += piece
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += stream.recv(65536)
    return Heard(method, target, headers, body, raw)


@dataclass
class Context:
    """A link to an endpoint with the credential in memory; `refreshes` are given out one after the other."""

    endpoint: Endpoint
    signing: Stored = KEY
    refreshes: list[Stored | FrostError] = field(default_factory=list)
    environ: Mapping[str, str] = field(default_factory=dict)
    refreshed: int = 0
    started: int = 0
    starter: Callable[[], bool] = lambda: False

    def credential(self) -> Credential:
        return self.signing

    def refresh(self, used: Credential) -> Credential:
        self.refreshed += 1
        fresh = self.refreshes.pop(0)
        if isinstance(fresh, FrostError):
            raise fresh
        return fresh

    def start(self) -> bool:
        self.started += 1
        return self.starter()


def session(secret: str = "access-token-one", expires_at: int = 0) -> Stored:
    """A session credential."""
    return Stored("session", secret, "refresh-token", expires_at, "file")


def over() -> FrostError:
    """What refreshing a dead session gives."""
    return FrostError("the session is over", code=SESSION_ENDED, hint="frost login", exit_code=Exit.NOT_SIGNED_IN)


def ask(
    driver: str,
    link: Context,
    call: Call[Any],
    log: list[RequestLogEntry] | None = None,
    timing: Timing = Timing(),
) -> Any:
    """The call's answer through one of the two drivers."""
    on_reply = log.append if log is not None else None
    if driver == "blocking":
        return BlockingClient(link, on_reply=on_reply, timing=timing).ask_json(call)

    async def through_http() -> Any:
        async with AsyncClient(link, on_reply=on_reply, timing=timing) as http:
            return await http.ask_json(call)

    return asyncio.run(through_http())


def dripping(text: bytes, seconds: float) -> Callable[[Heard], Iterable[bytes]]:
    """One byte at a time."""

    def pieces(_: Heard) -> Iterable[bytes]:
        for at in range(len(text)):
            yield text[at : at + 1]
            time.sleep(seconds)

    return pieces


@dataclass
class Quick:
    """A fake clock for the waits of both drivers: remembers them and does not wait."""

    waits: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def sleep_async(self, seconds: float) -> None:
        self.waits.append(seconds)
