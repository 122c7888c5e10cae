"""Empties the caches of authority, or turns them off, when revisions do not tell what has changed.

- The database was set back, by a failover to a server that lags or by a restore: it has another origin, or a revision
  is lower than before. Revisions and digests keep old entries from being used; they are dropped all the same.
- Triggers are missing or disabled. Each request is decided from the database until they are back. SQLite reports a
  change of the schema to the next request, so that they are missed at once.
- Triggers were altered since the last check, so changes may have passed them. All revisions are increased, because
  other processes may not have noticed.
"""

import logging
import threading
from collections.abc import Hashable
from functools import partial
from itertools import islice

from service.authz.decisions import PolicyEngineCache
from service.authz.grant_caches import AuthorityCache, SubjectCache
from service.db.engine import Database
from service.db.revisions import Revisions, read_revisions
from service.db.triggers import Trigger, increase_all_revisions, read_triggers

logger = logging.getLogger(__name__)

CHECK_SECONDS = 60.0
CONFIRM_SECONDS = 1.0
MAX_CONFIRMED = 100
"""Domains of which revisions are read at once."""


class CacheGuard:
    """Guards the caches of a process. `check` and `confirm` are called at intervals; after an error, again."""

    def __init__(
        self, database: Database, authorities: AuthorityCache, subjects: SubjectCache, decisions: PolicyEngineCache
    ) -> None:
        self._database = database
        self._authorities, self._subjects, self._decisions = authorities, subjects, decisions
        self._lock = threading.Lock()
        self._suspected: dict[str, int] = {}
        self._alterations: Hashable = None
        self.missing: tuple[Trigger, ...] = ()
        """Triggers that do not work, so that the caches are off."""
        self.set_backs = 0
        self._suspensions = self._checked_suspensions = 0
        database.loop_reads.on_schema_change = self.suspend
        database.origin.on_change = partial(self._drop, "connections lead to another database or timeline")

    def compare(self, stored: Revisions, seen: Revisions) -> None:
        """Note revisions that are lower than before. Usually a snapshot is older, so `confirm` reads them again."""
        lower = {domain: revision for domain, revision in seen.items() if stored.get(domain, revision) < revision}
        if lower:
            with self._lock:
                for domain, revision in lower.items():
                    self._suspected[domain] = max(revision, self._suspected.get(domain, 0))

    def suspend(self) -> None:
        """Turn the caches off until the next check, which `confirm` runs."""
        with self._lock:
            self._suspensions += 1
            self._switch(is_on=False)

    def confirm(self) -> None:
        """Check the triggers after a change of the schema. Read the revisions again that were lower.

        Drop the caches if the database was set back.
        """
        if self._suspensions != self._checked_suspensions:
            self.check()
        with self._lock:
            suspected = dict(islice(self._suspected.items(), MAX_CONFIRMED))
        if not suspected:
            return
        with self._database.read_committed() as connection:
            stored = read_revisions(connection, suspected)
        is_set_back = any(stored[domain] < revision for domain, revision in suspected.items())
        with self._lock:
            for domain in list(self._suspected) if is_set_back else suspected:
                self._suspected.pop(domain, None)
        if is_set_back:
            self._drop("a revision is lower than before")

    def check(self) -> None:
        """Check the origin of the database, and the triggers."""
        self._database.observe_origin()
        # Before the triggers are read: a later change of the schema suspends again.
        suspensions = self._suspensions
        with self._database.read_committed() as connection:
            state = read_triggers(connection)
        if state.missing:
            self._report(state.missing)
        elif self.missing or self._alterations not in (None, state.alterations):
            # Off until the increase is committed: an older snapshot has the same revisions before. After an error,
            # `confirm` checks again.
            self.suspend()
            suspensions += 1
            self._clear()
            with self._database.write() as connection:
                increase_all_revisions(connection)
            logger.warning(
                "the triggers of revisions were altered; all revisions were increased%s",
                ", and grants are cached again" if self.missing else "",
            )
        if not state.missing:
            self._alterations = state.alterations
        self.missing = state.missing
        with self._lock:
            self._checked_suspensions = suspensions
            self._switch(is_on=not state.missing and suspensions == self._suspensions)

    def _report(self, missing: tuple[Trigger, ...]) -> None:
        if missing != self.missing:
            names = ", ".join(f"{trigger.name} on {trigger.table}" for trigger in missing[:10])
            logger.error(
                "%s triggers of revisions are missing, disabled or altered; grants are not cached, and each request is"
                " decided from the database, until they are back: %s",
                len(missing),
                names,
            )

    def _drop(self, reason: str) -> None:
        self.set_backs += 1
        self._clear()
        logger.warning("the database was set back or replaced: %s; all caches were dropped", reason)

    def _clear(self) -> None:
        self._authorities.clear()
        self._subjects.clear()
        self._decisions.clear()
        self._database.loop_reads.forget()

    def _switch(self, *, is_on: bool) -> None:
        self._authorities.switch(is_on=is_on)
        self._subjects.switch(is_on=is_on)
        self._decisions.switch(is_on=is_on)
