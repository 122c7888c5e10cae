"""Both drivers against real sockets: one table of rules, driven twice."""

import asyncio
import gzip
import json
import os
import socket
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from client.api import account, platform, tenants
from client.auth import oidc
from client.auth.credential_store import Credential as Stored
from client.errors import Exit, FrostError
from client.transport.async_client import AsyncClient
from client.transport.blocking_client import fetch
from client.transport.call import Call
from client.transport.endpoint import Endpoint
from client.transport.exchange import RequestLogEntry, Timing
from tests.client.certificates import Authority
from tests.client.wire import KEY as STORED_KEY
from tests.client.wire import Context, Heard, Quick, Service, answer, ask, dripping, over, read_request, session

ME = {"id": "u-1", "tenantId": "t-1", "email": "owner@aurora.example", "name": "Owner", "future": {"unknown": 1}}
TENANT = {"id": "t-1", "displayName": "A", "status": "provisioning"}
UNAUTHENTICATED = {"error": {"code": "AUTHENTICATION_REQUIRED", "message": "authentication required"}}


def failure(driver: str, link: Context, call: Call[object], timing: Timing = Timing()) -> FrostError:
    with pytest.raises(FrostError) as caught:
        ask(driver, link, call, timing=timing)
    return caught.value


def test_a_read_carries_one_credential_and_its_headers(driver: str) -> None:
    with Service(answer(200, ME)) as service:
        assert ask(driver, Context(service.endpoint), account.me()) == ME
        ask(driver, Context(service.endpoint, session()), account.me())
    by_key, by_session = service.heard
    assert (by_key.method, by_key.target) == ("GET", "/api/v1/me")
    assert by_key.headers["x-api-key"] == STORED_KEY.secret
    assert by_key.headers["accept"] == "application/json"
    assert by_key.headers["accept-encoding"] == "identity"
    assert by_key.headers["user-agent"].startswith("frost/")
    assert by_key.headers["host"] == "localhost"
    assert not {"authorization", "content-type"} & set(by_key.headers)
    assert by_session.headers["authorization"] == "Bearer access-token-one"
    assert "x-api-key" not in by_session.headers


def test_loopback_over_tcp_is_reached_and_a_body_arrives_whole(driver: str) -> None:
    tenant = {"id": "t-1", "displayName": "Ünï\u2028ted", "status": "provisioning"}
    with Service(answer(201, tenant), kind="tcp") as service:
        assert ask(driver, Context(service.endpoint), tenants.create("o-1", "Ünï\u2028ted")) == tenant
    heard = service.heard[0]
    assert (heard.method, heard.target) == ("POST", "/api/v1/organizations/o-1/tenants")
    assert heard.body == '{"displayName":"Ünï\u2028ted"}'.encode()
    assert heard.headers["content-type"] == "application/json"
    assert heard.headers["host"] == f"127.0.0.1:{service.port}"
    assert len(heard.headers["idempotency-key"]) == 32


def test_an_answer_is_read_in_chunks_without_content_and_with_the_error_of_an_operation(driver: str) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    operation = {"operationId": "op", "status": "some-new-status", "error": "the backend failed"}
    for text, call, expected in (
        (chunked + b'6\r\n{"id":\r\n5\r\n"u1"}\r\n0\r\n\r\n', account.me(), {"id": "u1"}),
        (answer(204), account.end_session(), None),
        (answer(200, operation), tenants.operation("t", "op"), operation),
    ):
        with Service(text) as service:
            assert ask(driver, Context(service.endpoint, session()), call) == expected


def test_a_session_is_refreshed_before_its_end_or_once_after_a_401(driver: str) -> None:
    with Service(answer(200, ME)) as service:
        ask(driver, Context(service.endpoint, session("old", int(time.time()) + 50), [session("new")]), account.me())
    assert [heard.headers["authorization"] for heard in service.heard] == ["Bearer new"]
    with Service(answer(401, UNAUTHENTICATED), answer(200, ME)) as service:
        assert ask(driver, Context(service.endpoint, session("old"), [session("new")]), account.me()) == ME
    assert [heard.headers["authorization"] for heard in service.heard] == ["Bearer old", "Bearer new"]


BROKEN = FrostError("identity provider down", code="UNREACHABLE", exit_code=Exit.UNREACHABLE)


