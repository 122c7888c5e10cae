"""Watches the chain of a running platform: advances its mark, and refuses changes while the chain does not continue it.

A thread looks once a second while this process writes entries, so that neither requests nor changes wait for it. Ten
seconds after the last entry, it looks every ten seconds, for those of other replicas. It writes the mark only if the
chain has grown: at most once a second, within a second after the last change of this process, and at the stop.
"""

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.audit.continuity import facts, locate, record_adoption
from service.audit.mark import Mark, MarkFile, MarkRefusedError, Origin
from service.audit.seals import ChainBroken, key_of
from service.clock import Clock, wire_time
from service.db.engine import Database

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
IDLE_LOOKS = 10
"""How many pauses an idle process waits. It is idle so many pauses after an entry, which may be committed late."""
STOP_SECONDS = 10.0


class ChainWatch:
    """The state of the chain in this process.

    `mark` is set to what `ChainStart.finish` returns; None to take the first valid chain.

    Args:
        seconds: the pause between two looks while entries are written.
    """

    def __init__(
        self,
        database: Database,
        secret: bytes,
        file: MarkFile,
        clock: Clock,
        *,
        seconds: float = LOOK_SECONDS,
    ) -> None:
        self._database, self._key, self._file, self._clock = database, key_of(secret), file, clock
        self._seconds = seconds
        self.mark: Mark | None = None
        """The last entry of the chain that this process has seen."""
        self._stored: Mark | None = None
        """What this process has written to the file."""
        self._fault: str | None = None
        self._write_error: str | None = None
        self._is_failing = False
        self._stopping = threading.Event()
        self._has_entries = threading.Event()
        """Entries were written since the last look began."""
        self._thread: threading.Thread | None = None

    def require_intact(self) -> None:
        """Raise ChainBroken while changes are refused."""
        if self._fault is not None:
            raise ChainBroken(self._fault)

    def admit_entries(self) -> None:
        """Look soon, because a change writes entries. Raise ChainBroken while changes are refused."""
        self.require_intact()
        self._has_entries.set()

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="audit mark", daemon=True)
        self._thread.start()

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Write the mark of the last change, and stop.

        Args:
            seconds: how long to wait for a database that does not answer.
        """
        self._stopping.set()
        self._has_entries.set()
        if self._thread is not None:
            self._thread.join(seconds)
            self._thread = None

    def _run(self) -> None:
        idle_seconds = IDLE_LOOKS * self._seconds
        idle_at = time.monotonic() + idle_seconds
        while not self._stopping.is_set():
            # The repair of a refused chain writes no entry here.
            is_idle = self._fault is None and time.monotonic() >= idle_at
            if self._has_entries.wait(idle_seconds if is_idle else self._seconds):
                self._stopping.wait(self._seconds)
                self._has_entries.clear()
                idle_at = time.monotonic() + idle_seconds
            self._look_safely()
        # After the sealer has stopped.
        self._look_safely()

    def _look_safely(self) -> None:
        try:
            self.look()
        except Exception as error:
            # The database does not answer, which requests and `/readyz` report.
            if not self._is_failing:
                logger.warning("the audit log cannot be compared with its mark: %s", type(error).__name__)
            self._is_failing = True
        else:
            self._is_failing = False

    def look(self) -> None:
        """Compare the chain with the mark. Refuse changes if it does not continue the mark, otherwise advance it."""
        mark = self.mark
        try:
            with self._database.read_committed() as connection:
                position = locate(connection, self._key, mark)
        except ChainBroken as error:
            self._refuse(str(error))
            return
        if self._fault is not None:
            # A chain that only grew beyond the mark has raised. Its entry must be there, not in a dropped segment.
            if mark is not None and mark.chain is not None and not position.has_marked:
                return
            logger.warning("the audit log continues its mark again; changes are accepted")
            self._fault = None
        is_first = mark is None or mark.chain is None
        now = self._clock.now()
        if mark is None:
            mark = Mark(None, 0, "", Origin.ADOPTED, wire_time(now))
        mark = replace(mark, chain=position.chain, entries=position.entries, hash=position.hash)
        if is_first:
            # The chain was broken at the start.
            record_adoption(self._database, self._file, mark, now)
        self.mark = mark
        if self.mark != self._stored:
            self._write(self.mark)

    def _refuse(self, fault: str) -> None:
        if self._fault is None:
            logger.error("changes are refused: %s", fault)
        self._fault = fault

    def _write(self, mark: Mark) -> None:
        try:
            self._file.advance(mark)
        except (MarkRefusedError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            if self._write_error is None:
                logger.error("%s cannot be written: %s", self._file.path, reason)
            self._write_error = str(reason)
        else:
            self._stored, self._write_error = mark, None

    def report(self) -> Mapping[str, Any]:
        """Return the state of the mark, for operators."""
        mark, fault, error = self.mark, self._fault, self._write_error
        state = "refused" if fault else "not written" if error else "ok" if mark and mark.chain else "none"
        origin = {"origin": mark.origin.value, "originAt": mark.at} if mark else {}
        return {"state": state, "reason": fault or error, **(facts(mark) or {}), **origin}
