"""The running service for tests of durable work and event streams: creates tenants and reads signals."""

import http.client
import json
import queue
import socket
import threading
import time
from typing import Any

from tests.api import UnixConnection
from tests.people import AURORA, OWNER
from tests.service.running import Running

PACE = "FROST_PLATFORM_PROVISIONING_PACE"


class Live(Running):
    """A platform on the demo world whose provisioning moves, with `pace` seconds a step."""

    def __init__(self, database_url: str | None, pace: float = 0.05) -> None:
        # The operations of the demo world are older than the retention.
        super().__init__(database_url, **{PACE: str(pace), "FROST_PLATFORM_OPERATION_RETENTION_DAYS": "0"})

    def read(self, path: str, token: str | None = None) -> Any:
        """The JSON of a read that must succeed; as staff without a token."""
        answer = self.request("GET", path, token=token)
        assert answer.status == 200, answer
        return answer.json()

    def owner(self) -> str:
        return self.sign_in(OWNER)

    def create_tenant(self, token: str, name: str) -> dict[str, Any]:
        answer = self.request(
            "POST", f"/api/v1/organizations/{AURORA}/tenants", token=token, body={"displayName": name}
        )
        assert answer.status == 201, answer
        return dict(answer.json())


class EventReader:
    """Reads an event stream in a thread, the way any client would. `events` ends with None when it has hung up."""

    def __init__(self, platform: Running, tenant_id: str, token: str = "", key: str = "") -> None:
        credential = {"X-API-Key": platform.key(key)} if key else {"Authorization": f"Bearer {token}"}
        self.connection = UnixConnection(platform.socket)
        self.connection.request(
            "GET", f"/api/v1/tenants/{tenant_id}/events", headers={"Accept": "text/event-stream", **credential}
        )
        self.answer = self.connection.getresponse()
        self.events: queue.Queue[tuple[str, dict[str, Any]] | None] = queue.Queue()
        self.reading = threading.Thread(target=self._read, daemon=True)
        if self.answer.status == 200:
            self.reading.start()

    def _read(self) -> None:
        name = ""
        try:
            for line in self.answer:
                text = line.decode().rstrip("\n")
                if text.startswith("event: "):
                    name = text.removeprefix("event: ")
                elif text.startswith("data: "):
                    self.events.put((name, json.loads(text.removeprefix("data: "))))
        except (OSError, http.client.HTTPException, ValueError):
            pass
        self.events.put(None)

    def next(self, seconds: float = 60) -> tuple[str, dict[str, Any]] | None:
        """The next event; None when the stream has ended. Raises queue.Empty when neither comes in time."""
        return self.events.get(timeout=seconds)

    def read_to_end(self, seconds: float = 60) -> None:
        """Read the events that are left. Raises queue.Empty if the stream does not end."""
        while self.next(seconds) is not None:
            pass

    def until(self, kind: str, seconds: float = 60) -> list[tuple[str, dict[str, Any]]]:
        """Everything up to and with the first signal of this type."""
        events = []
        end = time.monotonic() + seconds
        while True:
            event = self.next(max(0.01, end - time.monotonic()))
            assert event is not None, f"the stream ended before {kind}"
            events.append(event)
            if event[1].get("type") == kind:
                return events

    def close(self) -> None:
        """Close the connection without notice, as a killed client does."""
        self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.reading.join()
        self.connection.close()
