"""Calls about the principal: identity, organizations, scopes, sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.transport.request import Call, Request

if TYPE_CHECKING:
    from client.models.account import DeletedAccount, Me, Organization, Scope, Session
    from client.transport.async_client import AsyncClient


def me() -> Call:
    """Get the principal: person or key, default tenant, credential and organizations."""
    return Call(Request("GET", "/v1/me"), model="account.Me", needs=("id",))


def organizations() -> Call:
    """List the principal's organizations, with its role in each."""
    return Call(Request("GET", "/v1/organizations"), "organizations", "account.Organization")


def scopes() -> Call:
    """List the scopes for API keys: the enforced ones and the operations of the catalogue."""
    return Call(Request("GET", "/v1/scopes"), "scopes", "account.Scope")


def end_session() -> Call:
    """End the session of this request (logout)."""
    return Call(Request("POST", "/v1/sessions/current/end"))


def delete(email: str) -> Call:
    """Delete the principal's account if `email` is its address. Its sessions and keys end immediately."""
    request = Request("DELETE", "/v1/me", (("email", email),))
    return Call(request, model="account.DeletedAccount", needs=("email", "restorableUntil"))


class Account:
    """The calls of this module with models as results."""

    def __init__(self, http: AsyncClient) -> None:
        self._http = http

    async def me(self) -> Me:
        found: Me = await self._http.record(me())
        return found

    async def organizations(self) -> list[Organization]:
        found: list[Organization] = await self._http.records(organizations())
        return found

    async def end_session(self) -> None:
        await self._http.call(end_session())

    async def scopes(self) -> list[Scope]:
        found: list[Scope] = await self._http.records(scopes())
        return found

    async def delete(self, email: str) -> DeletedAccount:
        """Delete the account. `email` is the user's input; the platform refuses another address."""
        found: DeletedAccount = await self._http.record(delete(email))
        return found


def active() -> Call:
    """List the active sessions, last seen first; `current` marks the session of this request."""
    return Call(Request("GET", "/v1/sessions"), "sessions", "account.Session")


def revoke_all() -> Call:
    """End every session on every device, including the current one."""
    return Call(Request("POST", "/v1/sessions/revoke-all"), model="account.EndedSessions", needs=("ended",))


class Sessions:
    """The session calls with models as results."""

    def __init__(self, http: AsyncClient) -> None:
        self._http = http

    async def active(self) -> list[Session]:
        found: list[Session] = await self._http.records(active())
        return found

    async def revoke_all(self) -> int:
        """Return the number of sessions that ended."""
        answer = await self._http.call(revoke_all())
        return int(answer["ended"])
