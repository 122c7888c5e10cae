"""Sequential requests on many connections, as bytes: the client must cost less than the server."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from itertools import count


def request(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """The bytes of a request on a connection that stays open."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *(f"{name}: {value}" for name, value in headers.items())]
    if body or method != "GET":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def rate(address: tuple[str, int], requests: Iterator[bytes], seconds: float, connections: int = 8) -> float:
    """Answers a second over some seconds, after a second that is not counted.

    Raises:
        RuntimeError: an answer was not a success.
    """

    async def drive() -> float:
        done = count()
        began = time.perf_counter()
        end = began + 1 + seconds
        after: list[int] = []

        async def one() -> None:
            reader, writer = await asyncio.open_connection(*address)
            while (now := time.perf_counter()) < end:
                writer.write(next(requests))
                status, closes = await answer_of(reader)
                if status[:1] != "2":
                    raise RuntimeError(f"an answer with the status {status}")
                if closes:
                    writer.close()
                    reader, writer = await asyncio.open_connection(*address)
                number = next(done)
                if now >= began + 1:
                    after.append(number)
            writer.close()

        await asyncio.gather(*(one() for _ in range(connections)))
        return len(after) / seconds

    return asyncio.run(drive())


async def answer_of(reader: asyncio.StreamReader) -> tuple[str, bool]:
    """Read a response; return its status, and whether it closes the connection, as those of moto do."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    await reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r\n")[0]))
    return head[9:12].decode(), b"connection: close" in head