@pytest.mark.parametrize(
    ("signing", "refreshes", "requests", "refreshed", "code"),
    [
        (session("old"), [session("new"), session("newer")], 2, 1, "AUTHENTICATION_REQUIRED"),
        (session("old", int(time.time())), [session("new"), session("newer")], 1, 1, "AUTHENTICATION_REQUIRED"),
        (session(), [over()], 1, 1, "SESSION_ENDED"),
        (session(), [BROKEN], 1, 1, "AUTHENTICATION_REQUIRED"),
        (STORED_KEY, [], 1, 0, "AUTHENTICATION_REQUIRED"),
    ],
    ids=["second 401", "refreshed before", "session over", "refresh fails", "key"],
)
def test_a_401_is_final(
    driver: str, signing: Stored, refreshes: list[Stored | FrostError], requests: int, refreshed: int, code: str
) -> None:
    with Service(answer(401, UNAUTHENTICATED)) as service:
        link = Context(service.endpoint, signing, list(refreshes))
        error = failure(driver, link, account.me())
    assert (len(service.heard), link.refreshed) == (requests, refreshed)
    assert (error.exit_code, error.code) == (Exit.NOT_SIGNED_IN, code)
    assert signing.kind == "api_key" or "frost login" in error.hint


def test_a_damaged_secret_never_reaches_the_wire(driver: str) -> None:
    with Service(answer(200, ME)) as service:
        link = Context(service.endpoint, session("token\r\nX-Evil: 1"))
        error = failure(driver, link, account.me())
    assert error.code == "CREDENTIAL_DAMAGED"
    assert "token" not in error.message
    assert service.heard == []


DOWN = answer(503, {"error": {"code": "SERVICE_UNAVAILABLE", "message": "later"}})
LIMITED = {"error": "rate limit exceeded"}
CAP = {"code": "rate_limited", "message": "cap reached", "details": {"cap": "daily", "retryAfterSeconds": 5}}


def test_a_read_waits_as_long_as_the_platform_asks(driver: str, quick: Quick) -> None:
    limited = answer(429, {**LIMITED, "message": "Too many requests.", "retry_after": 7})
    answers = [answer(503, b"", Retry_After="1"), limited, answer(429, b"", Retry_After="9"), answer(200, ME)]
    log: list[RequestLogEntry] = []
    with Service(*answers) as service:
        assert ask(driver, Context(service.endpoint), account.me(), log) == ME
    assert quick.waits == [1, 7, 9]
    assert "rate limit" in log[3].line()
    assert [entry.attempt for entry in log if entry.status] == [1, 2, 3, 4]


def test_reads_and_creates_are_tried_again_after_torn_connections_and_502_503_504(driver: str, quick: Quick) -> None:
    with Service(None, answer(502, b""), DOWN, answer(200, ME)) as service:
        assert ask(driver, Context(service.endpoint), account.me()) == ME
    assert len(service.heard) == 4
    assert quick.waits == sorted(quick.waits)
    with Service(None, answer(504, b""), answer(201, TENANT)) as service:
        ask(driver, Context(service.endpoint), tenants.create("o-1", "A"))
    assert len(service.heard) == 3
    assert len({heard.headers["idempotency-key"] for heard in service.heard}) == 1


@pytest.mark.parametrize(
    ("refusal", "call", "tries", "waits", "code"),
    [
        (answer(503, b""), account.me(), 5, None, "ERROR"),
        (answer(503, b"", Retry_After="60"), account.me(), 1, [], "ERROR"),
        (None, tenants.rename("t-1", "B"), 1, [], "UNREACHABLE"),
        (answer(503, b""), tenants.rename("t-1", "B"), 1, [], "ERROR"),
        (answer(429, {**LIMITED, "retry_after": 120}), account.me(), 6, [30, 30, 30, 30, 30], "RATE_LIMITED"),
        (answer(429, {**LIMITED, "retry_after": -1}, Retry_After="soon"), account.me(), 6, [2, 4, 8, 16, 30], None),
        (answer(429, CAP), account.me(), 1, [], "rate_limited"),
    ],
    ids=["tries end", "a later time", "torn write", "refused write", "limit", "limit without a time", "cap"],
)
def test_trying_again_ends(
    driver: str,
    quick: Quick,
    refusal: bytes | None,
    call: Call[object],
    tries: int,
    waits: list[float] | None,
    code: str | None,
) -> None:
    with Service(refusal) as service:
        error = failure(driver, Context(service.endpoint), call)
    assert len(service.heard) == tries
    assert waits is None or quick.waits == waits
    assert code is None or error.code == code
    assert code != "RATE_LIMITED" or error.hint == "try again in 120 seconds"
    if code in ("ERROR", "UNREACHABLE"):
        assert error.exit_code == Exit.UNREACHABLE


