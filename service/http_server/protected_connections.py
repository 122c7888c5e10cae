"""The connections that are not closed in favour of others. Event loop only.

A connection is protected while a credential that it has carried is accepted, within two limits: of a person or
workload, with all its credentials, and of all together. So neither one person with many keys nor many people with a few
idle connections shut out others.
"""

from collections import Counter
from collections.abc import Collection
from typing import Generic, TypeVar

from service.principal import Principal

C = TypeVar("C")

SHARE_OF_ALL = 2
SHARE_OF_ACTOR = 16
"""Of the protected connections."""
MAX_CREDENTIALS = 8
"""Of a connection. A trusted proxy sends requests of many people on one; the latest count."""


class ProtectedConnections(Generic[C]):
    """A registry of connections and the credentials that they have carried.

    Args:
        max_total: connections of all sources together.
    """

    def __init__(self, max_total: int) -> None:
        self.resize(max_total)
        self._credentials: dict[C, dict[str, str]] = {}
        """By connection: the ids of the credentials that it has carried, and their persons or workloads."""
        self._connections: dict[str, set[C]] = {}
        """By id of a credential."""
        self._principals: dict[str, Principal] = {}
        """The latest principal by id of a credential."""
        self._actors: dict[C, str] = {}
        """The person or workload in whose share a connection is protected."""
        self._counts: Counter[str] = Counter()

    def resize(self, max_total: int) -> None:
        self.max_protected = max(1, max_total // SHARE_OF_ALL)
        self.max_of_actor = max(1, self.max_protected // SHARE_OF_ACTOR)

    def __len__(self) -> int:
        return len(self._actors)

    def __contains__(self, connection: C) -> bool:
        return connection in self._actors

    def principals(self) -> Collection[Principal]:
        """Return the principals of all credentials."""
        return list(self._principals.values())

    def add(self, connection: C, principal: Principal) -> None:
        """Protect a connection whose request has an accepted credential, if its share is not used up."""
        credentials, credential = self._credentials.setdefault(connection, {}), str(principal.credential_id)
        self._principals[credential] = principal
        if credential not in credentials:
            credentials[credential] = principal.actor_id
            self._connections.setdefault(credential, set()).add(connection)
            if len(credentials) > MAX_CREDENTIALS:
                self._forget(connection, next(iter(credentials)))
        if connection not in self._actors:
            self._protect(connection, principal.actor_id)

    def remove(self, connection: C) -> None:
        for credential in list(self._credentials.get(connection, ())):
            self._forget(connection, credential)
        self._credentials.pop(connection, None)

    def revoke(self, credential: str) -> list[C]:
        """Forget a credential that is no longer accepted; return the connections that lost their protection."""
        connections = [each for each in self._connections.get(credential, ()) if each in self._actors]
        for connection in list(self._connections.get(credential, ())):
            self._forget(connection, credential)
        return [connection for connection in connections if connection not in self._actors]

    def _forget(self, connection: C, credential: str) -> None:
        """Forget a credential of a connection, which stays protected by the others that it has carried."""
        credentials = self._credentials[connection]
        del credentials[credential]
        self._connections[credential].discard(connection)
        if not self._connections[credential]:
            del self._connections[credential], self._principals[credential]
        actor, others = self._actors.get(connection), credentials.values()
        if actor is not None and actor not in others:
            self._unprotect(connection, actor)
            for other in dict.fromkeys(others):
                if connection not in self._actors:
                    self._protect(connection, other)

    def _protect(self, connection: C, actor: str) -> None:
        if len(self._actors) < self.max_protected and self._counts[actor] < self.max_of_actor:
            self._actors[connection] = actor
            self._counts[actor] += 1

    def _unprotect(self, connection: C, actor: str) -> None:
        del self._actors[connection]
        self._counts[actor] -= 1
        if not self._counts[actor]:
            del self._counts[actor]
