"""What an installation knows of the world it holds. The loader writes it once, into `platform_state`."""

import json

from sqlalchemy import Connection, select

from service.db.tables import platform_state


def fact(connection: Connection, name: str) -> str | None:
    """One fact: `world` (its name), `loaded_at` (RFC 3339), `first_person` (an e-mail address)."""
    return connection.scalar(select(platform_state.c.value).where(platform_state.c.name == name))


def failing_listings(connection: Connection) -> frozenset[tuple[str, str]]:
    """The (tenant id, kind) pairs whose backend cannot list now: their use is unknown. checklist Q03"""
    stored = json.loads(fact(connection, "failing_listings") or "[]")
    return frozenset((entry["tenantId"], entry["kind"]) for entry in stored)
