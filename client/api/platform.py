"""Calls of the platform's staff, answered on the platform's own socket only. Source: design: The local platform."""

from __future__ import annotations

from typing import TYPE_CHECKING

from client.core import Call, Request

if TYPE_CHECKING:
    from client.http import Http
    from client.models.operations import Operation
    from client.models.platform import PlatformStatus


def status() -> Call:
    """The running platform: which program, on what data, with how much to do."""
    request = Request("GET", "/v1/platform/status", authenticated=False)
    return Call(request, model="platform.PlatformStatus", needs=("version", "pid"))


def operations() -> Call:
    """Operations of all tenants: open ones first, then the newest 50."""
    return Call(Request("GET", "/v1/platform/operations", authenticated=False), "operations", "operations.Operation")


def stop() -> Call:
    """Asks the platform to stop; running operations park at a step and go on at the next start."""
    return Call(Request("POST", "/v1/platform/stop", authenticated=False), model="platform.Stopping", needs=("status",))


def restore_account(email: str) -> Call:
    """Brings a deleted account back, within 30 days; its sessions stay ended and its keys revoked."""
    request = Request("POST", "/v1/platform/accounts/restore", body={"email": email}, authenticated=False)
    return Call(request, model="platform.RestoredAccount", needs=("id", "email"))


class Platform:
    """The same calls for the screens and the library, answered with models."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def status(self) -> PlatformStatus:
        found: PlatformStatus = await self._http.record(status())
        return found

    async def operations(self) -> list[Operation]:
        found: list[Operation] = await self._http.records(operations())
        return found
