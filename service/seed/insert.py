"""What the loaders of every world share: adding many rows, setting up tenants, making key secrets.

Times of a world are written relative to the instant it is loaded, so that a fresh world looks alive.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, insert

from service.authn import api_keys
from service.catalogue.data_files import document
from service.tenants.provisioning import WORK

SEEDS = Path(__file__).with_name("data")


Row = dict[str, Any]
BATCH = 5_000


def add(connection: Connection, table: Table, rows: Iterable[Row]) -> None:
    """Insert the rows in batches; each must have the same members as the first."""
    rest = iter(rows)
    while batch := list(islice(rest, BATCH)):
        connection.execute(insert(table), batch)


def set_up(connection: Connection, tenants: Iterable[tuple[str, datetime]]) -> None:
    """What provisioning leaves behind, for tenants (id, created) that were ready long before the world was loaded."""
    for tenant_id, created in tenants:
        for work in WORK.values():
            work(connection, tenant_id, created)


def first_tags(tenants: Iterable[Row]) -> Iterator[Row]:
    """Where the history of each tenant's default tags begins: at the set it comes with."""
    for row in tenants:
        yield {"tenant_id": row["id"], "version": 1, "tags": row["default_tags"], "changed_at": row["updated_at"]}


@dataclass
class KeyMinter:
    """Makes the secrets of a world's keys and remembers them for the one file they are written to."""

    secret: bytes
    minted: dict[str, dict[str, str]] = field(default_factory=dict)

    def mint(self, name: str, key_id: str) -> Row:
        """The columns of a new key that come from its secret. Raises ValueError when the world names two keys alike."""
        if name in self.minted:
            raise ValueError(f"two keys of this world are named {name!r}")
        plain = api_keys.mint()
        self.minted[name] = {"id": key_id, "secret": plain}
        return {"key_prefix": api_keys.prefix(plain), "key_hash": api_keys.digest(self.secret, plain)}


OFFSET = re.compile(r"([+-])(?=\d)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)


@cache
def offset(text: str) -> timedelta:
    """The distance `-40d`, `-2h30m` or `+300d` names; `now` is none.

    Raises ValueError for any other text, also for one that leaves the range of a date.
    """
    if text == "now":
        return timedelta()
    found = OFFSET.fullmatch(text)
    if not found:
        raise ValueError(f"not an offset like -40d or +2h30m: {text!r}")
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
    try:
        distance = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError as error:
        raise ValueError(f"offset is too far: {text!r}") from error
    return -distance if found[1] == "-" else distance


class World:
    """A world's file, with its handles (`web-shop`, `owner@aurora.example`) looked up and its offsets made instants."""

    def __init__(self, name: str, now: datetime) -> None:
        self.now = now
        self.file: dict[str, Any] = document(SEEDS / f"{name}.yaml")

    def at(self, text: str) -> datetime:
        return self.now + offset(text)

    def maybe(self, text: str | None) -> datetime | None:
        return None if text is None else self.at(text)

    def id(self, section: str, handle: str) -> str:
        return str(self.file[section][handle]["id"])
