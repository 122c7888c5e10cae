"""Requests of the platform itself: to no private network, to one address, for a bounded time."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from service.authn import oidc_provider
from tests.client.certificates import Authority

NAME = "idp.example"


def resolved(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Resolve a name to each answer in turn, the last one from then on; return the names that were resolved."""
    names: list[str] = []
    getaddrinfo = socket.getaddrinfo

    def resolve(host: str, port: int, *more: Any, **others: Any) -> Any:
        if host != NAME:
            return getaddrinfo(host, port, *more, **others)
        names.append(host)
        families = {True: socket.AF_INET6, False: socket.AF_INET}
        addresses = answers[min(len(names), len(answers)) - 1]
        return [(families[":" in one], socket.SOCK_STREAM, 6, "", (one, port)) for one in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return names


@contextmanager
def serving(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection, suppress(OSError):
                        answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield int(listening.getsockname()[1])


@contextmanager
def serving_tls(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str) -> Iterator[int]:
    """A server with a certificate for a name that this process trusts; it returns a key set."""
    authority = Authority(folder)
    context = authority.server(name)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))

    def answer(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as tls:
            tls.recv(65536)
            tls.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\nConnection: close\r\n\r\n{"keys":[]}')

    with serving(answer) as port:
        yield port


PRIVATE = ("127.0.0.1", "::1", "10.0.0.5", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd00::1", "::ffff:10.0.0.1")
METADATA = ("169.254.169.254", "fe80::1", "0.0.0.0", "224.0.0.1")


def test_urls_of_a_document_are_fetched_from_public_addresses_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for address in (*PRIVATE, *METADATA, "192.0.2.1"):
        for answer in ([address], ["8.8.8.8", address]):
            require_refused(monkeypatch, answer, "sso.example")
    # The configured host may have a private address, but no address of metadata.
    for address in (*METADATA, "::ffff:169.254.169.254"):
        require_refused(monkeypatch, [address], NAME)
    resolved(monkeypatch, ["10.0.0.5"])
    assert oidc_provider.resolve_allowed(NAME, 443, trusted=True) == ["10.0.0.5"]


def require_refused(monkeypatch: pytest.MonkeyPatch, answer: list[str], trusted_host: str) -> None:
    resolved(monkeypatch, answer)
    with pytest.raises(ValueError, match="is not allowed"):
        oidc_provider.fetch(f"https://{NAME}/keys", trusted_host=trusted_host)


def test_a_name_is_resolved_once_and_the_checked_address_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A name that means another address a moment later (rebinding), over real TLS under the name of the host."""
    other = tmp_path / "other"
    other.mkdir()
    with serving_tls(monkeypatch, other, "other.example") as port:
        resolved(monkeypatch, ["127.0.0.1"])
        with pytest.raises(OSError, match="certificate"):
            oidc_provider.fetch(f"https://{NAME}:{port}/keys", trusted_host=NAME)
    with serving_tls(monkeypatch, tmp_path, NAME) as port:
        names = resolved(monkeypatch, ["127.0.0.1"], ["169.254.169.254"])
        assert oidc_provider.fetch(f"https://{NAME}:{port}/keys", trusted_host=NAME) == {"keys": []}
        assert names == [NAME]


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"])
def test_an_answer_of_a_byte_now_and_then_ends_in_bounded_time(head: bytes) -> None:
    drained = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(head)
        for _ in range(600):
            connection.sendall(b"a")
            time.sleep(0.05)
        drained.set()

    with serving(drip) as port, pytest.raises((ValueError, OSError)):
        oidc_provider.fetch(f"http://127.0.0.1:{port}/keys", trusted_host="127.0.0.1", timeout_seconds=0.3)
    assert not drained.is_set()


def test_a_name_that_is_not_resolved_in_time_ends_the_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()

    def resolve(*_: Any, **__: Any) -> Any:
        answered.wait(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    try:
        with pytest.raises(OSError, match="in time"):
            oidc_provider.fetch(f"https://{NAME}/keys", trusted_host=NAME, timeout_seconds=0.3)
        assert not answered.is_set()
    finally:
        answered.set()


def test_the_time_for_all_addresses_of_a_name_is_bounded_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def connect(address: object, timeout: float) -> socket.socket:
        given.append(timeout)
        time.sleep(min(timeout, 0.1))
        raise TimeoutError

    resolved(monkeypatch, [f"8.8.8.{number}" for number in range(10)])
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(OSError):
        oidc_provider.fetch(f"https://{NAME}/keys", trusted_host=NAME, timeout_seconds=0.25)
    assert all(timeout <= 0.25 for timeout in given)
    assert len(given) <= 3
