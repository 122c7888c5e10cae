"""Which database a connection leads to, to notice a failover or a restore below running processes."""

import logging
import threading
from collections.abc import Callable, Hashable
from typing import Any

logger = logging.getLogger(__name__)

# The timeline increases with each promotion of a standby and each recovery to a point in time; a standby shows none. A
# database that was dropped and created again has another id.
POSTGRESQL = """
SELECT (SELECT system_identifier FROM pg_control_system())::text,
       (SELECT oid FROM pg_database WHERE datname = current_database())::text,
       CASE WHEN pg_is_in_recovery() THEN NULL ELSE substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END
"""


class Origin:
    """The origin of the latest connection: system identifier, database and timeline, or device and inode."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        """Called in the thread that opens a connection."""
        self._lock = threading.Lock()
        self._current: Hashable = None
        self.is_known = True
        """False if the server does not show its origin."""

    def observe(self, origin: tuple[Hashable, ...] | None) -> None:
        """Compare the origin of a connection with that of the previous one; None, or None in it, is unknown."""
        if origin is None or None in origin:
            return
        with self._lock:
            previous, self._current = self._current, origin
        if previous is not None and previous != origin:
            self.on_change()

    def give_up(self, error: Exception) -> None:
        """Observe no further connections: the server may be no PostgreSQL, or the role may not ask."""
        if self.is_known:
            logger.info("the server shows no timeline, so failovers are not noticed: %s", error)
        self.is_known = False

    def observe_postgresql(self, driver_connection: Any) -> None:
        """Observe a connection of psycopg, without a transaction, which would cost two round trips."""
        if not self.is_known:
            return
        import psycopg

        autocommit = driver_connection.autocommit
        driver_connection.autocommit = True
        try:
            self.observe(driver_connection.execute(POSTGRESQL).fetchone())
        except (psycopg.ProgrammingError, psycopg.NotSupportedError) as error:
            self.give_up(error)
        except psycopg.Error:
            # The connection is lost, or the server is too busy.
            return
        finally:
            if not driver_connection.closed:
                driver_connection.autocommit = autocommit
