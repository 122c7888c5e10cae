"""Calls about the caller: who it is, its organizations, its session. Source: contract: account; facts 1.3."""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.core import Call, Request

if TYPE_CHECKING:
    from client.http import Http
    from client.models.account import DeletedAccount, Me, Organization, Scope


def me() -> Call:
    """Who calls: the person or key, its default tenant, the credential and the organizations."""
    return Call(Request("GET", "/v1/me"), model="account.Me", needs=("id",))


def organizations() -> Call:
    """The caller's organizations with the caller's role in each."""
    return Call(Request("GET", "/v1/organizations"), "organizations", "account.Organization")


def scopes() -> Call:
    """What an API key can be allowed: the enforced scopes, and the operations of the catalogue."""
    return Call(Request("GET", "/v1/scopes"), "scopes", "account.Scope")


def end_session() -> Call:
    """Ends the session that signs this very request (logout)."""
    return Call(Request("POST", "/v1/sessions/current/end"))


def delete(email: str) -> Call:
    """Deletes the caller's account, if this is its address; its sessions and keys end at once."""
    request = Request("DELETE", "/v1/me", (("email", email),))
    return Call(request, model="account.DeletedAccount", needs=("email", "restorableUntil"))


class Account:
    """The same calls for the screens and the library, answered with models."""

    def __init__(self, http: Http) -> None:
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
        """`email` is what the person typed; another address than theirs is refused."""
        found: DeletedAccount = await self._http.record(delete(email))
        return found
