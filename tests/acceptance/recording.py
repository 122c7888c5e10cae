"""Something between the command and the real platform that writes down what reaches it."""

import shutil
import socket
import tempfile
import threading
from pathlib import Path

from tests.client.wire import Heard, read_request


class Recorder:
    """A unix socket in front of another one; `heard` is every request that came, answered by the real platform."""

    def __init__(self, platform: Path) -> None:
        self.heard: list[Heard] = []
        self._platform = platform
        self._folder = tempfile.mkdtemp(prefix="rec")
        self.path = Path(self._folder) / "api.sock"
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self.path))
        self._listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        shutil.rmtree(self._folder)

    def sent(self) -> list[str]:
        """`POST /api/v1/…` of each request that may change something."""
        return [f"{one.method} {one.target}" for one in self.heard if one.method != "GET"]

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(peer,), daemon=True).start()

    def _pass_on(self, peer: socket.socket) -> None:
        with peer, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as platform:
            heard = read_request(peer)
            if heard is None:
                return
            self.heard.append(heard)
            platform.connect(str(self._platform))
            body_so_far = heard.raw.partition(b"\r\n\r\n")[2]
            platform.sendall(heard.raw + heard.body[len(body_so_far) :])
            while piece := platform.recv(65536):
                peer.sendall(piece)
