"""A relay in front of a platform's socket: counts the requests, and answers event streams with scripted signals."""

import queue
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.client.wire import Heard, Service
from tests.homes import Home
from tests.people import WEB_SHOP
from tests.tui.screens import Ui

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
RESYNC = b"event: resync\ndata: {}\n\n"
EVENTS = f"/api/v1/tenants/{WEB_SHOP}/events"


def signal(resource_type: str) -> bytes:
    return b'event: resource\ndata: {"type":"%s.updated","resourceType":"%s"}\n\n' % ((resource_type.encode(),) * 2)


class Relay:
    """Passes requests on to the platform, and answers event streams with `signals` until one is None.

    A keepalive, in silence, notices that the client has closed the stream. The platform sends one in 15 seconds.
    """

    def __init__(self, home: Home, keepalive_seconds: float = 0.1) -> None:
        self.signals: queue.Queue[bytes | None] = queue.Queue()
        self.held = ""
        """The path whose answers wait for `release`."""
        self.release = threading.Event()
        self.open: Counter[str] = Counter()
        self.opened: Counter[str] = Counter()
        self._keepalive_seconds = keepalive_seconds
        self._home, self._platform = home, home.platform_dir / "behind.sock"
        self._service = Service(self._answer)
        home.socket.rename(self._platform)
        Path(str(self._service.endpoint.path)).rename(home.socket)

    def close(self) -> None:
        self._platform.rename(self._home.socket)
        self._service.__exit__()

    @property
    def requests(self) -> list[str]:
        """The paths of all requests but those for event streams."""
        targets = [heard.target.partition("?")[0] for heard in tuple(self._service.heard)]
        return [target for target in targets if not target.endswith("/events")]

    def _answer(self, heard: Heard) -> Iterable[bytes]:
        return self._events(heard.target) if heard.target.endswith("/events") else self._response(heard)

    def _events(self, target: str) -> Iterator[bytes]:
        self.opened[target] += 1
        self.open[target] += 1
        try:
            yield HEAD + RESYNC  # as the platform does
            while True:
                try:
                    text = self.signals.get(timeout=self._keepalive_seconds) if target == EVENTS else b": keepalive\n\n"
                except queue.Empty:
                    text = b": keepalive\n\n"
                if text is None:
                    return
                if target != EVENTS:
                    time.sleep(self._keepalive_seconds)
                yield text  # fails after the client has closed the stream
        finally:
            self.open[target] -= 1

    def _response(self, heard: Heard) -> Iterator[bytes]:
        if heard.target.partition("?")[0] == self.held:
            self.release.wait(60)
        head, _, _ = heard.raw.partition(b"\r\n\r\n")
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        with socket.socket(socket.AF_UNIX) as platform:
            platform.connect(str(self._platform))
            platform.sendall(b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + heard.body)
            while piece := platform.recv(65536):
                yield piece


async def settle(ui: Ui, relay: Relay) -> None:
    """Wait until the screens have read everything after the `resync` of the new stream."""
    await ui.until(lambda: relay.open[EVENTS] == 1, "the stream of the tenant")
    before = -1
    while before != (before := len(relay.requests)):
        await ui.pilot.pause(1.5)


def start_apply(home: Home, tenant: str) -> str:
    answer = home.request("POST", f"/api/v1/tenants/{tenant}/default-tags/apply", token=home.token(), body={})
    assert answer.status == 202, answer
    return str(answer.json()["runId"])
