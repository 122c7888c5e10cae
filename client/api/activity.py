"""Calls about the audit log, for owners and admins who are signed in. Source: design: Screens; checklist N12."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, NamedTuple

from client.core import Call, Request, path
from client.pages import MOST, query

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from client.http import Http
    from client.models.activity import Entry

MODEL = "activity.Entry"


class Which(NamedTuple):
    """Which entries are asked for; empty: all of them.

    `operation` is one (`policy.attach`), or the kind of thing it is done to (`policy`); `actor` the id of a person, a
    key or an identity, or an e-mail address; `since` an RFC 3339 instant; `target` a kind and an id (`policy:ID`).
    """

    operation: str = ""
    actor: str = ""
    outcome: str = ""
    since: str = ""
    target: str = ""

    def query(self) -> list[tuple[str, str]]:
        return [(name, value) for name, value in zip(self._fields, self, strict=True) if value]


EVERYTHING = Which()


def page(tenant_id: str, which: Which = EVERYTHING, *, limit: int | None = None, cursor: str = "") -> Call:
    """A page of what was done in a tenant, and refused there, newest first."""
    return _page(path("/v1/tenants/{}/activity", tenant_id), which, limit, cursor)


def organization_page(
    organization_id: str, which: Which = EVERYTHING, *, limit: int | None = None, cursor: str = ""
) -> Call:
    """A page of what was done in an organization outside of its tenants, newest first."""
    return _page(path("/v1/organizations/{}/activity", organization_id), which, limit, cursor)


def _page(route: str, which: Which, limit: int | None, cursor: str) -> Call:
    return Call(Request("GET", route, query(limit, cursor, *which.query())), "entries", MODEL)


class Activity:
    """The same calls for the screens and the library, answered with models."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def of_tenant(self, tenant_id: str, which: Which = EVERYTHING) -> AsyncIterator[builtins.list[Entry]]:
        """What was done in a tenant, and refused there, newest first, page by page."""
        return self._http.pages(lambda cursor: page(tenant_id, which, limit=MOST, cursor=cursor))

    def of_organization(self, organization_id: str, which: Which = EVERYTHING) -> AsyncIterator[builtins.list[Entry]]:
        """What was done in an organization outside of its tenants, newest first, page by page."""
        return self._http.pages(lambda cursor: organization_page(organization_id, which, limit=MOST, cursor=cursor))