@pytest.mark.parametrize(
    ("status", "document", "header", "hint"),
    [
        (429, {**LIMITED, "retry_after": 121}, "", "try again in 3 minutes"),
        (429, {**LIMITED, "message": "Too many requests."}, "3600", "try again in 60 minutes"),
        (429, {"error": {"code": "TRIES", "message": "no", "hint": "wait"}}, "7201", "try again in 3 hours"),
        (429, {"error": {"code": "TRIES", "message": "no", "details": {"retryAfterSeconds": 1e400}}}, "", "3650 days"),
        (429, {}, "9" * 40, "3650 days"),
        (503, {"error": {"code": "OVERLOADED", "message": "too many"}}, "600", "try again in 10 minutes"),
        (503, {"error": {"code": "OVERLOADED", "message": "too many"}}, "40", "try again in 40 seconds"),
    ],
)
def test_a_hint_names_a_wait_that_is_too_long_for_the_client(
    driver: str, quick: Quick, status: int, document: dict[str, object], header: str, hint: str
) -> None:
    body = json.dumps(document).replace("Infinity", "1e400").encode()
    with Service(answer(status, body, **({"Retry_After": header} if header else {}))) as service:
        error = failure(driver, Context(service.endpoint), account.me())
    assert (len(service.heard), quick.waits) == (1, [])
    assert hint in error.hint


def test_an_endpoint_that_refuses_connections_is_exit_7_and_named(driver: str, quick: Quick) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        endpoint = Endpoint.parse(f"http://127.0.0.1:{taken.getsockname()[1]}")
        error = failure(driver, Context(endpoint), account.me())
    assert error.exit_code == Exit.UNREACHABLE
    assert str(endpoint.port) in error.message


def test_a_socket_without_a_listener_asks_for_a_start_once_and_goes_on(driver: str, tmp_path: Path) -> None:
    service = Service(answer(201, {"id": "t", "displayName": "A", "status": "active"}))
    path = tmp_path / "api.sock"
    link = Context(Endpoint.parse(f"unix:{path}"))

    def start() -> bool:
        path.symlink_to(service.endpoint.path)
        return True

    link.starter = start
    with service:
        ask(driver, link, tenants.rename("t-1", "A"))
    assert (link.started, len(service.heard)) == (1, 1)


def test_a_dead_socket_is_exit_7_and_a_file_is_refused(driver: str, tmp_path: Path, quick: Quick) -> None:
    path, file = tmp_path / "api.sock", tmp_path / "file"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    error = failure(driver, Context(Endpoint.parse(f"unix:{path}")), platform.status())
    assert (error.exit_code, error.code) == (Exit.UNREACHABLE, "NOT_LISTENING")
    assert "frost platform status" in error.hint
    file.write_text("")
    assert failure(driver, Context(Endpoint.parse(f"unix:{file}")), account.me()).code == "ENDPOINT_REFUSED"


def test_a_socket_of_another_user_gets_no_credential(driver: str) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a socket away")
    with Service(answer(200, ME)) as service:
        os.chown(service.endpoint.path, 12345, -1)
        error = failure(driver, Context(service.endpoint), account.me())
    assert (error.code, service.connections) == ("ENDPOINT_REFUSED", 0)
    assert "belongs to another user" in error.message


