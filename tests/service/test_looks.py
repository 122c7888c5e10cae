"""Readiness is looked at once a second, whoever asks for it how often."""

import asyncio
import threading
from itertools import count

import httpx

from service.looks import KEPT_SECONDS, Looks
from tests.service.inside import Inside


def test_a_look_is_kept_for_a_moment() -> None:
    now, looks = 0.0, count()
    kept = Looks(lambda: now)

    def look() -> dict[str, str]:
        return {"number": str(next(looks))}

    assert [kept.newest(look)["number"] for _ in range(3)] == ["0", "0", "0"]
    now += KEPT_SECONDS
    assert kept.newest(look) == {"number": "1"}


def test_readiness_asked_for_again_at_once_asks_the_database_nothing(inside: Inside) -> None:
    assert inside.get("/readyz", {}).status_code == 200
    inside.forget()
    assert inside.get("/readyz", {}).json()["status"] == "ok"
    assert inside.statements == []


def test_a_look_that_hangs_holds_up_nobody_who_asks_for_something_else(inside: Inside) -> None:
    """More ask for readiness than there are threads, while one look waits for the database."""
    begun, go_on = threading.Event(), threading.Event()

    def hang() -> dict[str, str]:
        begun.set()
        go_on.wait(30)
        return {}

    looking = threading.Thread(target=inside.platform.looks.newest, args=(hang,))
    looking.start()
    begun.wait(30)

    async def ask() -> int:
        transport = httpx.ASGITransport(inside.app, client=("uid:0", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            asking = [asyncio.create_task(client.get("/readyz")) for _ in range(50)]
            await asyncio.sleep(0.2)
            try:
                return (await asyncio.wait_for(client.get("/healthz"), 30)).status_code
            finally:
                go_on.set()
                await asyncio.gather(*asking)

    assert asyncio.run(ask()) == 200
    looking.join()
