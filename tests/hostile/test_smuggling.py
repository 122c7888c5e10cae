"""One request that could be read as two: refused whole, and nothing behind it is answered."""

import socket

import pytest

from tests.people import OWNER, WEB_SHOP
from tests.service.running import Running, read_until_closed, tcp_address

# What is to be read as a request of its own if the server and a balancer before it disagree.
BEHIND = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD = b"POST /api/v1/tenants/x HTTP/1.1\r\nHost: localhost\r\n"
SHAPES = {
    "two lengths": b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nx",
    "two equal lengths in one": b"Content-Length: 1, 1\r\n\r\nx",
    "a length with a sign": b"Content-Length: +1\r\n\r\nx",
    "a negative length": b"Content-Length: -1\r\n\r\n",
    "a length in another base": b"Content-Length: 0x1\r\n\r\nx",
    "a length past all numbers": b"Content-Length: 99999999999999999999999\r\n\r\nx",
    "a length and chunks": b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and a length": b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
    "a coding that is not the last": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "an unknown coding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a blank before the colon": b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a chunk size with a sign": b"Transfer-Encoding: chunked\r\n\r\n+0\r\n\r\n",
    "a chunk size in another base": b"Transfer-Encoding: chunked\r\n\r\n0x0\r\n\r\n",
    "a chunk size past all numbers": b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nx\r\n0\r\n\r\n",
    "a chunk longer than it says": b"Transfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n0\r\n\r\n",
    "a line that is folded": b"X-Folded: a\r\n b\r\nContent-Length: 0\r\n Transfer-Encoding: chunked\r\n\r\n",
    "a NUL in a value": b"X-Tenant-Id: a\x00b\r\n\r\n",
    "a carriage return in a value": b"X-Tenant-Id: a\rX-Role: owner\r\n\r\n",
    "a header without a name": b": x\r\n\r\n",
}


def answers(platform: Running, request: bytes) -> bytes:
    with socket.create_connection(tcp_address(platform), timeout=10) as connection:
        connection.sendall(request)
        return read_until_closed(connection)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_ambiguous_request_is_refused_with_all_behind_it(network: Running, shape: str) -> None:
    answer = answers(network, HEAD + SHAPES[shape] + BEHIND)
    assert answer.startswith(b"HTTP/1.1 4"), answer
    assert answer.count(b"HTTP/1.1 ") == 1, answer
    assert b'"status":"ok"' not in answer


def test_two_valid_requests_are_both_answered(network: Running) -> None:
    behind = BEHIND.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    answer = answers(network, HEAD + b"Content-Length: 1\r\n\r\nx" + behind)
    assert answer.count(b"HTTP/1.1 ") == 2
    assert b'"status":"ok"' in answer


def test_eight_kilobytes_in_a_header_are_no_tenant(network: Running) -> None:
    headers = {"X-Tenant-Id": "a" * 8192}
    assert network.get(f"/api/v1/tenants/{WEB_SHOP}", as_=OWNER, headers=headers).status == 403
