"""Calls about the principal: identity, organizations, scopes, sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.transport.call import Call, Model, Request, no_content, record, records

if TYPE_CHECKING:
    from client.models.account import DeletedAccount, EndedSessions, Me, Organization, Scope, Session

ME: Model[Me] = Model("account.Me")
ORGANIZATION: Model[Organization] = Model("account.Organization")
SCOPE: Model[Scope] = Model("account.Scope")
DELETED_ACCOUNT: Model[DeletedAccount] = Model("account.DeletedAccount")
SESSION: Model[Session] = Model("account.Session")
ENDED_SESSIONS: Model[EndedSessions] = Model("account.EndedSessions")


def me() -> Call[Me]:
    """Get the principal: person or key, default tenant, credential and organizations."""
    return record(Request("GET", "/v1/me"), ME, ("id",))


def organizations() -> Call[list[Organization]]:
    """List the principal's organizations, with its role in each."""
    return records(Request("GET", "/v1/organizations"), "organizations", ORGANIZATION)


def scopes() -> Call[list[Scope]]:
    """List the scopes for API keys: the enforced ones and the operations of the catalogue."""
    return records(Request("GET", "/v1/scopes"), "scopes", SCOPE)


def end_session() -> Call[None]:
    """End the session of this request (logout)."""
    return no_content(Request("POST", "/v1/sessions/current/end"))


def delete(email: str) -> Call[DeletedAccount]:
    """Delete the principal's account if `email` is its address. Its sessions and keys end immediately."""
    request = Request("DELETE", "/v1/me", (("email", email),))
    return record(request, DELETED_ACCOUNT, ("email", "restorableUntil"))


def sessions() -> Call[list[Session]]:
    """List the active sessions, last seen first; `current` marks the session of this request."""
    return records(Request("GET", "/v1/sessions"), "sessions", SESSION)


def revoke_all_sessions() -> Call[EndedSessions]:
    """End every session on every device, including the current one."""
    return record(Request("POST", "/v1/sessions/revoke-all"), ENDED_SESSIONS, ("ended",))