@pytest.mark.parametrize("linked", [False, True])
def test_a_socket_in_a_shared_folder_gets_no_credential(driver: str, tmp_path: Path, linked: bool) -> None:
    with Service(answer(200, ME)) as service:
        folder = Path(service.endpoint.path).parent
        path = service.endpoint.path
        if linked:
            path = str(tmp_path / "api.sock")
            Path(path).symlink_to(service.endpoint.path)
        folder.chmod(0o777)
        error = failure(driver, Context(Endpoint.parse(f"unix:{path}")), account.me())
        assert (error.code, service.connections) == ("ENDPOINT_REFUSED", 0)
        folder.chmod(0o1777)  # as /tmp: only the owner of a name may exchange it
        assert ask(driver, Context(Endpoint.parse(f"unix:{path}")), account.me())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(driver: str, status: int) -> None:
    with Service(answer(200, ME), kind="tcp") as other, Service(b"", kind="tcp") as service:
        for location in (f"http://127.0.0.1:{other.port}/api/v1/me", "/api/v1/elsewhere"):
            service.answers = [answer(status, b"", Location=location)]
            error = failure(driver, Context(service.endpoint), tenants.rename("t-1", "Name"))
            assert error.code == "REDIRECT_REFUSED"
            assert location.startswith("/") or f"127.0.0.1:{other.port}" in error.message
        time.sleep(0.05)
    assert (other.connections, len(service.heard)) == (0, 2)


def test_no_credential_goes_over_plain_http_to_another_machine(driver: str) -> None:
    error = failure(driver, Context(Endpoint("http", "192.0.2.1", 80, "/api")), account.me())
    assert (error.code, error.exit_code) == ("ENDPOINT_REFUSED", Exit.USAGE)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("a page", answer(200, b"<html>sign in</html>", Content_Type="text/html")),
        ("a page called json", answer(200, b"<html>sign in</html>")),
        ("json called text", answer(200, b'{"id":"u"}', Content_Type="text/plain")),
        ("torn json", answer(200, b'{"id":"u-1","na')),
        ("nothing", answer(200, b"")),
        ("an error in the body", answer(200, {"id": "u", "error": {"code": "INTERNAL", "message": "no"}})),
        ("another record", answer(200, {"status": "ok"})),
        ("an array", answer(200, [ME])),
        ("no list", answer(200, {"tenants": None})),
        ("nothing for a list", answer(204)),
        ("NaN", answer(200, b'{"id":NaN}')),
        ("deep", answer(200, b'{"id":' + b"[" * 100_000)),
        ("compressed", answer(200, ME, Content_Encoding="gzip")),
        ("partial content without end", answer(206, b"<")),
    ],
)
def test_an_answer_is_not_believed_when_it_is(driver: str, name: str, given: bytes) -> None:
    call = tenants.list_all() if "list" in name else account.me()
    with Service(given) as service:
        error = failure(driver, Context(service.endpoint), call)
    assert (error.code, error.exit_code) == ("BAD_ANSWER", Exit.REFUSED)


def test_an_answer_shorter_than_announced_is_torn(driver: str, quick: Quick) -> None:
    with Service(JSON_HEAD + b'Content-Length: 99\r\n\r\n{"id":"u"}') as service:
        assert failure(driver, Context(service.endpoint), account.me()).exit_code == Exit.UNREACHABLE


def endless(head: bytes, piece: bytes) -> object:
    def pieces(_: Heard) -> Iterable[bytes]:
        yield head
        while True:
            yield piece

    return pieces


JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "given",
    [
        endless(JSON_HEAD + b"Content-Length: 10000000000\r\n\r\n", b" " * 2**20),
        endless(JSON_HEAD + b"\r\n", b" " * 2**20),
        endless(JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"100000\r\n" + b" " * 2**20 + b"\r\n"),
        endless(JSON_HEAD + b"X-Endless: ", b"a" * 2**16),
        endless(JSON_HEAD, b"X-More: a\r\n" * 1000),
    ],
    ids=["announced", "until the end", "chunked", "one header", "many headers"],
)
def test_an_endless_answer_is_ended_by_size(driver: str, quick: Quick, given: object) -> None:
    with Service(given) as service:  # type: ignore[arg-type]
        begun = time.monotonic()
        error = failure(driver, Context(service.endpoint), tenants.rename("t-1", "A"))
    assert error.exit_code == Exit.UNREACHABLE
    assert time.monotonic() - begun < 60


def test_an_announced_length_over_the_limit_and_a_compressed_bomb_are_refused_at_once(driver: str) -> None:
    def silent(_: Heard) -> Iterable[bytes]:
        yield JSON_HEAD + b"Content-Length: 10000000000\r\n\r\n"
        time.sleep(60)

    with Service(silent) as service:
        begun = time.monotonic()
        assert "64 MiB" in failure(driver, Context(service.endpoint), account.me()).message
        assert time.monotonic() - begun < 20
    bomb = gzip.compress(b" " * 100 * 2**20, compresslevel=1)
    with Service(answer(200, bomb, Content_Encoding="gzip")) as service:
        error = failure(driver, Context(service.endpoint), account.me())
    assert (error.code, "compressed" in error.message) == ("BAD_ANSWER", True)


