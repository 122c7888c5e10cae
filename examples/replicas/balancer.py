"""A small balancer for the example, of the standard library alone. In earnest take nginx, HAProxy or your cloud's.

What it does, any balancer in front of the platform has to do:

- It asks every replica's `/readyz` each second, and sends nothing to one that does not answer 200.
- A replica that cannot be connected to is passed over: nothing of the request has been sent yet.
- A request that was sent and not answered is 502. It is not sent again, because it may have been carried out: the
  client knows whether it may repeat it (reads, and what bears an `Idempotency-Key`).
- It says in `X-Forwarded-For` whom a request comes from, in place of whatever the client wrote there, and replicas
  believe it from this address alone (`FROST_PLATFORM_PROXIES`).

Each connection carries one request. Usage: balancer.py HOST:PORT REPLICA_HOST:PORT…
"""

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Iterator, Sequence

Address = tuple[str, int]

MOST_HEAD = 64 * 1024
HEAD_SECONDS = 10
CONNECT_SECONDS = 2
LOOK_SECONDS = 1.0
# Of one connection, or written here and by nobody else.
REPLACED = {b"connection", b"keep-alive", b"proxy-connection", b"x-forwarded-for", b"forwarded"}
REFUSALS = {
    400: b"Bad Request",
    502: b"Bad Gateway",
    503: b"Service Unavailable",
}
REASONS = {
    400: "the request is not valid HTTP",
    502: "the replica at the other end went away before it answered",
    503: "no replica can be reached at the moment",
}


class Balancer:
    """Takes requests and gives each to a replica that is ready, in turn."""

    def __init__(self, replicas: Sequence[Address]) -> None:
        self.ready = dict.fromkeys(replicas, True)
        self.turn = itertools.count()
        # The loop itself forgets an exchange whose client has hung up.
        self.open: set[asyncio.Task[None] | None] = set()

    def in_turn(self) -> Iterator[Address]:
        """Every replica once, beginning with another one each time; those that are not ready last."""
        replicas = list(self.ready)
        begin = next(self.turn) % len(replicas)
        yield from sorted(replicas[begin:] + replicas[:begin], key=lambda replica: not self.ready[replica])

    async def look(self, replica: Address) -> None:
        """Note again and again whether a replica is ready."""
        while True:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    reader, writer = await asyncio.open_connection(*replica)
                    writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    self.ready[replica] = b" 200 " in await reader.readline()
                    writer.close()
            except (OSError, TimeoutError):
                self.ready[replica] = False
            await asyncio.sleep(LOOK_SECONDS)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client: one request, and its answer."""
        task = asyncio.current_task()
        self.open.add(task)
        try:
            await self.exchange(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # The client went away, or said nothing.
        finally:
            writer.close()
            self.open.discard(task)

    async def exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = rewritten(await reader.readuntil(b"\r\n\r\n"), writer.get_extra_info("peername")[0])
        except (ValueError, asyncio.LimitOverrunError):
            writer.write(refusal(400))
            return
        for replica in self.in_turn():
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    answers, asks = await asyncio.open_connection(*replica)
            except (OSError, TimeoutError):
                self.ready[replica] = False
                continue
            sending = asyncio.create_task(carry(reader, asks, head))
            try:
                if not await carry(answers, writer):
                    writer.write(refusal(502))
            finally:
                sending.cancel()
                asks.close()
            return
        writer.write(refusal(503))


def rewritten(head: bytes, client: str) -> bytes:
    """The head of a request as a replica is to get it.

    Raises:
        ValueError: it goes on in a way that could hide a line.
    """
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in REPLACED]
    if any(line[:1] in (b" ", b"\t") or b"\n" in line for line in lines):
        raise ValueError("a folded line")
    told = [b"X-Forwarded-For: " + client.encode(), b"Connection: close"]
    return b"\r\n".join([first, *kept, *told, b"", b""])


async def carry(source: asyncio.StreamReader, target: asyncio.StreamWriter, begin: bytes = b"") -> bool:
    """Pass on what comes until the source ends or either of them is gone; whether anything came."""
    came = False
    with contextlib.suppress(OSError):
        target.write(begin)
        while part := await source.read(65536):
            came = True
            target.write(part)
            await target.drain()
    return came


def refusal(status: int) -> bytes:
    """An answer of the balancer's own, in the platform's envelope."""
    code = "INVALID_REQUEST" if status == 400 else "SERVICE_UNAVAILABLE"
    body = f'{{"error":{{"code":"{code}","message":"{REASONS[status]}"}}}}'.encode()
    head = b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    return head % (status, REFUSALS[status], len(body)) + body


def address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return host, int(port)


async def run(listen: Address, replicas: Sequence[Address]) -> None:
    """Serve until cancelled."""
    balancer = Balancer(replicas)
    looks = [asyncio.create_task(balancer.look(replica)) for replica in replicas]
    server = await asyncio.start_server(balancer.serve, *listen, limit=MOST_HEAD, backlog=512)
    sys.stdout.write("balancer: listening on {}:{}\n".format(*server.sockets[0].getsockname()[:2]))
    sys.stdout.flush()
    async with server:
        await asyncio.gather(server.serve_forever(), *looks)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        try:
            asyncio.run(run(address(sys.argv[1]), [address(text) for text in sys.argv[2:]]))
        except OSError as error:
            sys.exit(f"balancer: cannot answer on {sys.argv[1]}: {error.strerror}")
