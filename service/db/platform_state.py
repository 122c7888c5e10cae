"""Facts about an installation, by name: its seed and its version of the catalogue."""

import json
from hashlib import sha256
from pathlib import Path

from sqlalchemy import Connection, select

from service.db.tables import platform_state

CATALOGUE = Path(__file__).parents[1] / "catalogue" / "data" / "catalogue.csv"


def is_current(connection: Connection) -> bool:
    """Return whether the database has a seed and this version's catalogue."""
    query = select(platform_state.c.name, platform_state.c.value)
    stored = {row.name: row.value for row in connection.execute(query)}
    return "world" in stored and stored.get("catalogue") == catalogue_digest()


def catalogue_digest() -> str:
    """Return the SHA-256 digest of the catalogue file."""
    return sha256(CATALOGUE.read_bytes()).hexdigest()


def get_value(connection: Connection, name: str) -> str | None:
    """Return a fact: `world` (name of the seed), `loaded_at` (RFC 3339), `first_person` (e-mail address), …"""
    return connection.scalar(select(platform_state.c.value).where(platform_state.c.name == name))


def failing_listings(connection: Connection) -> frozenset[tuple[str, str]]:
    """Return the pairs (tenant id, resource kind) that cannot be listed, so that their usage is unknown."""
    stored = json.loads(get_value(connection, "failing_listings") or "[]")
    return frozenset((entry["tenantId"], entry["kind"]) for entry in stored)