@pytest.mark.parametrize("text", [answer(200, ME), b"HTTP/1.1 200 OK\r\nX: " + b"a" * 500, b"H" * 500])
def test_one_byte_now_and_then_is_ended_by_the_total_time(driver: str, text: bytes) -> None:
    with Service(dripping(text, 0.1)) as service:
        begun = time.monotonic()
        error = failure(driver, Context(service.endpoint), tenants.rename("t-1", "A"), Timing(total=0.6))
        assert time.monotonic() - begun < 20
    assert error.exit_code == Exit.UNREACHABLE
    assert "no response within" in error.message


def test_tls_holds_with_the_added_authority(driver: str, authority: Authority) -> None:
    with Service(answer(200, ME), tls=authority.server("127.0.0.1"), kind="tcp") as service:
        link = Context(service.endpoint, environ={"FROST_CA_FILE": str(authority.file)})
        assert ask(driver, link, account.me()) == ME


@pytest.mark.parametrize("fault", ["unknown authority", "self-signed", "expired", "wrong name"])
def test_a_certificate_is_refused_that_is(driver: str, authority: Authority, fault: str) -> None:
    tls = authority.server(
        "other.example" if fault == "wrong name" else "127.0.0.1",
        expired=fault == "expired",
        self_signed=fault == "self-signed",
    )
    environ = {} if fault == "unknown authority" else {"FROST_CA_FILE": str(authority.file)}
    with Service(answer(200, ME), tls=tls, kind="tcp") as service:
        error = failure(driver, Context(service.endpoint, environ=environ), account.me())
    assert error.exit_code == Exit.UNREACHABLE
    assert "certificate" in error.message
    assert (service.connections, service.heard) == (1, [])


class Tunnel:
    """A real http proxy that tunnels every CONNECT to one service."""

    def __init__(self, target: int) -> None:
        self.heard: list[Heard] = []
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        peer, _ = self._listener.accept()
        heard = read_request(peer)
        assert heard is not None
        self.heard.append(heard)
        peer.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        beyond = socket.create_connection(("127.0.0.1", self._target))
        threading.Thread(target=_pump, args=(peer, beyond), daemon=True).start()
        _pump(beyond, peer)


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while piece := source.recv(65536):
            target.sendall(piece)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


def test_an_https_endpoint_goes_through_the_proxy_which_sees_no_credential(driver: str, authority: Authority) -> None:
    with Service(answer(200, ME), tls=authority.server("api.frost.example"), kind="tcp") as service:
        tunnel = Tunnel(service.port)
        environ = {
            "FROST_CA_FILE": str(authority.file),
            "HTTPS_PROXY": f"http://me:pa%20ss@127.0.0.1:{tunnel.port}",
            "NO_PROXY": "other.example",
        }
        link = Context(Endpoint.parse("https://api.frost.example"), environ=environ)
        assert ask(driver, link, account.me()) == ME
    heard = tunnel.heard[0]
    assert (heard.method, heard.target) == ("CONNECT", "api.frost.example:443")
    assert heard.headers["proxy-authorization"] == "Basic bWU6cGEgc3M="
    assert STORED_KEY.secret.encode() not in heard.raw
    assert "proxy-authorization" not in service.heard[0].headers


@pytest.mark.parametrize("kind", ["unix", "tcp", "tls"])
def test_sockets_and_loopback_are_never_proxied(driver: str, authority: Authority, kind: str) -> None:
    environ = dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    environ["FROST_CA_FILE"] = str(authority.file)
    tls = authority.server("127.0.0.1") if kind == "tls" else None
    with Service(answer(200, ME), tls=tls, kind=kind) as service:
        assert ask(driver, Context(service.endpoint, environ=environ), account.me()) == ME


