"""Revisions of the data that authorization uses, and the locks that order changes after them (PostgreSQL).

A domain is the id of an organization, person or tenant, or the catalogue. Triggers increase its revision (migrations
0013, 0015 and 0019; `service/db/triggers.py` checks that they exist). A decision that was made under revisions is still
valid if they are equal in the transaction of the change, and if they cannot change before its commit:

- A transaction that increases the revision of an organization, a person or the catalogue holds an exclusive advisory
  lock of the domain when it commits. The triggers take it (migration 0018), also for statements of an administrator.
- A change holds the locks of all domains of its decision from its first statement: a shared lock is sufficient if the
  change does not increase the revision. It compares the revisions after it has the locks.

So a revocation that has committed is seen, and one that has not waits for the changes that were decided before it.
PostgreSQL grants these locks in the order of the requests, so that a stream of changes does not delay a revocation, and
keeps them in memory: unlike a row lock, they cause no write.

To avoid deadlocks, a transaction locks its domains at once, in their order, before it locks rows. If it only learns the
domains from the triggers, at its commit, it must lock no rows that a change locks. Each domain occupies an entry of the
lock table of PostgreSQL, which has space for some 20,000 by default (`max_locks_per_transaction`).

SQLite has a single writer, and needs no locks.
"""

from collections.abc import Hashable, Iterable, Mapping
from functools import cache
from typing import Any

from sqlalchemy import ARRAY, BigInteger, Connection, Select, String, Text, bindparam, column, func, or_, select

from service.db.prepared import Reader, prepared
from service.db.tables import revisions

Revisions = Mapping[str, int]
"""Revisions by domain."""
CATALOGUE_DOMAIN = "catalogue"

_LOCKED = func.lock_revisions(
    bindparam("exclusive", type_=ARRAY(Text)), bindparam("shared", type_=ARRAY(Text))
).table_valued(column("domain", String), column("revision", BigInteger))
_LOCK = prepared(select(_LOCKED.c.domain, _LOCKED.c.revision))


def read_revisions(connection: Connection, domains: Iterable[str]) -> Revisions:
    """Return the revisions of some domains; 0 of a domain in which nothing has changed."""
    memory = memory_of(connection)
    if memory is None:
        return _read_stored(connection, domains)
    names = list(domains)
    if missing := [domain for domain in names if domain not in memory]:
        memory.update(_read_stored(connection, missing))
    return {domain: memory[domain] for domain in names}


def memory_of(connection: Connection) -> dict[Hashable, Any] | None:
    """Return the memory of a `Reader`, which takes the place of a connection on the event loop."""
    reader: object = connection
    return reader.memory() if isinstance(reader, Reader) else None


def _read_stored(connection: Connection, domains: Iterable[str]) -> Revisions:
    by_domain = dict.fromkeys(domains, 0)
    parameters = {f"domain_{number}": domain for number, domain in enumerate(by_domain)}
    by_domain.update((domain, revision) for domain, revision in connection.execute(_select(len(by_domain)), parameters))
    return by_domain


def lock_revisions(connection: Connection, *, exclusive: Iterable[str] = (), shared: Iterable[str] = ()) -> Revisions:
    """Lock domains until the transaction ends; return their revisions under the locks."""
    parameters = {"exclusive": list(exclusive), "shared": list(shared)}
    domains = parameters["exclusive"] + parameters["shared"]
    if connection.dialect.name == "sqlite":
        return read_revisions(connection, domains)
    by_domain = dict.fromkeys(domains, 0)
    by_domain.update((domain, revision) for domain, revision in connection.execute(_LOCK, parameters))
    return by_domain


def lock_domains(connection: Connection, domains: Iterable[str], *, shared: bool = False) -> None:
    """Lock domains until the transaction ends, like `lock_revisions`. Does nothing on SQLite."""
    if connection.dialect.name == "postgresql":
        lock_revisions(connection, **{"shared" if shared else "exclusive": domains})


@cache
def _select(count: int) -> Select[str, int]:
    # Not an expanding parameter, for which SQLAlchemy would build the text of each statement.
    domains = [bindparam(f"domain_{number}", type_=String) for number in range(count)]
    return prepared(
        select(revisions.c.domain, revisions.c.revision).where(
            or_(*(revisions.c.domain == domain for domain in domains))
        )
    )
