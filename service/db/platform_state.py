"""What an installation knows of the world it holds. The loader writes it once, into `platform_state`."""

import json
from hashlib import sha256
from pathlib import Path

from sqlalchemy import Connection, select

from service.db.tables import platform_state

CATALOGUE = Path(__file__).parents[1] / "catalogue" / "data" / "catalogue.csv"


def is_current(connection: Connection) -> bool:
    """Whether there is a world and it has every catalogue entry of this version: a start has nothing to load."""
    query = select(platform_state.c.name, platform_state.c.value)
    stored = {row.name: row.value for row in connection.execute(query)}
    return "world" in stored and stored.get("catalogue") == catalogue_digest()


def catalogue_digest() -> str:
    """What tells the catalogue of this version from that of another."""
    return sha256(CATALOGUE.read_bytes()).hexdigest()


def get_value(connection: Connection, name: str) -> str | None:
    """One fact: `world` (its name), `loaded_at` (RFC 3339), `first_person` (an e-mail address)."""
    return connection.scalar(select(platform_state.c.value).where(platform_state.c.name == name))


def failing_listings(connection: Connection) -> frozenset[tuple[str, str]]:
    """The (tenant id, kind) pairs whose backend cannot list now: their use is unknown. checklist Q03"""
    stored = json.loads(get_value(connection, "failing_listings") or "[]")
    return frozenset((entry["tenantId"], entry["kind"]) for entry in stored)
