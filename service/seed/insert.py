"""Shared parts of the seeds. Times are relative to the load."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, insert

from service.authn import secret_format
from service.files import load_yaml
from service.tenants.provisioning import WORK

SEEDS_DIR = Path(__file__).with_name("data")


Row = dict[str, Any]
BATCH_ROWS = 5_000


def insert_rows(connection: Connection, table: Table, rows: Iterable[Row]) -> None:
    """Insert rows with equal columns in batches."""
    rest = iter(rows)
    while batch := list(islice(rest, BATCH_ROWS)):
        connection.execute(insert(table), batch)


def provision(connection: Connection, tenants: Iterable[tuple[str, datetime]]) -> None:
    """Run all provisioning steps for tenants (id, creation time)."""
    for tenant_id, created in tenants:
        for work in WORK.values():
            work(connection, tenant_id, created)


def first_tag_versions(tenants: Iterable[Row]) -> Iterator[Row]:
    for row in tenants:
        yield {"tenant_id": row["id"], "version": 1, "tags": row["default_tags"], "changed_at": row["updated_at"]}


@dataclass
class KeyMinter:
    """Creates API-key secrets and collects them for the key file."""

    secret: bytes
    minted: dict[str, dict[str, str]] = field(default_factory=dict)

    def mint(self, name: str, key_id: str) -> Row:
        """Return the columns that depend on the secret; raise ValueError for a duplicate name."""
        if name in self.minted:
            raise ValueError(f"this world has two keys named {name!r}")
        plain = secret_format.mint()
        self.minted[name] = {"id": key_id, "secret": plain}
        return {"key_prefix": secret_format.lookup_prefix(plain), "key_hash": secret_format.digest(self.secret, plain)}


OFFSET_PATTERN = re.compile(r"([+-])(?=\d)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)


@cache
def parse_offset(text: str) -> timedelta:
    """Parse an offset such as `-40d`, `-2h30m`, `+300d` or `now`; raise ValueError for other texts."""
    if text == "now":
        return timedelta()
    match = OFFSET_PATTERN.fullmatch(text)
    if not match:
        raise ValueError(f"not an offset like -40d or +2h30m: {text!r}")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
    try:
        distance = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError as error:
        raise ValueError(f"offset is too far: {text!r}") from error
    return -distance if match[1] == "-" else distance


class SeedFile:
    """A seed file. Resolves handles (`web-shop`, `owner@aurora.example`) to ids, and offsets to instants."""

    def __init__(self, name: str, now: datetime) -> None:
        self.now = now
        self.file: dict[str, Any] = load_yaml(SEEDS_DIR / f"{name}.yaml")

    def at(self, text: str) -> datetime:
        return self.now + parse_offset(text)

    def maybe(self, text: str | None) -> datetime | None:
        return None if text is None else self.at(text)

    def id(self, section: str, handle: str) -> str:
        return str(self.file[section][handle]["id"])
