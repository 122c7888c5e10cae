"""The asynchronous client of the screens and the library. Groups of calls are imported on first use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cached_property
from typing import TYPE_CHECKING, Self

from client.transport.exchange import OnReply
from client.transport.request import ConnectionProtocol

if TYPE_CHECKING:
    from client.api.account import Account, Sessions
    from client.api.activity import Activity
    from client.api.analysis import Catalogue, Trials
    from client.api.default_tags import DefaultTagsArea
    from client.api.groups import Groups, Principals
    from client.api.keys import Keys
    from client.api.operations import Operations
    from client.api.platform import Platform
    from client.api.policies import Policies
    from client.api.quotas import Quotas
    from client.api.tenants import Tenants
    from client.transport.events import Listening, Signal


class Client:
    """The calls to a platform, for one context.

    Args:
        connection: The context (client/connection.py).
        on_reply: Called on the event loop after each exchange and wait.
    """

    def __init__(self, connection: ConnectionProtocol, *, on_reply: OnReply | None = None) -> None:
        from client.transport.async_client import AsyncClient

        self._http = AsyncClient(connection, on_reply=on_reply)

    @cached_property
    def account(self) -> Account:
        from client.api.account import Account

        return Account(self._http)

    @cached_property
    def tenants(self) -> Tenants:
        from client.api.tenants import Tenants

        return Tenants(self._http)

    @cached_property
    def operations(self) -> Operations:
        from client.api.operations import Operations

        return Operations(self._http)

    @cached_property
    def platform(self) -> Platform:
        from client.api.platform import Platform

        return Platform(self._http)

    @cached_property
    def catalogue(self) -> Catalogue:
        from client.api.analysis import Catalogue

        return Catalogue(self._http)

    @cached_property
    def groups(self) -> Groups:
        from client.api.groups import Groups

        return Groups(self._http)

    @cached_property
    def policies(self) -> Policies:
        from client.api.policies import Policies

        return Policies(self._http)

    @cached_property
    def trials(self) -> Trials:
        from client.api.analysis import Trials

        return Trials(self._http)

    @cached_property
    def principals(self) -> Principals:
        from client.api.groups import Principals

        return Principals(self._http)

    @cached_property
    def keys(self) -> Keys:
        from client.api.keys import Keys

        return Keys(self._http)

    @cached_property
    def sessions(self) -> Sessions:
        from client.api.account import Sessions

        return Sessions(self._http)

    @cached_property
    def default_tags(self) -> DefaultTagsArea:
        from client.api.default_tags import DefaultTagsArea

        return DefaultTagsArea(self._http)

    @cached_property
    def quotas(self) -> Quotas:
        from client.api.quotas import Quotas

        return Quotas(self._http)

    @cached_property
    def activity(self) -> Activity:
        from client.api.activity import Activity

        return Activity(self._http)

    def events(self, tenant_id: str, listening: Listening = lambda _: None) -> AsyncIterator[Signal]:
        """Yield signals to read a tenant's data again, until a FrostError (client/transport/events.py)."""
        from client.transport.events import signals

        return signals(self._http, tenant_id, listening)

    @property
    def latency_ms(self) -> float | None:
        """The duration of the last exchange in milliseconds; None before the first."""
        return self._http.latency_ms

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
