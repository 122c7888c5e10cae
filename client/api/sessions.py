"""Calls about the caller's sessions on all devices. Source: contract: account session; checklist E."""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.core import Call, Request

if TYPE_CHECKING:
    from client.http import Http
    from client.models.account import Session


def active() -> Call:
    """The sessions that are not over, the last seen first; `current` marks the one that asks."""
    return Call(Request("GET", "/v1/sessions"), "sessions", "account.Session")


def revoke_all() -> Call:
    """Ends every session on every device, the one that asks too."""
    return Call(Request("POST", "/v1/sessions/revoke-all"), model="account.EndedSessions", needs=("ended",))


class Sessions:
    """The same calls for the screens and the library, answered with models."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def active(self) -> list[Session]:
        found: list[Session] = await self._http.records(active())
        return found

    async def revoke_all(self) -> int:
        """How many have ended."""
        answer = await self._http.call(revoke_all())
        return int(answer["ended"])
