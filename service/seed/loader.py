"""Loads the catalogue and a seed into a new database, in a single transaction."""

import json
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, func, insert, select

from service import files
from service.catalogue import operations
from service.clock import Clock
from service.db import dialect, tables
from service.db.dialect import upsert_insert
from service.db.engine import Database
from service.db.statements import catalogue_digest, get_value, is_current
from service.seed import demo, large
from service.seed.insert import KeyMinter
from service.settings import WORLDS

KEY_FILE = "world-keys.json"


def load(database: Database, clock: Clock, name: str, secret: bytes, data_dir: Path) -> bool:
    """Load a seed into a database without any; otherwise add new catalogue entries and return False.

    The secrets of the seed's API keys are random. The database stores digests keyed with `secret`; `world-keys.json` in
    `data_dir` (mode 0600) has the secrets.

    Raises:
        ValueError: the seed does not exist.
    """
    if name not in WORLDS:
        raise ValueError(f"unknown world {name!r}; the worlds are {', '.join(WORLDS)}")
    with database.read() as connection:
        loaded = get_value(connection, "world") is not None
    if not loaded:
        minting = KeyMinter(secret)
        with database.write() as connection:
            if _claim(connection, name):
                _append(connection)
                _fill(connection, name, clock.now(), minting)
                dialect.analyze(connection)
                # In the transaction, so that the seed is not loaded without its keys.
                plain = json.dumps(minting.minted, indent=1, ensure_ascii=False)
                files.write_atomically(data_dir / KEY_FILE, plain.encode())
                return True
    append_catalogue(database)
    return False


def append_catalogue(database: Database) -> int:
    """Insert the catalogue entries that the database lacks; return their number."""
    with database.read() as connection:
        if not _missing(connection) and is_current(connection):
            return 0
    with database.write() as connection:
        return _append(connection)


def _claim(connection: Connection, name: str) -> bool:
    """Return whether this process loads the seed. Other replicas wait here."""
    claim = upsert_insert(connection, tables.platform_state).values(name="world", value=name).on_conflict_do_nothing()
    # RETURNING shows whether a row was inserted.
    return connection.scalar(claim.returning(tables.platform_state.c.name)) is not None


def _missing(connection: Connection) -> list[operations.Operation]:
    known = set(connection.scalars(select(tables.catalogue_operations.c.name)))
    return [operation for operation in operations.operations() if operation.name not in known]


def _append(connection: Connection) -> int:
    dialect.lock_table(connection, tables.catalogue_operations)
    missing = _missing(connection)
    taken = connection.scalar(select(func.coalesce(func.max(tables.catalogue_operations.c.position), 0))) or 0
    if missing:
        rows = [asdict(operation) | {"position": taken + n} for n, operation in enumerate(missing, start=1)]
        connection.execute(insert(tables.catalogue_operations), rows)
    digest = upsert_insert(connection, tables.platform_state).values(name="catalogue", value=catalogue_digest())
    connection.execute(digest.on_conflict_do_update(index_elements=["name"], set_={"value": digest.excluded.value}))
    return len(missing)


def _fill(connection: Connection, name: str, now: datetime, minting: KeyMinter) -> None:
    if name == "large":
        large.fill(connection, now, minting)
    else:
        demo.fill(connection, name, now, minting)
