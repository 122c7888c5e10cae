"""Sends the responses of an HTTP/1.1 connection, most of them in less time than uvicorn does."""

from typing import Any

from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE, STATUS_LINE, RequestResponseCycle

_SPECIAL_NAMES = {b"connection", b"transfer-encoding"}
_known_names: set[bytes] = set()
"""Valid names in lower case that have been sent. Names come from code, so their number is small."""


class ResponseCycle(RequestResponseCycle):
    """Leaves to uvicorn what is rare: chunks, HEAD, closed or slow connections, and errors."""

    async def send(self, message: Any) -> None:
        content = self._content(message) if not (self.flow.write_paused or self.disconnected) else None
        if content is None:
            await super().send(message)
            return
        self.transport.write(content)
        if message["type"] == "http.response.body":
            self.response_complete, self.expected_content_length = True, 0
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()

    def _content(self, message: Any) -> bytes | None:
        """Return the bytes of a message that needs no more checks; None for others."""
        if message["type"] == "http.response.start":
            return None if self.response_started or self.waiting_for_100_continue else self._start(message)
        if (
            message["type"] != "http.response.body"
            or self.response_complete
            or self.chunked_encoding is not False
            or message.get("more_body")
            or self.scope["method"] == "HEAD"
        ):
            return None
        body: bytes = message.get("body", b"")
        return body if len(body) == self.expected_content_length else None

    def _start(self, message: Any) -> bytes | None:
        """Return the head of a response with `Content-Length` on a connection that stays open."""
        if not self.keep_alive:
            return None
        headers, length = [*self.default_headers, *message["headers"]], None
        for name, value in headers:
            if name not in _known_names and not _is_plain(name):
                return None
            if name == b"content-length":
                length = int(value)
            if HEADER_VALUE_RE.search(value):
                return None
        if length is None:
            return None
        self.response_started, self.chunked_encoding, self.expected_content_length = True, False, length
        lines = [b"%s: %s\r\n" % header for header in headers]
        return b"".join((STATUS_LINE[message["status"]], *lines, b"\r\n"))


def _is_plain(name: bytes) -> bool:
    """Return whether a header has no effect on the connection, and a valid name in lower case."""
    if name in _SPECIAL_NAMES or name != name.lower() or HEADER_RE.search(name):
        return False
    _known_names.add(name)
    return True