def test_a_missing_authority_file_and_a_proxy_of_another_kind_are_usage_errors(driver: str, tmp_path: Path) -> None:
    for environ in (
        {"FROST_CA_FILE": str(tmp_path / "missing")},
        {"FROST_CA_FILE": str(tmp_path)},
        {"ALL_PROXY": "socks5://127.0.0.1:9"},
    ):
        link = Context(Endpoint.parse("https://api.frost.example"), environ=environ)
        error = failure(driver, link, account.me())
        assert error.exit_code == Exit.USAGE
        assert "FROST_CA_FILE" in environ or "ALL_PROXY" in error.message


def test_a_failed_connection_names_the_proxy_and_its_variable(driver: str, quick: Quick) -> None:
    """Nothing that the proxy sends is shown but its status: it knows the password for it."""
    refusal = b"HTTP/1.1 407 me:secret-word bWU6c2VjcmV0LXdvcmQ=\r\n\r\n"
    endpoint = Endpoint.parse("https://api.frost.example")
    with Service(refusal, kind="tcp") as service, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        for port, text in (
            (service.port, "no tunnel to the host (HTTP 407)"),
            (taken.getsockname()[1], ""),
        ):
            environ = {"ALL_PROXY": f"http://me:secret-word@127.0.0.1:{port}"}
            error = failure(driver, Context(endpoint, environ=environ), account.me())
            assert error.exit_code == Exit.UNREACHABLE
            assert error.message.startswith(f"{endpoint}: the proxy 127.0.0.1:{port} (from ALL_PROXY): {text}")
            assert error.hint == "check ALL_PROXY, or list api.frost.example in NO_PROXY"
            assert "secret" not in error.message
            assert "bWU6" not in error.message


