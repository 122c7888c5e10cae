"""What the loaders of every world share: adding many rows, setting up tenants, making key secrets."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import Connection, Table, insert

from service.access import keys
from service.operations.tenant_parts import WORK

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
class Minting:
    """Makes the secrets of a world's keys and remembers them for the one file they are written to."""

    secret: bytes
    minted: dict[str, dict[str, str]] = field(default_factory=dict)

    def mint(self, name: str, key_id: str) -> Row:
        """The columns of a new key that come from its secret. Raises ValueError when the world names two keys alike."""
        if name in self.minted:
            raise ValueError(f"two keys of this world are named {name!r}")
        plain = keys.mint()
        self.minted[name] = {"id": key_id, "secret": plain}
        return {"key_prefix": keys.prefix(plain), "key_hash": keys.digest(self.secret, plain)}
