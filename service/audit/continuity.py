"""Whether the stored chain continues a mark, and the start of a platform, which requires this."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, func, select

from service.audit import chain, entries
from service.audit.entries import AuditEvent
from service.audit.mark import Mark, MarkDamagedError, MarkFile, Origin, reason_digest
from service.audit.seals import ChainBroken, key_of, require_head
from service.clock import wire_time
from service.db.engine import Database
from service.db.prepared import prepared
from service.db.tables import EPOCH, MICROSECOND, audit_checkpoints, audit_head, audit_log
from service.principal import PLATFORM

logger = logging.getLogger(__name__)

_MARKED = audit_log.c.sequence == bindparam("entries")
# Of a replica of a release before 0017; the sealer numbers it.
_UNNUMBERED = audit_log.c.sequence.is_(None) & (audit_log.c.hash == bindparam("hash"))
_POSITION = prepared(
    select(
        audit_head,
        func.coalesce(
            select(audit_log.c.hash).where(_MARKED).limit(1).scalar_subquery(),
            select(audit_log.c.hash).where(_UNNUMBERED).limit(1).scalar_subquery(),
        ).label("marked"),
        select(func.max(audit_checkpoints.c.last_sequence)).scalar_subquery().label("dropped"),
    )
)


class ChainReplaced(ChainBroken):
    """The chain is shorter than the mark, or another one."""


@dataclass(frozen=True, slots=True)
class Position:
    """The head of the stored chain. `has_marked`: whether the entry of the mark is in the log, and was not dropped."""

    chain: int
    entries: int
    hash: str
    has_marked: bool


def locate(connection: Connection, key: bytes, mark: Mark | None) -> Position:
    """Return the head of the chain, which must continue the mark; one statement.

    Raises:
        ChainReplaced: the chain does not continue the mark.
        ChainBroken: the head is missing or forged.
    """
    parameters = {"entries": mark.entries if mark else 0, "hash": mark.hash if mark else ""}
    row = connection.execute(_POSITION, parameters).one_or_none()
    head = require_head(None if row is None else row._asdict(), key)
    assert row is not None
    position = Position(_microseconds(head["began_at"]), head["entries"], head["hash"], row.marked is not None)
    if mark is not None and mark.chain is not None and not _continues(position, mark, row):
        raise ChainReplaced(
            f"the audit log was set back or replaced: it has {describe(position)}, and this data directory recorded"
            f" {describe(mark)}"
        )
    return position


def _continues(position: Position, mark: Mark, row: Any) -> bool:
    if position.chain != mark.chain or position.entries < mark.entries:
        return False
    if position.entries == mark.entries:
        return position.hash == mark.hash
    # The checkpoint of a dropped entry has a seal of its own.
    return mark.entries == 0 or row.marked == mark.hash or (row.marked is None and mark.entries <= (row.dropped or 0))


def describe(head: Position | Mark | None) -> str:
    """Return a head in words, for errors and the log."""
    if head is None or head.chain is None:
        return "no chain"
    return f"{head.entries} entries since {wire_time(EPOCH + head.chain * MICROSECOND)} with the head {head.hash}"


def facts(head: Position | Mark | None) -> Mapping[str, Any] | None:
    """Return a head for the details of an audit entry and for operators."""
    if head is None or head.chain is None:
        return None
    return {
        "entries": head.entries,
        "head": head.hash,
        "chainedSince": wire_time(EPOCH + head.chain * MICROSECOND),
    }


def _microseconds(instant: datetime) -> int:
    return (instant - EPOCH) // MICROSECOND


def current_mark(connection: Connection, secret: bytes, origin: Origin, at: datetime) -> Mark:
    """Return a mark of the chain as it is; one that takes any chain if the head is missing or forged."""
    try:
        position = locate(connection, key_of(secret), None)
    except ChainBroken:
        return Mark(None, 0, "", origin, wire_time(at))
    return Mark(position.chain, position.entries, position.hash, origin, wire_time(at))


class ChainStart:
    """The audit log at the start of a platform: compare the chain with the mark, then begin or continue it.

    Args:
        reason: why an operator accepts another chain; valid once.

    Raises:
        ValueError: the chain does not continue the mark, or the file of the mark cannot be used.
    """

    def __init__(self, database: Database, secret: bytes, file: MarkFile, reason: str | None) -> None:
        self._database, self._secret, self._file = database, secret, file
        self._reason = reason
        self._fault: str | None = None
        """Why the chain that an operator accepts is not the recorded one."""
        self._mark: Mark | None = None
        try:
            self._mark = file.read()
            if self._mark is not None and self._mark.chain is not None:
                with database.read() as connection:
                    locate(connection, key_of(secret), self._mark)
        except (ChainBroken, MarkDamagedError) as error:
            if not self._may_accept(reason):
                raise ValueError(self._refusal(error)) from None
            self._fault = str(error)

    def _may_accept(self, reason: str | None) -> bool:
        # Settings stay in unit files: one reason must not accept every later replacement.
        return reason is not None and (self._mark is None or self._mark.accepted != reason_digest(reason))

    def _refusal(self, error: Exception) -> str:
        if isinstance(error, MarkDamagedError):
            return str(error)
        found = "" if isinstance(error, ChainReplaced) else f"; this data directory recorded {describe(self._mark)}"
        again = " (a reason accepts one chain: give another one)" if self._reason else ""
        return (
            f"restore a backup (frost platform restore), or start once with --accept-new-chain REASON{again}:"
            f" {error}{found}"
        )

    def finish(self, at: datetime, *, rolling: bool, is_new: bool, is_upgrade: bool) -> Mark | None:
        """Begin a missing chain and write the mark; return it.

        If the chain is broken, return the mark of the file, which has no chain; None without one.

        The hooks of `install_audit_hooks` write the entry.

        Args:
            rolling: as for `initialize_chain`.
            is_new: the database had no seed, also after a first start that was interrupted.
            is_upgrade: this start migrated the database of an earlier release.
        """
        if self._fault is not None:
            return self._accept(at)
        if self._mark is not None and self._mark.chain is not None:
            return self._mark
        chain.initialize_chain(self._database, self._secret, at, rolling=rolling)
        origin = Origin.NEW if is_new else Origin.UPGRADED if is_upgrade else Origin.ADOPTED
        with self._database.read() as connection:
            mark = current_mark(connection, self._secret, self._mark.origin if self._mark else origin, at)
        if mark.chain is None:
            return self._mark
        if self._mark is not None:
            mark = replace(mark, accepted=self._mark.accepted)
        record_adoption(self._database, self._file, mark, at)
        self._write(mark)
        return mark

    def _accept(self, at: datetime) -> Mark:
        """Continue with the chain that is there. Without a valid head, begin another one over its entries."""
        with self._database.read() as connection:
            found = current_mark(connection, self._secret, Origin.ACCEPTED, at)
        if found.chain is None:
            chain.begin_again(self._database, self._secret, at)
        logger.warning("another audit log was accepted (%s): %s", self._reason, self._fault)
        details = {"reason": self._reason, "recorded": facts(self._mark), "found": facts(found)}
        _record(self._database, AuditEvent.AUDIT_CHAIN_ACCEPT, at, **details)
        with self._database.read() as connection:
            mark = current_mark(connection, self._secret, Origin.ACCEPTED, at)
        mark = replace(mark, accepted=reason_digest(self._reason or ""))
        # Last: a start that is interrupted before it accepts again.
        self._write(mark)
        return mark

    def _write(self, mark: Mark) -> None:
        try:
            self._file.write(mark)
        except OSError as error:
            # `ChainWatch` tries again. A full disk must not prevent reads.
            logger.error("%s cannot be written: %s", self._file.path, error.strerror)


def record_adoption(database: Database, file: MarkFile, mark: Mark, at: datetime) -> None:
    """Write the audit entry and the warning of a mark that takes the stored chain without a reason of its own."""
    if mark.origin is Origin.ADOPTED:
        logger.warning("%s has no mark of this platform: it follows the stored audit log", file.path)
        _record(database, AuditEvent.AUDIT_CHAIN_ADOPT, at, found=facts(mark))


def _record(database: Database, event: AuditEvent, at: datetime, **details: Any) -> None:
    with database.write() as connection:
        entries.record(connection, PLATFORM, event=event, target="audit:chain", details=details, at=at)
