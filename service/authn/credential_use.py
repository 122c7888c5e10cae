"""When API keys and sessions were last used: gathered in memory once a minute for each, and written in batches."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import Connection, select, text

from service.db.statements import chunks
from service.db.tables import EPOCH, MICROSECOND, api_keys, sessions
from service.principal import Principal

# The instants are only displayed, so not every request writes them.
RECORD_INTERVAL = timedelta(minutes=1)
MAX_RECORDED = 10_000


class Credential(NamedTuple):
    table: str
    id: str


_TABLES = {"api_keys": (api_keys, api_keys.c.last_used_at), "sessions": (sessions, sessions.c.last_seen_at)}
_UPDATE_SQLITE = {
    name: text(f"UPDATE {name} SET {of.name} = max(coalesce({of.name}, 0), :at) WHERE id = :id")  # noqa: S608
    for name, (_, of) in _TABLES.items()
}
# Skips locked rows: waiting for a change while others are locked could deadlock.
_UPDATE_POSTGRESQL = {
    name: text(f"""
        WITH used AS (SELECT * FROM unnest(CAST(:ids AS text[]), CAST(:instants AS bigint[])) AS used(id, at)),
        free AS (
            SELECT id FROM {name} WHERE id = ANY(CAST(:ids AS text[])) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
        )
        UPDATE {name} SET {of.name} = greatest({name}.{of.name}, used.at) FROM used JOIN free ON free.id = used.id
        WHERE {name}.id = used.id RETURNING {name}.id
    """)  # noqa: S608 - constants
    for name, (_, of) in _TABLES.items()
}


def is_use_due(last_used_at: datetime | None, at: datetime) -> bool:
    """Return whether to record the use of a credential, which is done once a minute."""
    return last_used_at is None or at - last_used_at >= RECORD_INTERVAL


class CredentialUse:
    """Gathers the latest uses of credentials. Thread-safe, because it changes each dictionary in one step."""

    def __init__(self, max_recorded: int = MAX_RECORDED) -> None:
        self._pending: dict[Credential, datetime] = {}
        self._recorded: dict[Credential, datetime] = {}
        self._max_recorded = self._min_recorded = max_recorded

    def record(self, principal: Principal, at: datetime) -> None:
        """Note the use of an API key or a session, unless that was done within the minute. Does not wait."""
        if principal.key_id is not None:
            credential = Credential("api_keys", principal.key_id)
        elif principal.session_id is not None:
            credential = Credential("sessions", principal.session_id)
        else:
            return
        if is_use_due(self._recorded.get(credential) or principal.last_used_at, at):
            self._recorded[credential] = self._pending[credential] = at

    def drain(self) -> Mapping[Credential, datetime]:
        batch = {}
        while self._pending:
            credential, at = self._pending.popitem()
            batch[credential] = at
        if len(self._recorded) > self._max_recorded:
            self._forget(max(batch.values(), default=EPOCH))
        return batch

    def _forget(self, at: datetime) -> None:
        """Forget uses that no longer keep a use from being due."""
        self._recorded = {
            credential: recorded
            for credential, recorded in self._recorded.copy().items()
            if not is_use_due(recorded, at)
        }
        self._max_recorded = max(self._min_recorded, 2 * len(self._recorded))

    def write(self, connection: Connection, batch: Mapping[Credential, datetime]) -> None:
        """Write uses. Removed credentials are ignored, and locked ones are written later."""
        for name, (table, _) in _TABLES.items():
            ids = sorted(credential.id for credential in batch if credential.table == name)
            for part in chunks(ids):
                instants = {id: (batch[Credential(name, id)] - EPOCH) // MICROSECOND for id in part}
                if connection.dialect.name == "sqlite":
                    rows = [{"id": id, "at": at} for id, at in instants.items()]
                    connection.execute(_UPDATE_SQLITE[name], rows)
                    continue
                values = {"ids": list(instants), "instants": list(instants.values())}
                written = set(connection.scalars(_UPDATE_POSTGRESQL[name], values))
                if left := instants.keys() - written:
                    locked = connection.scalars(select(table.c.id).where(table.c.id.in_(left)))
                    self.put_back({each: batch[each] for each in (Credential(name, id) for id in locked)})

    def put_back(self, batch: Mapping[Credential, datetime]) -> None:
        for credential, at in batch.items():
            self._pending.setdefault(credential, at)