def test_a_failed_connection_names_the_name_that_was_not_resolved(
    driver: str, quick: Quick, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    endpoint = Endpoint.parse("https://api.frost.example")
    error = failure(driver, Context(endpoint), account.me())
    assert error.message == (
        "https://api.frost.example/api: the host name cannot be resolved: Name or service not known"
    )
    assert "name resolution" in error.hint
    error = failure(driver, Context(endpoint, environ={"HTTPS_PROXY": "http://proxy.example"}), account.me())
    assert "the proxy proxy.example:80 (from HTTPS_PROXY): Name or service not known" in error.message


def test_a_failure_behind_the_proxy_names_it_too(driver: str, quick: Quick, authority: Authority) -> None:
    with Service(answer(200, ME), tls=authority.server("api.frost.example"), kind="tcp") as service:
        port = Tunnel(service.port).port
        environ = {"HTTPS_PROXY": f"http://127.0.0.1:{port}"}
        error = failure(driver, Context(Endpoint.parse("https://api.frost.example"), environ=environ), account.me())
    assert "the certificate was rejected" in error.message
    assert f"(through the proxy 127.0.0.1:{port} (from HTTPS_PROXY))" in error.message
    assert "FROST_CA_FILE" in error.hint
    assert "HTTPS_PROXY" in error.hint


def test_a_rejected_certificate_names_the_variables_of_the_authorities(driver: str, authority: Authority) -> None:
    folder = authority.folder / "other"
    folder.mkdir(exist_ok=True)
    other = Authority(folder)
    environ = {"SSL_CERT_FILE": str(other.file), "FROST_CA_FILE": str(other.file)}
    with Service(answer(200, ME), tls=authority.server("127.0.0.1"), kind="tcp") as service:
        error = failure(driver, Context(service.endpoint, environ=environ), account.me())
    assert error.hint == "check the certificate authorities in FROST_CA_FILE and SSL_CERT_FILE"


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR", "FROST_CA_FILE", "SSLKEYLOGFILE"])
def test_a_variable_that_names_no_usable_file_is_named(
    driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    text = tmp_path / "text"
    text.write_text("no certificate")
    values = [str(tmp_path / "missing/file"), *([str(text)] if name != "SSLKEYLOGFILE" else [])]
    for value in values:
        monkeypatch.setenv(name, value)  # OpenSSL reads the environment of the process
        link = Context(Endpoint.parse("https://api.frost.example"), environ={name: value})
        error = failure(driver, link, account.me())
        assert error.exit_code == Exit.USAGE
        assert error.message.startswith(f"{name} {value} cannot be used: ")


def test_authorities_of_the_system_variables_are_used(driver: str, authority: Authority) -> None:
    with Service(answer(200, ME), tls=authority.server("127.0.0.1"), kind="tcp") as service:
        link = Context(service.endpoint, environ={"SSL_CERT_FILE": str(authority.file)})
        assert ask(driver, link, account.me()) == ME


def test_neither_a_netrc_file_nor_a_cookie_is_sent(
    driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("default login evil password evil\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    with Service(answer(401, UNAUTHENTICATED, Set_Cookie="session=evil; Path=/"), answer(200, ME)) as service:
        ask(driver, Context(service.endpoint, session(), [session("new")]), account.me())
        ask(driver, Context(service.endpoint), account.me())
    assert not [heard for heard in service.heard if "cookie" in heard.headers]
    assert [heard.headers.get("authorization", "")[:6] for heard in service.heard] == ["Bearer", "Bearer", ""]


def test_every_exchange_is_logged_without_a_secret(driver: str, quick: Quick) -> None:
    log: list[RequestLogEntry] = []
    with Service(answer(401, UNAUTHENTICATED), answer(503, b""), answer(200, ME)) as service:
        link = Context(service.endpoint, session("eyJhbGciOi.secret.part"), [session("eyJuZXdlciI.secret.part")])
        ask(driver, link, account.me(), log)
    lines = [event.line() for event in log]
    assert lines[0].startswith("GET /api/v1/me 401 ")
    assert "request req-12345678" in lines[0]
    assert "HTTP 503" in lines[2]
    assert not any("secret" in line or "eyJ" in line for line in lines)


def test_requests_to_the_identity_provider_are_not_signed(driver: str) -> None:
    with Service(answer(200, {"issuer": "http://localhost/issuer"})) as service:
        ask(driver, Context(service.endpoint), oidc.cli_config())
    assert "x-api-key" not in service.heard[0].headers
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    with Service(answer(400, {"error": "authorization_pending"})) as service:
        reply = fetch(service.endpoint, {}, "POST", "/issuer/token", headers=form, body=b"grant_type=x")
    heard = service.heard[0]
    assert (reply.status, heard.target, heard.body) == (400, "/issuer/token", b"grant_type=x")
    assert not {"authorization", "x-api-key"} & set(heard.headers)


def interrupted(call: Call[object]) -> BaseException | None:
    """The error of a call whose client is closed before the response."""

    async def closing() -> BaseException | None:
        loop, arrived = asyncio.get_running_loop(), asyncio.Event()

        def silent(_: Heard) -> Iterable[bytes]:
            loop.call_soon_threadsafe(arrived.set)
            released.wait(60)
            yield b""

        with Service(silent) as service:
            http = AsyncClient(Context(service.endpoint))
            sending = asyncio.create_task(http.ask(call))
            await arrived.wait()
            await http.aclose()
            await asyncio.wait([sending])
            return asyncio.CancelledError() if sending.cancelled() else sending.exception()

    released = threading.Event()
    try:
        return asyncio.run(closing())
    finally:
        released.set()


def test_a_write_whose_client_is_closed_has_an_unknown_result() -> None:
    error = interrupted(tenants.create("o-1", "Web Shop"))
    assert isinstance(error, FrostError)
    assert (error.code, error.exit_code) == ("REQUEST_INTERRUPTED", Exit.UNREACHABLE)
    assert error.message == "the request was interrupted and its result is unknown"
    assert isinstance(interrupted(account.me()), asyncio.CancelledError)


def test_an_answer_given_before_the_body_was_sent_is_read() -> None:
    """The blocking driver only: the async one reads on after a failed write by itself."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def refuse() -> None:
            connected, _ = listener.accept()
            with connected:
                while b"\r\n\r\n" not in connected.recv(1 << 16, socket.MSG_PEEK):
                    pass
                words = b'{"error": {"code": "PERMISSION_DENIED", "message": "no"}}'
                head = f"Content-Type: application/json\r\nContent-Length: {len(words)}\r\n\r\n"
                connected.sendall(b"HTTP/1.1 403 Forbidden\r\n" + head.encode() + words)
                connected.shutdown(socket.SHUT_RD)
                connected.recv(1 << 16)
                time.sleep(0.5)

        answering = threading.Thread(target=refuse)
        answering.start()
        endpoint = Endpoint.parse(f"http://127.0.0.1:{listener.getsockname()[1]}/api")
        reply = fetch(endpoint, {}, "POST", "/x", body=b"y" * (8 << 20))
        answering.join()
    assert reply.status == 403
