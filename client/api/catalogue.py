"""The catalogue of operations, served by the platform. Source: contract: Operation catalog entry; checklist C."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from client.core import Call, Request

if TYPE_CHECKING:
    from client.http import Http


def operations(filter: str = "") -> Call:
    """The operations whose name holds the text in any letter case, sorted by name."""
    query = (("filter", filter),) if filter else ()
    return Call(Request("GET", "/v1/iam/catalogue", query), "operations", "catalogue")


class Catalogue:
    """The same calls for the screens and the library."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def operations(self, filter: str = "") -> list[dict[str, Any]]:
        """Members name, accessLevel (read, write, list, permission) and description."""
        answer = await self._http.call(operations(filter))
        found: list[dict[str, Any]] = answer["operations"]
        return found
