"""Calls about the audit log, for owners and admins with a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from client.transport.call import Call, Model, Request, page_query, path, records

if TYPE_CHECKING:
    from client.models.tenants import Entry

ENTRY: Model[Entry] = Model("tenants.Entry")


class ActivityFilter(NamedTuple):
    """A filter of entries; empty values match all.

    `operation` is one operation (`policy.attach`) or a kind of target (`policy`); `actor` the id of a person, key or
    workload identity, or an e-mail address; `since` an RFC 3339 instant; `target` a kind and an id (`policy:ID`).
    """

    operation: str = ""
    actor: str = ""
    outcome: str = ""
    since: str = ""
    target: str = ""

    def query(self) -> list[tuple[str, str]]:
        return [(name, value) for name, value in zip(self._fields, self, strict=True) if value]


ANY_ENTRY = ActivityFilter()


def page(
    tenant_id: str, filter: ActivityFilter = ANY_ENTRY, *, limit: int | None = None, cursor: str = ""
) -> Call[list[Entry]]:
    """List a page of a tenant's entries, including refused requests, newest first."""
    return _page(path("/v1/tenants/{}/activity", tenant_id), filter, limit, cursor)


def organization_page(
    organization_id: str, filter: ActivityFilter = ANY_ENTRY, *, limit: int | None = None, cursor: str = ""
) -> Call[list[Entry]]:
    """List a page of an organization's entries outside of its tenants, newest first."""
    return _page(path("/v1/organizations/{}/activity", organization_id), filter, limit, cursor)


def _page(route: str, filter: ActivityFilter, limit: int | None, cursor: str) -> Call[list[Entry]]:
    return records(Request("GET", route, page_query(limit, cursor, *filter.query())), "entries", ENTRY)
