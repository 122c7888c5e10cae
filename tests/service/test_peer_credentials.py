"""The peer of the unix socket: Linux asks with SO_PEERCRED, macOS with LOCAL_PEERCRED."""

import os
import socket
import struct

import pytest

from service.http_server.protocol import peer_credentials


class MacSocket:
    """A stand-in for a connected unix socket on macOS, which the tests do not run on."""

    def __init__(self, uid: int) -> None:
        # struct xucred of <sys/ucred.h>: version, user id, number of groups, two bytes of padding, 16 groups.
        self.answer = struct.pack("=IIh2x16I", 0, uid, 1, *([20] + [0] * 15))

    def getsockopt(self, level: int, option: int, length: int) -> bytes:
        assert (level, option) == (0, 1), "SOL_LOCAL, LOCAL_PEERCRED"
        assert length == 76 == len(self.answer), "sizeof(struct xucred)"
        return self.answer


def test_linux_reads_the_peer_from_the_kernel() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        assert peer_credentials(ours) == (os.getuid(), os.getpid())


def test_macos_reads_the_user_id_and_reports_no_process_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "SO_PEERCRED")
    for uid in (501, 4294967294):
        assert peer_credentials(MacSocket(uid)) == (uid, 0)  # type: ignore[arg-type]
